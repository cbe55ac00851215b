"""Further mutants, chosen by somebody else than the author of the simulation.

Slips that a next change could make: one number too far, one table that is not cleared, one message that is not sent.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from scaler.actors.messages.adoption import AdoptRun, RunsLost
from scaler.actors.messages.peers import StartOver
from scaler.actors.objects.object_store import ObjectStore
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_objects import ClientObjects
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.tasks.adoption import Adoption
from scaler.actors.vocabulary.hellos import HeldRun
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.agent.ledger import Ledger
from scaler.executors.processes.slot.reserve import Reserve
from scaler.wire.codec.codec import decode, numbers
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorGone, RecallResponse, RunCancel
from scaler.wire.session.lane import BulkLane
from scaler.wire.session.pipe import Pipe
from tests.simulation.mutants import Mutant


def _repetitions_are_delivered() -> AbstractContextManager[Any]:
    receive = Pipe.receive

    def deliver(self: Pipe, header: bytes, frames: Any) -> Any:
        number, _heard = numbers(self._incoming, header)
        return decode(self._incoming, header, frames) if 0 < number <= self.heard else receive(self, header, frames)

    def resume(self: Pipe, heard: int) -> Any:
        kept = [(header, frames) for _, header, frames, *_ in self._kept]
        resumed(self, heard)
        return kept

    resumed = Pipe.resume
    return patch.multiple(Pipe, receive=deliver, resume=resume)


def _the_last_is_not_said_again() -> AbstractContextManager[Any]:
    resume = Pipe.resume
    return patch.object(Pipe, "resume", lambda self, heard: resume(self, heard)[:-1])


def _heard_results_are_kept() -> AbstractContextManager[Any]:
    return patch.object(Ledger, "heard", lambda *_: None)


def _clients_in_dead_processors_stay() -> AbstractContextManager[Any]:
    return patch.dict(AgentSession.handlers, {Batch[ProcessorGone]: lambda *_: None})


def _recalled_tasks_keep_their_places() -> AbstractContextManager[Any]:
    recalled = WorkerProxy.handlers[Batch[RecallResponse]]

    def without_places(self: WorkerProxy, responses: Any) -> None:
        for response in responses:
            run = self._runs.get(response.task_id)
            if run is not None:
                run.counted = run.expected_us = 0
        recalled(self, responses)

    return patch.dict(WorkerProxy.handlers, {Batch[RecallResponse]: without_places})


def _adopted_parents_keep_their_places() -> AbstractContextManager[Any]:
    adopt = WorkerProxy.handlers[AdoptRun]

    def as_if_it_ran(self: WorkerProxy, adoption: AdoptRun) -> None:
        orphan = self._orphans.find(adoption.spec.task_id, adoption.attempt)
        if orphan is not None:
            orphan.is_blocked = False
        adopt(self, adoption)

    return patch.dict(WorkerProxy.handlers, {AdoptRun: as_if_it_ran})


def _objects_go_with_their_owner() -> AbstractContextManager[Any]:
    disown = ObjectStore._disown

    def and_forget(self: ObjectStore, object_id: Any, owner: Any) -> None:
        disown(self, object_id, owner)
        stored = self._objects.get(object_id)
        if stored is not None and not stored.owners:
            self._forget(object_id, stored)

    return patch.object(ObjectStore, "_disown", and_forget)


def _tasks_overtake_their_objects() -> AbstractContextManager[Any]:
    return patch.object(BulkLane, "is_followed_by", lambda *_: False)


def _what_was_not_heard_is_not_told_again() -> AbstractContextManager[Any]:
    start_over = Peer.start_over
    return patch.object(Peer, "start_over", lambda self, dial: start_over(self, dial)[:0])


def _what_has_ended_is_forgotten() -> AbstractContextManager[Any]:
    return patch.object(ClientSession, "_unknown_rows", lambda _self, spec, _known: [spec])


def _runs_lost_are_not_known() -> AbstractContextManager[Any]:
    return patch.dict(Adoption.handlers, {RunsLost: lambda *_: None})


def _cancels_are_said_once() -> AbstractContextManager[Any]:
    compare = WorkerProxy.handlers[StartOver]

    def without_canceled(self: WorkerProxy, started: StartOver) -> None:
        canceled = [run for run in self._runs.values() if run.canceled]
        said = [(RunCancel, run.spec.task_id) for run in canceled]
        put = self._outbox.put

        def put_others(peer: Any, item: Any) -> None:
            if (type(item), getattr(item, "task_id", b"")) not in said:
                put(peer, item)

        with patch.object(self._outbox, "put", put_others):
            compare(self, started)

    return patch.dict(WorkerProxy.handlers, {StartOver: without_canceled})


def _who_waits_is_not_suspected() -> AbstractContextManager[Any]:
    give_back = WorkerProxy._give_back

    def without_waiting(self: WorkerProxy, was_lost: bool, unacknowledged: Any) -> None:
        waiting = {(run.spec.task_id, run.attempt) for run in self._runs.values() if run.released}
        give_back(self, was_lost, waiting.union(unacknowledged))

    return patch.object(WorkerProxy, "_give_back", without_waiting)


def _failed_starts_are_forgotten() -> AbstractContextManager[Any]:
    return patch.object(Reserve, "_not_coming", lambda *_: None)


def _claims_are_not_answered() -> AbstractContextManager[Any]:
    return patch.object(ClientObjects, "result_of", lambda *_: None)


def _missing_runs_keep_their_tasks() -> AbstractContextManager[Any]:
    start_over = WorkerProxy.handlers[StartOver]

    def with_all(self: WorkerProxy, started: StartOver) -> None:
        named = {run.task_id for run in started.held}
        missing = [HeldRun(key, run.attempt, 0, 0) for key, run in self._runs.items() if key not in named]
        start_over(self, replace(started, held=[*started.held, *missing]))

    return patch.dict(WorkerProxy.handlers, {StartOver: with_all})


FURTHER: tuple[Mutant, ...] = (
    Mutant("repeated", "what was heard is said again after a cut, and delivered again", _repetitions_are_delivered),
    Mutant("last", "the last message before a cut is not said again", _the_last_is_not_said_again),
    Mutant("ledger", "an agent keeps results that the scheduler has heard", _heard_results_are_kept),
    Mutant("nested", "clients inside a processor that died stay", _clients_in_dead_processors_stay),
    Mutant("places", "a task that is given back still counts at its worker", _recalled_tasks_keep_their_places),
    Mutant("adopted", "a parent that waits and is adopted takes a place", _adopted_parents_keep_their_places),
    Mutant("owner", "an object goes with its owner although tasks use it", _objects_go_with_their_owner),
    Mutant("overtakes", "a task may leave before its large object", _tasks_overtake_their_objects),
    Mutant("returned", "what an agent has that comes back late runs again", _runs_lost_are_not_known, ("late",)),
    Mutant("cancels", "a cancel is not said again in a session that began anew", _cancels_are_said_once, ("anew",)),
    Mutant("suspects", "a task that waited when its agent died gets no mark", _who_waits_is_not_suspected, ("deaths",)),
    Mutant(
        "young", "a processor that was killed before it was up is waited for", _failed_starts_are_forgotten, ("deaths",)
    ),
    Mutant("told", "who says all again is not told what ended", _what_was_not_heard_is_not_told_again, ("late",)),
    Mutant("again", "what has ended is run when it is said again", _what_has_ended_is_forgotten, ("late",)),
    Mutant(
        "claims", "a stored result does not answer its claim in a new session", _claims_are_not_answered, ("values",)
    ),
    Mutant("missing", "a run that a hello does not name keeps its task", _missing_runs_keep_their_tasks, ("anew",)),
)
