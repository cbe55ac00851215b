"""The scheduler process: a ROUTER socket around the actors of `scaler.actors`.

`scheduler` puts socket, actors and loop together, and its edges turn bytes into batches and back.
"""
