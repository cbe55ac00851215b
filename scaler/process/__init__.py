"""What every process of Scaler needs around its actors: the loop that sleeps and wakes, and its log."""
