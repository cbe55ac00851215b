"""The scheduler process: a ROUTER socket around the actors of `scaler.actors`."""
