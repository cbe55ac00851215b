"""Logging, under the path of Scaler 1.x.

Only programs written for 1.x import it. What it calls is in `scaler.process`.
"""
