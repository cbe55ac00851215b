"""The scheduler process: a ROUTER socket around the actors of `scaler.actors`.

`scheduler` puts socket, actors and loop together. Its edges turn bytes into batches and back.
"""
