"""Queue reasons: why a task waits in the queue, from figures about workers. Used by the balancer and the monitor."""

from __future__ import annotations

from scaler.actors.vocabulary.capacity import Capacity
from scaler.wire.messages.priority import user_priority_of
from scaler.wire.messages.vocabulary import NO_ROOM, NO_WORKER, NOT_ABLE, TAKEN, TURN, Reason


def queue_reason(found: Capacity) -> tuple[Reason, str]:
    """Return what a task in the balancer's queue waits for."""
    if not found.workers:
        return NO_WORKER, "no worker is connected to the scheduler; start workers with scaler_cluster ADDRESS"
    if found.missing:
        return NOT_ABLE, f"no worker can take it: {found.missing}"
    if found.asked and not (found.has_free and found.with_room):
        taken = "and other tasks use all of it" if not found.has_free else "but where it is free, all workers are full"
        have = "the worker has" if found.able == 1 else f"{found.able:,} workers have"
        return NO_ROOM if found.has_free else TAKEN, (
            f"it asks for {found.asked}; {have} that, {taken}; it starts when other tasks have ended, and "
            "earlier with more such workers"
        )
    if found.with_room:
        return TURN, "a worker has a free place, and receives it in a moment"
    are = "the one worker is" if found.workers == 1 else f"all {found.workers:,} workers are"
    if found.held:
        and_are = "and is" if found.workers == 1 else f"and {found.held:,} of them {'is' if found.held == 1 else 'are'}"
        return NO_ROOM, (
            f"{are} full, {and_are} paused, because memory and disk for values are full there. It starts when results "
            "are read or their futures dropped, and earlier with more object_memory_bytes or spill_bytes"
        )
    return NO_ROOM, (
        f"{are} full, with {found.tasks:,} task{'s' * (found.tasks != 1)}; it starts when some of these have ended, "
        "and earlier with more workers"
    )


def of_low_priority(found: tuple[Reason, str], priority: int) -> tuple[Reason, str]:
    """Return the explanation `found`, with the priority added if a negative priority makes the task wait longer."""
    wish = user_priority_of(priority)
    if wish >= 0 or found[0] not in (NO_ROOM, TAKEN):
        return found
    return found[0], f"{found[1]}; its priority is {wish}, so all tasks of its client with a higher one go first"
