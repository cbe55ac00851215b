"""The slot's decisions to suspend and resume the process of a blocked task."""

from __future__ import annotations

from math import inf

import pytest

from scaler.executors.processes.messages import ProcessorBlocked, ProcessorUnblocked, SuspendProcessor
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.suspension import STOP_MOST_SECONDS, Suspension
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorNews
from tests.support.room_bench import RoomBench
from tests.support.slot_bench import WaitingBench

WAIT = 4


class PausingBench(WaitingBench):
    """Two processors. The first has a blocked task, and its process may be suspended."""

    def __init__(self) -> None:
        super().__init__()
        self.parent = self.task()
        self.run(self.parent)
        self.wait_for_others_hard()
        self.up()
        self.processor.messages.clear()

    def wait_for_others_hard(self, wait: int = WAIT, timeout_seconds: float = inf) -> None:
        self.pages[1].words[0] = 1
        self.tell(ProcessorBlocked(1, 1, True, wait, timeout_seconds))

    def receive_report(self, has_news: bool, wait: int = WAIT, processor: int = 1) -> list[bool]:
        """Have the scheduler send this. Return the changes of the process: True if it was suspended, False if it was
        resumed.
        """
        self.tell(Batch[ProcessorNews]([ProcessorNews(processor, wait, has_news)]))
        return self.pauses()

    def pauses(self) -> list[bool]:
        return [pause.is_suspended for pause in self.processor.take(SuspendProcessor)]


@pytest.fixture
def bench() -> PausingBench:
    return PausingBench()


def test_a_blocked_process_is_suspended_without_pending_messages_and_resumed_with_them(bench: PausingBench) -> None:
    assert bench.pauses() == []
    assert bench.receive_report(has_news=False) == [True]
    assert bench.receive_report(has_news=False) == []
    assert bench.receive_report(has_news=True) == [False]
    assert bench.receive_report(has_news=True) == []
    assert bench.receive_report(has_news=False) == [True]


def test_reports_about_another_wait_or_an_unknown_processor_are_ignored(bench: PausingBench) -> None:
    assert bench.receive_report(has_news=False, wait=WAIT - 1) == []
    assert bench.receive_report(has_news=False, processor=99) == []
    assert bench.receive_report(has_news=False, wait=0) == []


def test_a_process_is_not_suspended_in_a_wait_without_a_number() -> None:
    bench = WaitingBench()
    bench.run(bench.task())
    bench.wait_for_others(1)
    bench.tell(Batch[ProcessorNews]([ProcessorNews(1, 0, 0)]))
    assert bench.processor.take(SuspendProcessor) == []


def test_a_process_that_requests_to_resume_is_no_longer_suspended(bench: PausingBench) -> None:
    other = bench.task()
    bench.run(other)
    bench.receive_report(has_news=False)
    bench.receive_report(has_news=True)
    bench.ask(1)
    assert bench.receive_report(has_news=False) == []
    bench.end(2, other)
    assert bench.permitted() == [1]
    assert bench.receive_report(has_news=False) == []


def test_a_process_that_requests_to_resume_while_suspended_is_resumed(bench: PausingBench) -> None:
    bench.receive_report(has_news=False)
    bench.ask(1)
    assert bench.pauses() == [False]
    assert bench.permitted() == [1]


def test_a_process_that_resumes_without_permission_is_no_longer_suspended(bench: PausingBench) -> None:
    bench.receive_report(has_news=False)
    bench.tell(ProcessorUnblocked(1, 1))
    assert bench.pauses() == [False]
    assert bench.receive_report(has_news=False) == []


def test_a_cancelled_process_is_resumed_and_never_suspended_again(bench: PausingBench) -> None:
    bench.receive_report(has_news=False)
    bench.cancel(bench.parent)
    assert bench.pauses() == [False]
    bench.wait_for_others_hard(WAIT + 1)  # in its finally
    assert bench.receive_report(has_news=False, wait=WAIT + 1) == []


