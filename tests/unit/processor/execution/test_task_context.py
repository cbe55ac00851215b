"""ProcessorTaskContext: what is reported to the agent when threads of a task wait, and which need permission to
resume.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from scaler import task_context
from scaler.ids import ObjectId, TaskId
from scaler.processor.execution.task_context import ProcessorSpec, ProcessorTaskContext
from scaler.task_context import CurrentTask, current_task
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.priority import of_child, with_user_priority
from scaler.wire.messages.processor import ResumeRequest, TaskBlocked, TaskUnblocked
from scaler.wire.messages.worker import RunTask

SPEC = ProcessorSpec(7, b"n" * 16, worker="ws/3")


class Bench:
    """The task context of task 1, and an agent that calls `meanwhile` and then permits at once."""

    def __init__(self) -> None:
        self.words = [1, 0, 0, 0, 0]
        self.said: list[Any] = []
        self.asked: list[int] = []
        self.meanwhile: list[Any] = []
        self.waiting = ProcessorTaskContext(
            SPEC, "tcp://127.0.0.1:1", self.words, self.said.extend, self._await_permission
        )

    def _await_permission(self, number: int) -> None:
        self.asked.append(number)
        for action in self.meanwhile:
            action()

    def take(self) -> list[Any]:
        reported = list(self.said)
        self.said.clear()
        return reported


def run_task(**fields: Any) -> RunTask:
    return RunTask(TaskId(b"t" * 16), 0, 9, ObjectId(b"f" * 32), b"", b"", **fields)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def in_a_thread(action: Any) -> None:
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


def test_the_main_thread_requests_permission_before_it_resumes(bench: Bench) -> None:
    with bench.waiting.wait():
        assert bench.take() == [TaskBlocked(1, True)]
    assert bench.take() == [ResumeRequest(1)]
    assert bench.asked == [1]
    with bench.waiting.wait():
        assert bench.take() == [TaskBlocked(1, True)]


def test_a_nested_wait_of_the_main_thread_is_not_reported(bench: Bench) -> None:
    with bench.waiting.wait():
        with bench.waiting.wait():
            pass
        assert bench.take() == [TaskBlocked(1, True)]


def test_threads_other_than_the_main_thread_resume_without_permission(bench: Bench) -> None:
    def wait() -> None:
        with bench.waiting.wait():
            assert bench.take() == [TaskBlocked(1, False)]

    in_a_thread(wait)
    assert bench.take() == [TaskUnblocked(1)]
    assert bench.asked == []


def test_a_task_is_blocked_while_any_of_its_threads_waits(bench: Bench) -> None:
    first, second = bench.waiting.expect(), bench.waiting.expect()
    assert bench.take() == [TaskBlocked(1, False)]
    first()
    first()
    with bench.waiting.wait():
        pass
    assert bench.take() == []  # the main thread requests no slot
    second()
    assert bench.take() == [TaskUnblocked(1)]


def test_a_wait_that_starts_during_the_main_threads_request_is_reported(bench: Bench) -> None:
    ends: list[Any] = []
    bench.meanwhile = [lambda: ends.append(bench.waiting.expect())]
    with bench.waiting.wait():
        pass
    assert bench.take() == [TaskBlocked(1, True), ResumeRequest(1), TaskBlocked(1, False)]
    ends[0]()
    assert bench.take() == [TaskUnblocked(1)]


def test_a_wait_that_starts_and_ends_during_the_main_threads_request_is_not_reported(bench: Bench) -> None:
    def start_and_end() -> None:
        end = bench.waiting.expect()
        end()

    bench.meanwhile = [start_and_end]
    with bench.waiting.wait():
        pass
    assert bench.take() == [TaskBlocked(1, True), ResumeRequest(1)]


def test_an_interrupted_wait_requests_permission(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt), bench.waiting.wait():
        raise KeyboardInterrupt
    assert bench.asked == [1]


def test_a_wait_that_timed_out_resumes_without_permission(bench: Bench) -> None:
    with bench.waiting.wait(None, lambda: False, 1.0):
        bench.take()
    assert bench.take() == [TaskUnblocked(1)]
    assert bench.asked == []
    end = bench.waiting.expect()
    bench.take()
    with bench.waiting.wait(None, lambda: False, 1.0):
        pass
    assert bench.take() == []  # another thread waits
    end()
    assert bench.take() == [TaskUnblocked(1)]
    with bench.waiting.wait(None, lambda: True, 1.0):
        pass
    assert bench.asked == [1]


def test_the_end_of_a_wait_of_an_older_task_is_ignored(bench: Bench) -> None:
    end = bench.waiting.expect()
    bench.take()
    bench.words[0] = 2
    end()
    assert bench.take() == []
    with bench.waiting.wait():
        assert bench.take() == [TaskBlocked(2, True)]


def test_a_wait_between_tasks_is_not_reported(bench: Bench) -> None:
    bench.words[0] = 0
    bench.waiting.expect()()
    with bench.waiting.wait():
        pass
    assert bench.take() == []


def test_child_priority_is_one_level_deeper(bench: Bench) -> None:
    bench.waiting.run = run_task(priority=with_user_priority(0, -4))
    assert bench.waiting.child_priority == of_child(with_user_priority(0, -4))


def test_a_task_is_described_while_it_runs(bench: Bench) -> None:
    bench.waiting.run = run_task(name="night run")
    assert bench.waiting.describe_task() == CurrentTask(b"t" * 16, "night run", 9, "ws/3")
    bench.words[0] = 0
    assert bench.waiting.describe_task() is None


@pytest.mark.parametrize(
    ("of_worker", "of_task", "ends_at"), [(0, 0, None), (7, 0, 107), (0, 5, 105), (7, 5, 105), (4, 5, 104)]
)
def test_the_shorter_of_two_time_limits_counts(of_worker: float, of_task: int, ends_at: float | None) -> None:
    words = [1, 0, 0, 0, 100 * 10**9]
    waiting = ProcessorTaskContext(SPEC, "tcp://127.0.0.1:1", words, list, print, limit_seconds=of_worker)
    waiting.run = run_task(options=RunOptions(timeout_ms=1000 * of_task).encode())
    described = waiting.describe_task()
    assert described is not None
    assert described.ends_at == ends_at
    assert described.seconds_left == (None if ends_at is None else 0), "the process is older than its limit"


def test_a_progress_report_is_sent_while_its_task_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(task_context, "current", bench.waiting)
    bench.waiting.run, bench.waiting.send_report = run_task(), reported.append
    task = current_task()
    assert task is not None
    task.report(0)
    task.report(1 / 3, "the\n second  third" + 300 * "x")
    task.report(1.0, "done")
    assert reported == ["0%", f"33.33% the second third{200 * 'x'}"[:207], "100% done"]
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            task.report(fraction)
    bench.words[0] = 0
    task.report(0.5)
    bench.words[0], bench.waiting.run = 2, replace(run_task(), attempt=10)
    task.report(0.5)
    assert len(reported) == 3


def test_children_are_cancelled_with_a_stopped_task_and_not_with_a_finished_one(bench: Bench) -> None:
    cancelled: list[TaskId] = []
    bench.waiting.submitted(TaskId(b"first"), cancelled.append)
    bench.waiting.forget_children()
    bench.waiting.submitted(TaskId(b"second"), cancelled.append)
    bench.waiting.submitted(TaskId(b"third"), cancelled.append)
    bench.waiting.cancel_children()
    bench.waiting.cancel_children()
    assert cancelled == [b"second", b"third"]


def test_a_process_is_needed_while_any_of_its_clients_needs_it(bench: Bench) -> None:
    needs = [False, False]
    for index in range(2):
        bench.waiting.keep_while(lambda index=index: needs[index])
    assert not bench.waiting.is_needed()
    needs[1] = True
    assert bench.waiting.is_needed()


class WaitReporter:
    """A client that records what it is to report of the wait."""

    def __init__(self) -> None:
        self.rests: list[tuple[int, Any]] = []

    def rest(self, wait: int, is_over: Any) -> None:
        self.rests.append((wait, is_over))

    def take(self) -> list[tuple[int, bool]]:
        """Return the numbers of the waits, and whether each is over."""
        rests, self.rests = self.rests, []
        return [(wait, is_over()) for wait, is_over in rests]


def hard(bench: Bench) -> ProcessorTaskContext:
    return ProcessorTaskContext(
        SPEC, "tcp://127.0.0.1:1", bench.words, bench.said.extend, bench._await_permission, is_hard=True
    )


def test_with_hard_suspension_the_client_reports_that_the_process_only_waits(bench: Bench) -> None:
    waiting, reporter, is_over = hard(bench), WaitReporter(), False
    with waiting.wait(reporter, lambda: is_over):
        assert bench.take() == [TaskBlocked(1, True, 1)]
        assert reporter.take() == [(1, False)]
        waiting.continued()
        is_over = True
        assert reporter.take() == [(1, True)]
    assert reporter.take() == [(0, False)]
    with waiting.wait(reporter, lambda: False, 0.0105):
        assert bench.take() == [ResumeRequest(1), TaskBlocked(1, True, 2, 11)]
    reporter.take()
    waiting.continued()
    assert reporter.take() == []  # it does not wait


def test_a_process_is_not_suspended_while_another_thread_waits(bench: Bench) -> None:
    waiting, reporter = hard(bench), WaitReporter()
    with waiting.wait(reporter, lambda: False):
        reporter.take()
        end = waiting.expect()
        waiting.continued()
        assert reporter.take() == [(1, True)]
        end()
    end = waiting.expect()
    bench.take()
    with waiting.wait(reporter, lambda: False):
        assert bench.take() == []  # the agent knows no number of this wait
    end()


def test_a_process_that_waits_without_a_client_is_not_suspended(bench: Bench) -> None:
    with hard(bench).wait():
        assert bench.take() == [TaskBlocked(1, True)]


def test_without_hard_suspension_no_process_is_suspended(bench: Bench) -> None:
    reporter = WaitReporter()
    with bench.waiting.wait(reporter, lambda: False, 1.0):
        assert bench.take() == [TaskBlocked(1, True)]
    assert reporter.take() == []
