"""Reasons: why a task waits, in the words of the wire. Beside each, what it means.

The scheduler says them of its tasks, a client of those that the scheduler does not have. Must never: change a word,
because programs compare them.
"""

from __future__ import annotations

from typing import NewType

Reason = NewType("Reason", str)
"""What a task waits for, in a word or two."""

NO_WORKER = Reason("no worker")  # none is connected
NOT_ABLE = Reason("no worker can take it")  # none has what it asks for
TAKEN = Reason("taken")  # other tasks have what it asks for
NO_ROOM = Reason("no room")  # all workers that could take it have as much work as they get ahead
TURN = Reason("turn")  # nothing: it is about to be given to a worker
INPUTS = Reason("inputs")  # a node of a graph: the results of other nodes
RETRY = Reason("retry")  # the pause before its next try
WORKER = Reason("worker")  # it runs at a worker, or waits in the queue there
CHILDREN = Reason("children")  # tasks that it has submitted itself
LAST_SCHEDULER = Reason("last scheduler")  # whether a worker of the scheduler before this one has it already
CANCEL = Reason("cancel")  # its worker is stopping it
UNKNOWN = Reason("unknown")  # the scheduler does not have it

NO_SCHEDULER = Reason("no scheduler")  # said by a client: no scheduler answers
WINDOW = Reason("window")  # said by a client: the scheduler takes no more of its tasks
TRANSFER = Reason("transfer")  # said by a client: its arguments are on their way to the scheduler
ENDED = Reason("ended")  # said by a client: nothing, it has ended

STUCK = frozenset({NO_WORKER, NOT_ABLE, NO_SCHEDULER})
"""No task can go on before somebody does something."""
