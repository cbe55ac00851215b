"""Farewell: tells the worker proxies of an agent that is gone, some at a time, when its session has ended.

Started by the agent session; sends to its worker proxies. Must never: outrun what the session still had to tell them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scaler.actors.messages.peers import StopWorker
from scaler.actors.slices import NextSlice, Slices
from scaler.kit import Actor, ActorRef, handles
from scaler.wire.messages.worker import RunTask


class Farewell(Actor):
    """The end of all workers of one agent.

    Args:
        left: what its session has not told them yet.
        workers: its worker proxies.
        was_lost: whether the agent is gone unexpectedly.
        unheard: the orders of which it is not known that they have arrived, by worker.
    """

    def __init__(
        self, left: Slices, workers: Sequence[ActorRef], was_lost: bool, unheard: Mapping[int, Sequence[RunTask]]
    ) -> None:
        self._left, self._workers, self._was_lost, self._unheard = left, workers, was_lost, unheard

    def on_start(self) -> None:
        self._slices = Slices(self)
        self._slices.take_over(self._left, self._tell, range(len(self._workers)))
        self._end_if_all_know()

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()
        self._end_if_all_know()

    def _end_if_all_know(self) -> None:
        if not self._slices:
            self.stop_now()

    def _tell(self, number: int) -> None:
        self._workers[number].send(StopWorker(self._was_lost, self._unheard.get(number, ())))


def orders_by_worker(orders: Iterable[RunTask]) -> dict[int, list[RunTask]]:
    """Return orders to an agent by the number of the worker."""
    by_worker: dict[int, list[RunTask]] = {}
    for order in orders:
        by_worker.setdefault(order.worker, []).append(order)
    return by_worker
