"""Serializers, under the paths of programs that were written for Scaler 1.x."""
