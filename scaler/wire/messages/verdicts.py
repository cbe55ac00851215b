"""Verdicts: the words for what limits a cluster (`StateVerdict.word`). They never change: programs compare them.

If tasks wait for a resource, the word is that resource, such as `gpu=1`.
"""

from __future__ import annotations

NO_NEWS = "no news"  # used by viewers only: the scheduler is silent
IDLE = "idle"  # no task is open
NO_WORKERS = "no workers"  # no worker is connected
NOT_ABLE = "no worker can run them"  # tasks are open, but no worker can run any of them
RETRIES = "retries"  # all open tasks are retried after a pause
SCHEDULER = "scheduler"  # its process uses most of a core
MACHINE = "the scheduler's machine"  # other processes take the processor time that the scheduler needs
WORKERS = "workers"  # all are busy
INPUTS = "inputs"  # most tasks wait for results of other tasks
CLIENTS = "clients"  # workers are free: clients do not submit faster
TRIPS = "round trips"  # tasks are so short that workers wait for the next ones
STARTS = "starts"  # workers have tasks, but do not execute them yet
VALUES = "values"  # workers are paused, because memory and disk for values are full

FACTS = frozenset({IDLE, NO_WORKERS, NOT_ABLE})
"""Verdicts that are facts rather than estimates. They are shown, and replaced, at once."""
