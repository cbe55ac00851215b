"""What every process of Scaler needs around its actors: the loop that sleeps and wakes, and its log.

The main programs of schedulers and agents run in its loop, and worker processes use its log and its memory. It also
says what the system knows of a process. Never here: what the process is for.
"""
