"""Every message that crosses a process boundary.

An item is one message to a peer, such as a `Task`. On the wire, items for one peer travel as columns of one message,
and arrive as one batch (`Batch[Task]`). A class declares its directions, and its annotations are the types of the
columns. `protocol/*.capnp` describes the same structs for other languages, file by file, and a test compares the
fields. All processes import these classes, which have no behaviour.
"""

# Each direction knows all its messages, whichever module is imported first.
from scaler.wire.messages import client, common, monitor, processor, worker

__all__ = ["client", "common", "monitor", "processor", "worker"]
