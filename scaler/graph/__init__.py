"""Graphs as plain data: reading what a user wrote, the order of the nodes, and which of them can run."""
