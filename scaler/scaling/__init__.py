"""Scaling: decides how many workers there should be, and runs the commands that start clusters and drains clusters.

The command `scaler_scale` runs `program`, which receives the monitor stream. `plan` decides, and `clusters` starts and
ends clusters by the user's command.
"""
