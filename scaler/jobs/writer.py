"""JobWriter: the single thread that writes and reads job records.

    actors --orders--> thread of the job writer: begin, all queued orders, commit --answers--> actors

Created by the scheduler, called by its actors. Orders that are queued while the thread is busy form one group: they
share one transaction per job, and one wait for the disk. An order is answered only after its group is on disk.

If the disk is full, the log of a job is truncated. If pages of a job's database are damaged, the results of the job are
salvaged. Then the orders for this job run again. Between groups, files of removed jobs are deleted piece by piece.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from scaler.jobs.record import JobRecord

Order: TypeAlias = Callable[[], Any]
"""A function that changes or reads records, run in the job writer's thread."""
Answer: TypeAlias = Callable[[Any, BaseException | None], None]
"""A callback, run in the job writer's thread, which gets the return value or the exception of an order."""

Waiting: TypeAlias = tuple[JobRecord | None, Order, Answer]
OrderOutcome: TypeAlias = tuple[JobRecord | None, Answer, Any, BaseException | None]

GROUP_MOST = 512
"""The most orders in one commit."""


class JobWriter:
    """A queue of orders, and the thread that runs the orders one after another.

    Args:
        has_thread: whether to start a thread; without a thread, orders run when `work` is called.
        tidy: does a piece of deferred work, and returns whether more is left.
    """

    def __init__(self, has_thread: bool = True, tidy: Callable[[], bool] = bool) -> None:
        self._tidy = tidy
        self._orders: deque[Waiting] = deque()
        self._wake = threading.Event()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="scaler-job-writer", daemon=True) if has_thread else None
        if self._thread is not None:
            self._thread.start()

    def order(self, record: JobRecord | None, order: Order, answer: Answer) -> None:
        """Queue an order that changes `record`. If `record` is None, the order runs outside of any group."""
        self._orders.append((record, order, answer))
        self._wake.set()

    def end(self) -> None:
        """Run all queued orders, and end the thread."""
        self._is_ending = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.work()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_ending
            self.work()
            if not is_last:
                self._wake.wait()
                self._wake.clear()

    def work(self) -> None:
        """Run all queued orders and, unless the thread is about to end, all deferred work."""
        may_tidy = True
        while self._orders or (may_tidy and not self._is_ending):
            if self._orders:
                self._obey(self._next_group())
            may_tidy = self._tidy()

    def _next_group(self) -> list[Waiting]:
        orders = self._orders
        group = [orders.popleft()]  # an order without a record runs alone: it may close a record
        while group[0][0] is not None and orders and orders[0][0] is not None and len(group) < GROUP_MOST:
            group.append(orders.popleft())
        return group

    def _obey(self, group: list[Waiting]) -> None:
        answers, broken = self._try(group)
        mended = [record for record, error in broken.items() if _mend(record, error)]
        again: Iterator[OrderOutcome] = iter(())
        if mended:
            again_answers, again_broken = self._try([each for each in group if each[0] in mended])
            again = iter(again_answers)
            broken = {**{record: error for record, error in broken.items() if record not in mended}, **again_broken}
        for record, answer, value, error in answers:
            known = next(again) if record in mended else (record, answer, value, error)
            reason = known[3] if record is None else broken.get(record, known[3])
            answer(None if reason is not None else known[2], reason)

    def _try(self, group: list[Waiting]) -> tuple[list[OrderOutcome], dict[JobRecord, BaseException]]:
        """Run orders and commit their changes. Return the answers, and the error of each record that failed."""
        answers: list[OrderOutcome] = []
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
                except (sqlite3.Error, OSError) as failed:
                    # The disk failed: the whole group of this job is rolled back.
                    error = failed
                    if record is not None:
                        broken[record] = failed
                except Exception as failed:  # noqa: BLE001 - the order is wrong, and fails alone
                    error = failed
            answers.append((record, answer, value, error))
        self._commit(begun, broken)
        return answers, broken

    def _commit(self, begun: list[JobRecord], broken: dict[JobRecord, BaseException]) -> None:
        for record in begun:
            try:
                if record in broken:
                    record.roll_back()
                else:
                    record.commit()
            except Exception as error:  # noqa: BLE001 - whatever a damaged record raises: other jobs continue
                broken[record] = error
                with contextlib.suppress(Exception):  # `begin` of the next group fails again
                    record.roll_back()


def _is_full(error: BaseException) -> bool:
    is_known = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_known or (isinstance(error, sqlite3.OperationalError) and "full" in str(error))


def _mend(record: JobRecord, error: BaseException) -> bool:
    """Try to recover a record from a disk error. Return whether the recovery succeeded."""
    try:
        if _is_full(error):
            record.checkpoint()
        elif isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error):
            return record.salvage()
        else:
            return False
    except Exception:  # noqa: BLE001 - whatever a damaged record raises: other jobs continue
        return False
    return True
