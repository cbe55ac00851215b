"""Graphs as plain data: reading a user's graph, the order of its nodes, and their readiness.

Clients read and order graphs with it, and the scheduler and the page ask it which nodes come next. All are functions
and values that know keys, indices and edges. Never here: a task, a message or a value of a user.
"""
