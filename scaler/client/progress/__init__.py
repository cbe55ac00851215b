"""Progress for people: on a terminal, in a notebook, in a log."""
