"""Serializers, under the paths of programs that were written for Scaler 1.x.

Only such programs import them. What they name is in `scaler.client` and `scaler.pickling`. Never here: code of its own.
"""
