"""The default serializer, under its path in Scaler 1.x."""

from scaler.pickling.serialization import DefaultSerializer

__all__ = ["DefaultSerializer"]
