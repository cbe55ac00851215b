"""Serializers, under the paths that Scaler 1.x had.

Only programs written for Scaler 1.x import them. The classes are in `scaler.client` and `scaler.pickling`.
"""
