"""Tasks that need results of other tasks, the values that they need, and what viewers see of them.

Owned by client sessions. A waiting task becomes an actor as soon as its values are there.
"""
