"""Serializers, under the paths from which programs for Scaler 1.x import them. The classes are in `scaler.client` and
`scaler.pickling`.
"""
