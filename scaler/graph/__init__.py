"""Graphs as plain data: reading a user's graph, and the order of its calls.

Clients use it for each `get`. The package knows keys, indices and edges, but no tasks, messages or values of users.
"""
