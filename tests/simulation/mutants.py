"""Mutants: defects that the project has had, put back one at a time. The simulation must find each of them.

A mutant is as close to the old code as the present code allows. `hunt.py` looks for them.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any
from unittest.mock import patch

import scaler.actors.sessions.session
import scaler.actors.tree
from scaler.actors.messages.peers import ConnectionLost
from scaler.actors.messages.tasks import AssignTasks, TaskAssigned
from scaler.actors.policy import make_policy
from scaler.actors.sessions import client_session
from scaler.actors.sessions.acceptor import Acceptor
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary.accounts import Accounts
from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.workers.runs import RunRecord, order_of
from scaler.actors.workers.worker_proxy import InBalancer, WorkerProxy
from scaler.client.link.large_results import LargeResults, UnreadResults
from scaler.kit import ActorRef
from scaler.process.wakeful_clock import WakefulClock
from scaler.scheduler.edge import SchedulerEdge
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FIFO
from scaler.wire.session import lane, pipe
from scaler.wire.session.dialling import DialledSession
from tests.simulation.network import ListenerModel
from tests.simulation.strangers import unchecked


@dataclass(frozen=True)
class Mutant:
    """A defect."""

    name: str
    what: str
    put_back: Callable[[], AbstractContextManager[Any]]
    kinds: tuple[str, ...] = ()
    """the kinds of stories in which it is looked for; none: all"""


@contextmanager
def _replaced(*names: tuple[Any, str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, value in names:
            stack.enter_context(patch.object(owner, name, value))
        yield


def _attempts_of_each_task() -> AbstractContextManager[None]:
    first_of: dict[ActorRef, int] = {}
    init = TaskActor.__init__

    def start(self: TaskActor, spec: Any, context: Any, *others: Any, **more: Any) -> None:
        init(self, spec, context, *others, **more)
        self._attempt = first_of.setdefault(context.balancer, 1_000_000 * (len(first_of) + 1))

    def _report_ready_again(self: TaskActor, again: bool) -> None:
        self._attempt += 1
        self._report_ready(again, is_new=False)

    return _replaced((TaskActor, "__init__", start), (TaskActor, "_report_ready_again", _report_ready_again))


def _unchecked_ids() -> AbstractContextManager[None]:
    return unchecked("objectIds")


def _raises(_self: Any, _parcel: Any, error: Exception) -> None:
    raise error


def _flush_raises() -> AbstractContextManager[None]:
    return _replaced((SchedulerEdge, "_give_up", _raises))


def _connections_change_hands() -> AbstractContextManager[None]:
    return _replaced((SchedulerEdge, "_give_up", _raises), (Directory, "is_spent", lambda *_: False))


def _the_first_decides() -> AbstractContextManager[None]:
    def _wrong_python(self: Acceptor, hello: Any, _key: Any) -> str:
        own = ".".join(hello.python_version.split(".")[:2])
        others = {peer.python for peer in self._directory.peers.values() if peer.python}
        return "another Python was here first" if others and own not in others else ""

    return _replaced((Acceptor, "_wrong_python", _wrong_python), (Acceptor, "_must_wait", lambda *_: False))


def _pauses_count() -> AbstractContextManager[None]:
    def update(self: WakefulClock) -> float:
        self.now = self._clock()
        return self.now

    return _replaced((WakefulClock, "update", update), (scaler.actors.sessions.session, "LATE_SECONDS", inf))


def _first_come_first_served() -> AbstractContextManager[None]:
    def make(rules: SchedulerConfig, _owner_of: object) -> Any:
        return make_policy(dataclasses.replace(rules, policy=FIFO))

    return _replaced((scaler.actors.tree, "make_policy", make))


def _a_share_for_each_session() -> AbstractContextManager[None]:
    owners: defaultdict[tuple[Accounts, int], Owner] = defaultdict(lambda: Owner("one more"))
    return _replaced((Accounts, "owner_of", lambda self, number: owners[self, number]))


def _a_quota_is_used_up() -> AbstractContextManager[None]:
    return _replaced((Owner, "end", lambda *_: None))


def _done_is_not_done() -> AbstractContextManager[None]:
    return _replaced((UnreadResults, "keep", lambda *_: None))


def _fetches_are_only_said_again() -> AbstractContextManager[None]:
    def start_over(self: LargeResults, has_ended: bool) -> None:
        for object_id in self.requests:
            self.unread.pop(object_id, None)
        self.unread.mark_lost(())

    return _replaced((LargeResults, "start_over", start_over))


@contextmanager
def _sockets_decide(clients_too: bool) -> Iterator[None]:
    start_model = ListenerModel.__init__

    def start(self: ListenerModel, *arguments: Any) -> None:
        start_model(self, *arguments)
        self.silence_seconds = 20.0

    silent = (scaler.actors.sessions.session, "SILENT_LEAST_SECONDS", inf)
    with (
        _replaced((ListenerModel, "__init__", start), silent),
        ExitStack() if clients_too else patch.object(client_session, "COME_BACK_SECONDS", inf),
    ):
        yield


def _cut_off_workers_get_tasks() -> AbstractContextManager[Any]:
    def assign(self: WorkerProxy, assign: AssignTasks) -> None:
        for ready, expected_us in assign.tasks:
            spec, attempt = ready.spec, ready.attempt
            if self._in_balancer is not InBalancer.IN or spec.task_id in self._runs or ready.task.is_stopped():
                self._refuse(ready, expected_us)
                continue
            self._runs[spec.task_id] = RunRecord(
                ready.task, spec, attempt, expected_us, ready.account, self._peer.connection_number
            )
            self._outbox.put(self._peer, order_of(spec, self._index, attempt, ready.account))
            ready.task.send(TaskAssigned(self.actor_ref, {ready.task: attempt}))

    ignored = {AssignTasks: assign, ConnectionLost: lambda _self, _lost: None}
    return patch.dict(WorkerProxy.handlers, ignored)


def _whole_messages() -> AbstractContextManager[None]:
    limits = ("LARGE_BYTES", "MESSAGE_BYTES")
    whole = 1 << 40
    return _replaced(*((module, name, whole) for module in (lane, pipe) for name in limits))


def _nothing_is_kept() -> AbstractContextManager[None]:
    begin = DialledSession.begin

    def begin_only(self: DialledSession) -> list[Any]:
        unacknowledged = begin(self)
        self.spoil()
        return unacknowledged

    start_over = Peer.start_over
    return _replaced(
        (DialledSession, "begin", begin_only), (Peer, "start_over", lambda peer, dial: start_over(peer, dial)[:0])
    )


MUTANTS = (
    Mutant("whole", "A1: messages travel whole, and have any length", _whole_messages, ("slow",)),
    Mutant("attempts", "A2: the attempts of each task are counted for itself", _attempts_of_each_task, ("returns",)),
    Mutant("ids", "A3: the length of packed ids is not checked", _unchecked_ids, ("strange",)),
    Mutant("flush", "A4: what cannot be written for one peer raises out of the flush", _flush_raises, ("strange",)),
    Mutant("python", "A5: the first peer decides which Python is right", _the_first_decides, ("strange",)),
    Mutant("pauses", "A6: the time in which the scheduler is stopped counts", _pauses_count, ("paused",)),
    Mutant("fifo", "A7: clients do not take turns", _first_come_first_served, ("fair",)),
    Mutant(
        "unread", "A8: the client forgets the call when a large result is announced", _done_is_not_done, ("restarts",)
    ),
    Mutant("shares", "keys: each session has a share, and not each owner", _a_share_for_each_session, ("fair",)),
    Mutant("quota", "keys: what has ended still counts against the quota", _a_quota_is_used_up),
    Mutant("sockets", "A9: ZeroMQ's time-out of 20 s ends sessions", lambda: _sockets_decide(True), ("silence",)),
    Mutant(
        "fetches",
        "chaos 1: a fetch is said again to a scheduler without the result",
        _fetches_are_only_said_again,
        ("restarts",),
    ),
    Mutant(
        "hands", "chaos 2: a connection may become another peer's, and a flush may raise", _connections_change_hands
    ),
    Mutant("cut off", "chaos 3: workers that are cut off get new tasks", _cut_off_workers_get_tasks, ("crashes",)),
    Mutant(
        "cuts",
        "chaos 4: an agent that is silent for 20 s is taken for closed",
        lambda: _sockets_decide(False),
        ("silence",),
    ),
    Mutant(
        "kept",
        "chaos 5: what was said on a lost connection is said anew, and kept by neither",
        _nothing_is_kept,
        ("silence",),
    ),
)
