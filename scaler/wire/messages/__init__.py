"""Every message that crosses a process boundary.

An item is one thing (`Task`). On the wire, items for one peer travel as columns of one message, and arrive as one batch
(`Batch[Task]`). The annotations name the columns' types; `protocol/*.capnp` describes the same structs for other
languages, file by file, and a test compares the two field by field. `directions.py` says which message may travel which
way.
"""
