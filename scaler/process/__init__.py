"""Process: what every process of Scaler needs around its actors: the event loop, the log, and meters of memory and CPU.

The main programs of schedulers and agents run in the loop. Worker processes use the log and the memory functions.
"""
