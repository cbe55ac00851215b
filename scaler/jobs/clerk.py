"""Clerk: the one thread that writes and reads the records of jobs.

    actors --orders--> clerk's thread: begin, all orders that wait, commit --answers--> actors

What waits when it is free is one group: one transaction for each job, and one wait for the disk. An order is answered
when its group is on disk. Must never: answer before that, or touch an actor.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from scaler.jobs.record import JobRecord

Order: TypeAlias = Callable[[], Any]
"""Changes or reads records, in the clerk's thread."""
Answer: TypeAlias = Callable[[Any, BaseException | None], None]
"""Takes what an order has returned or raised, in the clerk's thread."""

GROUP_MOST = 512
"""So many orders wait for one commit at most."""


class Clerk:
    """Obeys orders in their sequence.

    Args:
        has_thread: whether it has a thread of its own; else it works when `work` is called.
    """

    def __init__(self, has_thread: bool = True) -> None:
        self._orders: deque[tuple[JobRecord | None, Order, Answer]] = deque()
        self._wake = threading.Event()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="scaler-clerk", daemon=True) if has_thread else None
        if self._thread is not None:
            self._thread.start()

    def order(self, record: JobRecord | None, order: Order, answer: Answer) -> None:
        """Have an order obeyed. `record`: the one that it changes; what it changes is one group with others."""
        self._orders.append((record, order, answer))
        self._wake.set()

    def end(self) -> None:
        """Obey all orders, and end."""
        self._is_ending = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.work()

    def _run(self) -> None:
        while not self._is_ending:
            self._wake.wait()
            self._wake.clear()
            self.work()

    def work(self) -> None:
        """Obey all orders that wait."""
        orders = self._orders
        while orders:
            group = [orders.popleft()]  # one without a record stands alone: it may close a record
            while group[0][0] is not None and orders and orders[0][0] is not None and len(group) < GROUP_MOST:
                group.append(orders.popleft())
            self._obey(group)

    def _obey(self, group: list[tuple[JobRecord | None, Order, Answer]]) -> None:
        answers: list[tuple[JobRecord | None, Answer, Any, BaseException | None]] = []
        broken: dict[JobRecord, BaseException] = {}
        begun: list[JobRecord] = []
        for record, order, answer in group:
            value, error = None, None if record is None else broken.get(record)
            if error is None:
                try:
                    if record is not None and record not in begun:
                        record.begin()
                        begun.append(record)
                    value = order()
                except (sqlite3.Error, OSError) as failed:  # of the disk: nothing of the group of this job is kept
                    error = failed
                    if record is not None:
                        broken[record] = failed
                except Exception as failed:  # noqa: BLE001 - the order is wrong, and nobody else's fault
                    error = failed
            answers.append((record, answer, value, error))
        self._commit(begun, broken)
        for record, answer, value, error in answers:
            reason = error if record is None else broken.get(record, error)
            answer(None if reason is not None else value, reason)

    def _commit(self, begun: list[JobRecord], broken: dict[JobRecord, BaseException]) -> None:
        for record in begun:
            try:
                if record in broken:
                    record.roll_back()
                else:
                    record.commit()
            except (sqlite3.Error, OSError) as error:
                broken[record] = error
                try:
                    record.roll_back()
                except (sqlite3.Error, OSError):
                    continue  # the next group says it again
