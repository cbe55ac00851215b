"""Scaler: a distributed task engine for many small tasks, and for long ones that must not get lost."""

from scaler.version import __version__

__all__ = ["__version__"]
