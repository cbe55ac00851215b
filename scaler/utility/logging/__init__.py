"""Logging, under the path of Scaler 1.x."""
