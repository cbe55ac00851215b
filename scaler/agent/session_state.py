"""SessionState: the runs and results that an agent keeps across sessions, and the initial items of a session.

Used by the link and by its `ConnectionManager`, which sends the initial items after a welcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from scaler.agent.ledger import Ledger
from scaler.agent.messages import ReportKeptObjects
from scaler.agent.values import NodeValues
from scaler.endpoint import Endpoint
from scaler.ids import ObjectId
from scaler.kit import ActorRef
from scaler.wire.messages.common import ObjectRequest
from scaler.wire.messages.worker import DrainRequest, ProcessorGone, WorkersClosed, WorkersPaused

PROCESSORS_REMEMBERED = 1024
"""The most ended processors that each new session reports again. A report may be lost with a connection."""


class SessionState:
    """The runs, results, requests and ended processors of one agent.

    Args:
        values: keeps large results on this node; None: large results are sent to the scheduler.

    Attributes:
        requested: by requested object: whether its bytes are requested, because its location could not be opened.
        gone: processors that have ended.
        closed: how many workers, counted from the last one, take no tasks; None: the number never changes.
        drain: the announcement that the agent leaves when its tasks have ended; None: the agent stays.
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
        self._paused: Collection[int] = () if values is None else values.room.held
        self.drain: DrainRequest | None = None
        self.gone: deque[ProcessorGone] = deque(maxlen=PROCESSORS_REMEMBERED)

    def start_over(self, in_transit: Sequence[Any] = ()) -> list[Any]:
        """Keep all runs and results for a new session. Return the items that are sent first in it.

        The object cache reports its objects again, since orders to delete some may have been lost.

        Args:
            in_transit: large items that were being sent when the last scheduler ended.
        """
        self.ledger.keep_for_new_session(in_transit)
        self._objects.send(ReportKeptObjects())
        return [
            *([] if self.closed is None else [WorkersClosed(self.closed)]),
            *([WorkersPaused(len(self._paused))] if self._paused else []),
            *self.ledger.results(),
            *(ObjectRequest(object_id, by_value) for object_id, by_value in self.requested.items()),
            *self.gone,
            *self.ledger.blocked(),
            *([] if self.drain is None else [self.drain]),
        ]

    def recall_queued(self) -> None:
        """Ask the workers to return the tasks that have not started."""
        for worker, requests in self.ledger.not_blocked().items():
            self._workers[worker].send(requests)
