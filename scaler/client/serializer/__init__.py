"""Serializers, under the paths of programs that were written for Scaler 1.x.

Only such programs import them. The classes are in `scaler.client` and `scaler.pickling`.
"""
