"""Utilities that programs written for Scaler 1.x import from here.

No other module of Scaler imports this package. Most of its names are defined elsewhere now.
"""
