"""The object store: values that are used more than once or are too large for a message, and which hosts have copies.

Sessions, tasks and graphs send it what they store and need. It handles values as bytes and does not read them.
"""
