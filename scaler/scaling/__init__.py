"""Scaling: how many workers there should be, and the commands that start and drain their clusters."""
