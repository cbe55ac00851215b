"""Logging, under the path of Scaler 1.x.

Programs of that time import it, and nothing else does. What it calls is in `scaler.process`. Never here: any handler.
"""
