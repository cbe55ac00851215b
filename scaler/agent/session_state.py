"""SessionState: what an agent has of its scheduler, and so what a session begins with.

Used by the link, which fills it, and by its connection, which asks for the first words after a welcome. Asks the
workers and the object cache for what is to be said. Must never: forget a result that was not heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from scaler.agent.ledger import Ledger
from scaler.agent.messages import ReportKeptObjects
from scaler.agent.values import NodeValues
from scaler.endpoint import Endpoint
from scaler.executors.messages import SplitAll
from scaler.ids import ObjectId
from scaler.kit import ActorRef
from scaler.wire.messages.common import ObjectRequest
from scaler.wire.messages.worker import DrainRequest, ProcessorGone, RunSplit, WorkersClosed, WorkersPaused

PROCESSORS_REMEMBERED = 1024
"""The ends of so many processors are reported again, because they may be lost with a connection."""


class SessionState:
    """The runs, results, requests and news of one agent.

    Args:
        endpoint: of the scheduler.
        values: keeps large results; None: they are sent.

    Attributes:
        ledger: the runs and their results.
        requested: objects that were asked for, and whether their location could not be opened.
        gone: processors that have ended.
        closed: how many workers, the last ones, take no tasks; None: their number never changes.
        drain: says that the agent leaves when its tasks have ended; None: it stays.
    """

    def __init__(
        self,
        workers: tuple[ActorRef, ...],
        objects: ActorRef,
        endpoint: Endpoint | None = None,
        values: NodeValues | None = None,
    ) -> None:
        self._workers = workers
        self._objects = objects
        self.ledger = Ledger("the scheduler" if endpoint is None else f"the scheduler at {endpoint}", values)
        self.requested: dict[ObjectId, bool] = {}
        self.closed: int | None = None
        self._held: Collection[int] = () if values is None else values.room.held
        self.drain: DrainRequest | None = None
        self.gone: deque[ProcessorGone] = deque(maxlen=PROCESSORS_REMEMBERED)

    def split_rows(self) -> list[RunSplit]:
        """Before a hello: have all rows be runs of their own, here and at the workers. Return what is to be said."""
        splits = self.ledger.split_all()
        for worker in {split.worker for split in splits}:
            self._workers[worker].send(SplitAll())
        return splits

    def first_words(self) -> list[Any]:
        """Return what a session begins with."""
        return [
            *([] if self.closed is None else [WorkersClosed(self.closed)]),
            *([WorkersPaused(len(self._held))] if self._held else []),
            *self.ledger.results(),
            *(ObjectRequest(object_id, by_value) for object_id, by_value in self.requested.items()),
            *self.gone,
            *self.ledger.waiting(),
            *([] if self.drain is None else [self.drain]),
        ]

    def say_what_is_kept(self) -> None:
        """Have the objects named that are here: what the scheduler wanted deleted may be lost with a connection."""
        self._objects.send(ReportKeptObjects())

    def start_over(self, on_their_way: Sequence[Any]) -> None:
        """Keep everything for another scheduler: it adopts the runs and results, as far as its clients still want them,
        and has the others cancelled.

        Args:
            on_their_way: the large items that had left for the last one, wholly or in part, and have not arrived.
        """
        self.ledger.keep_for_another(on_their_way)
        self.say_what_is_kept()

    def want_back(self) -> None:
        """Ask the workers for the tasks that have not started."""
        for worker, wishes in self.ledger.not_blocked().items():
            self._workers[worker].send(wishes)
