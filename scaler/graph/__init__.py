"""Graphs as plain data: reading a user's graph, the order of its nodes, and their readiness.

Clients read and order graphs; the scheduler asks which nodes can run next. The package knows keys, indices and edges,
but no tasks, messages or values of users.
"""
