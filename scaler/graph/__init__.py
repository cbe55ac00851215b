"""Graphs as plain data: reading a user's graph, the order of its nodes, and their readiness."""
