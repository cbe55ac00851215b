"""What every process of Scaler needs around its actors: the event loop, the log, and measurements of memory and CPU."""
