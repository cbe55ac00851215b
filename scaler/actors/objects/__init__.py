"""The object store: values that are used more than once or are too large for a message, and who has copies of them.

Sessions, tasks and graphs say what they need. It sees bytes, and never a value.
"""
