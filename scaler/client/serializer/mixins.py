"""The base of serializers, under its path in Scaler 1.x."""

from scaler.pickling.serialization import Serializer

__all__ = ["Serializer"]
