"""Stand-ins: what the system's own sockets, clocks and chance are while a simulation runs.

Nothing else of the project is replaced, but for the processes behind the slots (`processors.py`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from math import inf
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import scaler.agent.garbage_collector
import scaler.client.caller
import scaler.client.client
import scaler.client.core
import scaler.client.jobs.opening
import scaler.client.link.connection
import scaler.client.link.inbox
import scaler.client.link.link
import scaler.client.link.protocol
import scaler.ids
import scaler.jobs.folder
import scaler.jobs.record
import scaler.process.shell
from scaler import task_context
from scaler.actors.policy import placement
from scaler.actors.policy.fair_share import TURN_US, FairShare
from scaler.client.maps.row_source import RowSource
from scaler.executors.processes.slot.slot import Slot
from scaler.executors.task_queue import run_of
from scaler.ids import ObjectId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.rows import row_ids
from scaler.wire.messages.worker import RunCancel
from tests.simulation.kept import jobs_installed
from tests.simulation.loop import LoopModel, PipeEnd, PollModel
from tests.simulation.network import Network, TransportModel
from tests.simulation.users import WatchedFuture
from tests.simulation.world import ViolationError, World


def _next_range_size(source: RowSource, left: int) -> int:
    """Return how many rows the next task of a map has: now more, now fewer, whatever is known of its function."""
    most = source._link.rows_most
    return max(1, min(left, 1 + (left * 7 // 5 + most - 1) % most))


class _NoThread:
    """A thread that does not start: its party does its work."""

    def __init__(self, **_options: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def join(self, _seconds: float | None = None) -> None:
        pass


@contextlib.contextmanager
def installed(world: World, network: Network) -> Iterator[None]:
    """Have the project use the world's clock, chance and network."""
    from threading import Lock, current_thread

    def party() -> Any:
        assert world.current is not None
        return world.current

    def socketpair() -> tuple[PipeEnd, PipeEnd]:
        ends = PipeEnd(party(), world.new_descriptor()), PipeEnd(party(), world.new_descriptor())
        ends[0].other, ends[1].other = ends[1], ends[0]
        return ends

    clock = SimpleNamespace(monotonic=world.monotonic, monotonic_ns=world.monotonic_ns)
    poll = SimpleNamespace(poll=lambda: PollModel(party().is_readable), POLLIN=1)
    link = scaler.client.link
    wall_clock = {"time": SimpleNamespace(time=world.monotonic, monotonic=world.monotonic)}
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (scaler.ids, {"os": SimpleNamespace(urandom=world.urandom)}),
        (scaler.process.shell, {"time": clock, "new_event_loop": lambda _name: LoopModel(party())}),
        (scaler.agent.garbage_collector, {"trim_memory": lambda _above: False}),
        (scaler.client.core, {"ScalerFuture": WatchedFuture}),
        (scaler.client.caller, {"ScalerFuture": WatchedFuture}),
        (scaler.client.client, {"ScalerFuture": WatchedFuture}),
        (scaler.client.jobs.opening, wall_clock),
        (scaler.jobs.folder, wall_clock),
        (scaler.jobs.record, wall_clock),
        (link.connection, {"select": poll}),
        (link.protocol, {"time": clock}),
        (link.inbox, {"socket": SimpleNamespace(socketpair=socketpair)}),
        (
            link.link,
            {
                "open_transport": lambda _address, _role: TransportModel(network, party()),
                "time": clock,
                "threading": SimpleNamespace(Lock=Lock, Thread=_NoThread, current_thread=current_thread),
            },
        ),
    ]
    with contextlib.ExitStack() as stack:
        for module, names in replaced:
            stack.enter_context(patch.multiple(module, **names))
        stack.enter_context(patch.object(task_context, "current", task_context.current))
        stack.enter_context(patch.object(RowSource, "_next_range_size", _next_range_size))
        if (world.seed // 24 + world.seed) % 3:  # else ranges of long tasks are split before they are assigned
            stack.enter_context(patch.object(placement, "RANGE_MOST_US", inf))
        stack.enter_context(_cancels_noted(party))
        stack.enter_context(jobs_installed(party, 1 + world.seed % 9))
        stack.enter_context(patch.object(FairShare, "_take_turns", _with_even_turns(FairShare._take_turns)))
        stack.enter_context(_errors_logged(world))
        yield


def _with_even_turns(take_turns: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Check that no client of an owner with one share goes on when its turn is over, while others wait."""

    def checked(self: FairShare, expected_us: Callable[[ObjectId], float]) -> Iterator[Any]:
        account, had_us = -1, 0.0
        for ready in take_turns(self, expected_us):
            if ready.account != account or len(self._queues) < 2 or self._owner_of(account).share > 1:
                account, had_us = ready.account, 0.0
            if had_us > TURN_US + 1:  # it is a sum of fractions
                raise ViolationError(f"client {account} has had {had_us:.0f} us of a turn, and goes on")
            had_us += expected_us(ready.spec.function_id) * (ready.spec.rows or 1)
            yield ready

    return checked


def _cancels_noted(party: Callable[[], Any]) -> AbstractContextManager[Any]:
    """Note which runs must not begin any more: what a slot still has when it hears that nobody wants it."""
    cancel = Slot.handlers[Batch[RunCancel]]

    def note(slot: Slot, cancels: Batch[RunCancel]) -> None:
        unwanted = set(map(run_of, cancels))
        for task in (*slot._queue, *chain.from_iterable(processor.tasks() for processor in slot._processors)):
            if run_of(task) in unwanted:
                party().record.unwanted.update((row, task.attempt) for row in row_ids(task.task_id, task.rows))
        cancel(slot, cancels)

    return patch.dict(Slot.handlers, {Batch[RunCancel]: note})


class _ErrorLog(logging.Handler):
    """Puts errors of the project into the log of the world."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.log(self.format(record))


@contextlib.contextmanager
def _errors_logged(world: World) -> Iterator[None]:
    logger, handler, level = logging.getLogger("scaler"), _ErrorLog(world), logging.root.manager.disable
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
        logger.removeHandler(handler)
        logger.propagate = propagates
