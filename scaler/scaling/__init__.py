"""Scaling: how many workers there should be, and the commands that start and drain their clusters.

The command `scaler_scale` runs `program`, which hears the monitor stream; `plan` decides, and `clusters` starts and
ends. Never here: how a cluster is started, which is the user's command.
"""
