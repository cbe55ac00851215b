"""Graphs as plain data: reading a user's graph, the order of its nodes, and their readiness.

Clients read and order graphs with this package; the scheduler and the page ask it which nodes can run next. It consists
of functions and values that know keys, indices and edges, but no tasks, messages or values of users.
"""
