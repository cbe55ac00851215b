"""One actor for each graph of a client: its nodes, the values that they need, and what viewers see of it.

Sessions start them. A node becomes a task as soon as its values are there.
"""
