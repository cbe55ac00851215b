"""The version of the package. It imports nothing, so that every layer may import it."""

__version__ = "0.1.0"
