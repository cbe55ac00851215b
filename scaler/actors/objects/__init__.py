"""The object store: keeps values that are used more than once or are too large for a message, and knows their copies.

Sessions, tasks and graphs store and request values here. The object store handles values as bytes and never decodes
them.
"""
