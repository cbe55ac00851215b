"""Every message that crosses a process boundary.

An item is one thing (`Task`). On the wire, items for one peer travel as columns of one message, and arrive as one batch
(`Batch[Task]`). A class says which way it travels, and its annotations name the columns' types; `protocol/*.capnp`
describes the same structs for other languages, file by file, and a test compares the two field by field. All processes
import these classes. What a message makes anybody do is never written here.
"""

# Each direction knows all its messages, whichever module is imported first.
from scaler.wire.messages import client, common, monitor, processor, worker

__all__ = ["client", "common", "monitor", "processor", "worker"]
