"""Scaling: decides how many workers there should be, and starts and drains clusters accordingly.

The command `scaler_scale` runs `program`, which receives the monitor stream. `plan` decides, and `clusters` starts
clusters by the user's command and drains them.
"""
