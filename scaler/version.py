"""The version of the package: a leaf, so that every layer may say it."""

__version__ = "0.1.0"