def test_a_suspended_process_is_resumed_periodically(bench: PausingBench) -> None:
    bench.receive_report(has_news=False)
    bench.wait(STOP_MOST_SECONDS - 0.01)
    assert bench.pauses() == []
    bench.wait(0.01)
    assert bench.pauses() == [False]
    bench.wait(10 * STOP_MOST_SECONDS)
    assert bench.pauses() == []  # until it has reported again that it only waits
    assert bench.receive_report(has_news=False) == [True]
    bench.wait(STOP_MOST_SECONDS)
    assert bench.pauses() == [False]


def test_the_periodic_resume_counts_from_the_last_suspension(bench: PausingBench) -> None:
    bench.receive_report(has_news=False)
    bench.wait(STOP_MOST_SECONDS - 1)
    bench.receive_report(has_news=True)
    assert bench.receive_report(has_news=False) == [True]
    bench.wait(1)
    assert bench.pauses() == []
    bench.wait(STOP_MOST_SECONDS - 1)
    assert bench.pauses() == [False]


def test_a_process_is_resumed_when_its_wait_times_out() -> None:
    bench = PausingBench()
    bench.wait_for_others_hard(WAIT + 1, timeout_seconds=0.5)
    assert bench.receive_report(has_news=False, wait=WAIT + 1) == [True]
    bench.wait(0.5)
    assert bench.pauses() == [False]
    assert bench.receive_report(has_news=False, wait=WAIT + 1) == []


# Suspension without a slot


class SuspensionBench(RoomBench):
    def __init__(self) -> None:
        super().__init__()
        self.suspension = Suspension(self.processors, self.now, self.schedule)

    def receive_report(self, processor: ProcessorRecord, wait: int, has_news: bool) -> list[bool]:
        batch = Batch[ProcessorNews]([ProcessorNews(processor.number, wait, has_news)])
        self.suspension.mail[type(batch)](batch)
        return self.stops()

    def stops(self) -> list[bool]:
        self.audit(self.suspension)
        return [each.is_suspended for each in self.take(SuspendProcessor)]


def test_a_process_may_be_suspended_until_its_numbered_wait_ends() -> None:
    bench = SuspensionBench()
    processor = bench.blocked()
    bench.suspension.begin(processor, WAIT, inf)
    assert bench.receive_report(processor, WAIT, has_news=False) == [True]
    bench.suspension.end(processor)
    assert bench.stops() == [False]
    assert bench.receive_report(processor, WAIT, has_news=False) == []


def test_the_periodic_resume_of_an_earlier_suspension_is_ignored() -> None:
    bench = SuspensionBench()
    processor = bench.blocked()
    bench.suspension.begin(processor, WAIT, inf)
    assert bench.receive_report(processor, WAIT, has_news=False) == [True]
    bench.wait(bench.suspension, STOP_MOST_SECONDS - 1)
    assert bench.receive_report(processor, WAIT, has_news=True) == [False]
    assert bench.receive_report(processor, WAIT, has_news=False) == [True]
    bench.wait(bench.suspension, 1)
    assert bench.stops() == []
    bench.wait(bench.suspension, STOP_MOST_SECONDS - 1)
    assert bench.stops() == [False]


def test_the_next_wait_starts_with_a_resumed_process() -> None:
    bench = SuspensionBench()
    processor = bench.blocked()
    bench.suspension.begin(processor, WAIT, inf)
    bench.receive_report(processor, WAIT, has_news=False)
    bench.suspension.begin(processor, 0, inf)
    assert bench.stops() == [False]
    assert bench.receive_report(processor, 0, has_news=False) == []


def test_a_lost_process_is_neither_suspended_nor_resumed() -> None:
    bench = SuspensionBench()
    processor = bench.blocked()
    bench.suspension.begin(processor, WAIT, inf)
    bench.receive_report(processor, WAIT, has_news=False)
    bench.processors.leave(processor)
    bench.suspension.leave(processor)
    assert bench.receive_report(processor, WAIT, has_news=True) == []
    bench.wait(bench.suspension, STOP_MOST_SECONDS)
    assert bench.stops() == []
