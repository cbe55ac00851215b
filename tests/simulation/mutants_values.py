"""Values: mutants of what hosts keep, chosen from `docs/howto/objects.md`, decisions 18 to 20, and the interface.

Each breaks one sentence about values: what counts, what goes to the disk, who is told of a loss, what is made again. Of
the first eight one is not here: that a delete leaves a newer value with the same id. The delete is heard before the
order that makes this one, so only unit tests see it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import scaler.actors.tasks.task
import scaler.client.link.large_results
from scaler.actors.messages.objects import InputLost
from scaler.actors.objects.object_store import ObjectStore
from scaler.actors.sessions.client_session import ClientSession
from scaler.agent.paused_workers import PausedWorkers
from scaler.store.spill_folder import SpillFolder
from scaler.store.store import ValueStore
from tests.simulation.mutants import Mutant


def _what_comes_back_counts_twice() -> AbstractContextManager[Any]:
    bring_back = ValueStore._load

    def count_again(self: ValueStore, object_id: Any) -> None:
        bring_back(self, object_id)
        self._held_bytes += self._hot[object_id].n_bytes

    return patch.object(ValueStore, "_load", count_again)


def _arguments_count_for_ever() -> AbstractContextManager[Any]:
    count = scaler.actors.tasks.task.CountArguments
    return patch.object(scaler.actors.tasks.task, "CountArguments", lambda size, payer: count(max(0, size), payer))


def _what_is_dropped_counts_on_disk() -> AbstractContextManager[Any]:
    unlink = SpillFolder._unlink

    def keep_count(self: SpillFolder, object_id: Any) -> None:
        before = self.n_bytes
        unlink(self, object_id)
        self.n_bytes = before

    return patch.object(SpillFolder, "_unlink", keep_count)


def _held_workers_wait_for_room() -> AbstractContextManager[Any]:
    return patch.object(PausedWorkers, "look", lambda _self, _now: None)


def _tasks_hear_of_no_loss() -> AbstractContextManager[Any]:
    return patch.dict(ClientSession.handlers, {InputLost: lambda *_: None})


def _machines_keep_their_copies() -> AbstractContextManager[Any]:
    return patch.object(ObjectStore, "_delete_copies", lambda self, object_id: self._copies.remove_object(object_id))


def _what_is_read_goes_to_disk() -> AbstractContextManager[Any]:
    make_room = ValueStore.make_room

    def without_readers(self: ValueStore) -> bool:
        readers, self._readers = self._readers, type(self._readers)()
        try:
            return make_room(self)
        finally:
            self._readers = readers

    return patch.object(ValueStore, "make_room", without_readers)


def _what_may_be_made_once_is_made_again() -> AbstractContextManager[Any]:
    return patch.object(scaler.client.link.large_results, "is_at_most_once", lambda _options: False)


KINDS = ("values",)

VALUES = (
    Mutant("counted", "a value that comes back from the disk counts twice", _what_comes_back_counts_twice, KINDS),
    Mutant("arguments", "arguments count after their task has ended", _arguments_count_for_ever, KINDS),
    Mutant("on-disk", "a value that is dropped on disk still counts there", _what_is_dropped_counts_on_disk, KINDS),
    Mutant("stalled", "held workers go on only when there is room", _held_workers_wait_for_room, KINDS),
    Mutant("unheard-loss", "tasks that wait are not told of a value that was lost", _tasks_hear_of_no_loss, KINDS),
    Mutant("copies", "machines keep their copies of what nobody needs", _machines_keep_their_copies, KINDS),
    Mutant("readers", "a value that somebody reads goes to the disk", _what_is_read_goes_to_disk, KINDS),
    Mutant("made-once", "what may be made once is made again", _what_may_be_made_once_is_made_again, KINDS),
)
