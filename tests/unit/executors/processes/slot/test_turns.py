"""SlotTurns: which task gets the slot when tasks are blocked, and what is reported to the scheduler."""

from __future__ import annotations

from math import inf

import pytest

from scaler.executors.answers import Answers, End
from scaler.executors.processes.messages import (
    AddProcessor,
    InterruptProcessor,
    ProcessorBlocked,
    ProcessorDown,
    ProcessorResumable,
    ProcessorUnblocked,
    ResumeProcessor,
)
from scaler.executors.processes.slot import turns
from scaler.executors.processes.slot.cancellation import Cancellation
from scaler.executors.processes.slot.processor_states import BLOCKED, IDLE, KILL, RESUMABLE, RUNNING, UNSLOTTED
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.recall import SETTLE_SECONDS, STUCK_SECONDS, Recall
from scaler.executors.processes.slot.reserve import READY_AHEAD, Reserve
from scaler.executors.processes.slot.suspension import Suspension
from scaler.executors.processes.slot.turns import SlotTurns
from scaler.executors.task_queue import TaskQueue, run_of
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunBlocked, RunResult, RunUnblocked
from tests.support.room_bench import RoomBench, finish
from tests.support.slot_audit import audit_processors
from tests.support.slot_bench import WaitingBench


@pytest.fixture
def bench() -> WaitingBench:
    return WaitingBench()


def test_a_blocked_task_gives_its_slot_to_the_next_task(bench: WaitingBench) -> None:
    parent, child = bench.task(), bench.task(priority=1)
    bench.run(parent, child)
    assert bench.handed_to() == [(1, [child])]
    bench.wait_for_others(1)
    assert bench.suspended() == [child.task_id]
    assert bench.handed_to() == []
    assert len(bench.pool.take(AddProcessor)) == READY_AHEAD
    bench.up()
    assert bench.handed_to() == [(2, [parent])]


def test_a_deep_recursion_is_warned_about_each_time_its_depth_doubles(
    bench: WaitingBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "DEEP", 2)
    bench = WaitingBench()
    for number in range(1, 6):
        bench.run(bench.task())
        bench.wait_for_others(number)
        bench.up()
    assert [text.partition(" wait for")[0] for text in caplog.messages] == [
        "2 tasks of one worker",
        "4 tasks of one worker",
    ]


def test_a_task_beyond_the_limit_of_blocked_tasks_fails_with_the_reason(bench: WaitingBench) -> None:
    bench = WaitingBench(waiting_most=2)
    tasks = [bench.task() for _ in range(3)]
    for number, task in enumerate(tasks, 1):
        bench.run(task)
        bench.wait_for_others(number)
        bench.up()
    assert [interrupt.number for interrupt in bench.processor.take(InterruptProcessor)] == [3]
    bench.end(3, tasks[2], TaskStatus.CANCELED)
    ((ended,),) = bench.link.take(Batch[RunResult])
    assert (ended.task_id, ended.status) == (tasks[2].task_id, TaskStatus.INTERNAL_ERROR)
    assert ended.payload.startswith(b"2 tasks of its worker already wait")
    bench.run(bench.task())  # a task that does not wait still runs
    assert bench.handed_to()[-1][1] != []


def test_a_blocked_task_resumes_in_its_processor_before_queued_tasks_start(bench: WaitingBench) -> None:
    parent, child, other = bench.task(), bench.task(), bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    bench.up()
    bench.run(child, other)
    assert bench.handed_to() == [(1, [parent]), (2, [child])]
    bench.ask(1)
    assert bench.permitted() == []
    bench.end(2, child)
    assert (bench.permitted(), bench.resumed()) == ([1], [parent.task_id])
    assert bench.handed_to() == []
    bench.end(1, parent)
    assert bench.handed_to() == [(1, [other])]
    assert bench.answers() == [(child.task_id, TaskStatus.SUCCESS), (parent.task_id, TaskStatus.SUCCESS)]


def test_a_blocked_task_resumes_at_once_if_the_slot_is_free(bench: WaitingBench) -> None:
    parent = bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    bench.ask(1)
    assert bench.permitted() == [1]


def test_of_several_resumable_tasks_the_deepest_resumes_first(bench: WaitingBench) -> None:
    tasks = [bench.task(priority=priority) for priority in range(3)]
    for task in tasks:
        bench.run(task)
        bench.wait_for_others(bench.number)
        bench.up()
    busy = bench.task(priority=9)
    bench.run(busy)
    for number in (1, 2, 3):
        bench.ask(number)
    assert bench.permitted() == []
    for number, task in ((4, busy), (3, tasks[2]), (2, tasks[1])):
        bench.end(number, task)
    assert bench.permitted() == [3, 2, 1]


def test_tasks_behind_a_blocked_task_run_in_another_processor(bench: WaitingBench) -> None:
    bench.know()
    bench.results_of[1] = 1
    parent, second, third = bench.task(), bench.task(), bench.task()
    bench.run(parent, second, third)
    assert bench.handed_to() == [(1, [parent, second, third])]
    bench.wait_for_others(1)
    assert (bench.pages[1].words[1], bench.pages[1].words[2]) == (2, 4)
    bench.up()
    assert bench.handed_to() == [(2, [second, third])]


def test_a_task_with_a_blocked_second_thread_resumes_without_permission(bench: WaitingBench) -> None:
    parent, child, other = bench.task(), bench.task(), bench.task()
    bench.run(parent)
    bench.wait_for_others(1, is_stuck=False)
    bench.up()
    bench.run(child, other)
    bench.handed_to()
    bench.tell(ProcessorUnblocked(1, 1))
    assert bench.resumed() == [parent.task_id]
    bench.end(2, child)
    assert bench.handed_to() == []  # the slot is taken
    bench.end(1, parent)
    assert [tasks for _, tasks in bench.handed_to()] == [[other]]


def test_a_task_may_end_while_one_of_its_threads_waits(bench: WaitingBench) -> None:
    parent, other = bench.task(), bench.task()
    bench.run(parent)
    bench.wait_for_others(1, is_stuck=False)
    bench.end(1, parent)
    assert bench.answers() == [(parent.task_id, TaskStatus.SUCCESS)]
    bench.handed_to()
    bench.run(other)
    assert bench.handed_to() == [(1, [other])]


def test_a_cancelled_blocked_task_that_requests_to_resume_resumes_at_once(bench: WaitingBench) -> None:
    parent, child = bench.task(), bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    bench.up()
    bench.run(child)
    bench.cancel(parent)
    assert [interrupt.number for interrupt in bench.processor.take(InterruptProcessor)] == [1]
    bench.ask(1)
    assert bench.permitted() == [1]
    bench.end(1, parent, TaskStatus.CANCELED)
    assert bench.answers() == [(parent.task_id, TaskStatus.CANCELED)]


def test_a_task_cancelled_during_its_request_to_resume_resumes_at_once(bench: WaitingBench) -> None:
    parent, child = bench.task(), bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    bench.up()
    bench.run(child)
    bench.ask(1)
    bench.cancel(parent)
    assert bench.permitted() == [1]
    assert bench.resumed() == []  # its end is reported instead; another scheduler may have a run that looks the same


def test_the_death_of_a_blocked_processor_fails_its_task(bench: WaitingBench) -> None:
    parent, child = bench.task(), bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    bench.up()
    bench.run(child)
    bench.handed_to()
    bench.tell(ProcessorDown(1, 1, "died: signal SIGKILL"))
    assert bench.answers() == [(parent.task_id, TaskStatus.PROCESSOR_DIED)]
    bench.end(2, child)
    assert bench.answers() == [(child.task_id, TaskStatus.SUCCESS)]


def test_reports_about_tasks_that_are_not_executed_are_ignored(bench: WaitingBench) -> None:
    task = bench.task()
    bench.run(task)
    for news in (
        ProcessorBlocked(1, 2, True),
        ProcessorBlocked(9, 1, True),
        ProcessorResumable(1, 1),
        ProcessorUnblocked(1, 1),
    ):
        bench.tell(news)
    assert (bench.suspended(), bench.resumed(), bench.permitted()) == ([], [], [])


def test_blocked_and_resumed_runs_are_reported_to_the_scheduler(bench: WaitingBench) -> None:
    parent = bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    assert bench.link.take(Batch[RunBlocked]) == [Batch[RunBlocked]([RunBlocked(parent.task_id, 0, 1)])]
    bench.ask(1)
    assert bench.link.take(Batch[RunUnblocked]) == [Batch[RunUnblocked]([RunUnblocked(parent.task_id, 0, 1)])]


# SlotTurns without a slot, with the parts that a blocked task concerns


class TurnsBench(RoomBench):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.queue = TaskQueue()
        self.recall = Recall(self.processors, self.schedule, lambda _processor, tasks: self.queue.put_back(tasks))
        self.cancellation = Cancellation(self.processors, self.now, self.schedule, self.recall.withhold)
        self.turns = SlotTurns(
            self.processors,
            self.queue,
            Answers(self.link_ref),
            reserve=Reserve(self.processors, self.add, self.schedule),
            cancellation=self.cancellation,
            recall=self.recall,
            suspension=Suspension(self.processors, self.now, self.schedule),
            end=self.cancellation.stop,
            most=inf,
        )

    def add(self) -> None:
        self.asked += 1

    def receive(self, news: ProcessorBlocked | ProcessorResumable | ProcessorUnblocked) -> None:
        self.turns.mail[type(news)](news)
        audit_processors(self.processors)

    def block(self, processor: ProcessorRecord, is_stuck: bool = True) -> None:
        self.receive(ProcessorBlocked(processor.number, processor.results_seen + 1, is_stuck))

    def ask(self, processor: ProcessorRecord) -> None:
        self.receive(ProcessorResumable(processor.number, processor.results_seen + 1))

    def end(self, processor: ProcessorRecord) -> None:
        """Have the processor send the result of its first task."""
        finish(processor)
        if processor is not self.processors.active:
            self.turns.results_received(processor)
        audit_processors(self.processors)

    def resumed(self) -> list[int]:
        return [resume.number for resume in self.take(ResumeProcessor)]


def test_the_processor_that_became_idle_last_gets_the_slot() -> None:
    bench = TurnsBench()
    first, second = bench.idle(), bench.idle()
    assert bench.turns.next() is second
    assert bench.turns.next() is second
    bench.processors.leave(second)
    assert bench.turns.next() is first


def test_a_missing_processor_is_requested_once_if_tasks_are_queued() -> None:
    bench = TurnsBench()
    assert (bench.turns.next(), bench.asked) == (None, 0)
    bench.queue.add([bench.task()])
    assert (bench.turns.next(), bench.turns.next(), bench.asked) == (None, None, 1)


def test_a_task_that_requests_to_resume_waits_until_the_slot_is_free() -> None:
    bench = TurnsBench()
    parent = bench.running(tasks=1, executing=1)
    bench.block(parent)
    child = bench.running(tasks=1)
    bench.ask(parent)
    assert (bench.turns.next(), parent.state) == (None, RESUMABLE)
    bench.end(child)
    assert (bench.turns.next(), parent.state, child.state) == (None, RUNNING, IDLE)
    assert bench.resumed() == [parent.number]
    assert bench.turns.next() is parent


def test_a_cancelled_task_does_not_wait_for_the_slot() -> None:
    bench = TurnsBench()
    first, second = bench.running(tasks=1, executing=1), None
    bench.block(first)
    second = bench.running(tasks=1, executing=1)
    bench.block(second)
    bench.running(tasks=1)
    bench.ask(first)
    for processor in (first, second):
        bench.cancellation.stop(processor, {run_of(processor.tasks()[0]): End(TaskStatus.CANCELED)})
        bench.turns.let_end(processor)
    assert (first.state, second.state) == (UNSLOTTED, BLOCKED)
    bench.ask(second)
    assert (second.state, bench.resumed()) == (UNSLOTTED, [first.number, second.number])
    assert bench.told(Batch[RunUnblocked]) == []  # their ends are reported next


def test_no_task_is_sent_while_a_loose_or_killed_processor_runs() -> None:
    bench = TurnsBench()
    parent = bench.running(tasks=1, executing=1)
    bench.block(parent, is_stuck=False)
    child = bench.running(tasks=1)
    bench.receive(ProcessorUnblocked(parent.number, 1))
    bench.end(child)
    assert (parent.state, bench.turns.next()) == (UNSLOTTED, None)
    bench.processors.apply(parent, KILL)
    assert bench.turns.next() is None
    bench.processors.leave(parent)
    assert bench.turns.next() is child


def test_a_processor_that_resumes_without_permission_gets_a_free_slot() -> None:
    bench = TurnsBench()
    parent = bench.running(tasks=1, executing=1)
    bench.block(parent, is_stuck=False)
    other = bench.running()
    bench.receive(ProcessorUnblocked(parent.number, 1))
    assert (parent.state, other.state) == (RUNNING, IDLE)


def test_a_processor_whose_blocked_task_has_ended_is_loose_while_it_holds_more_tasks() -> None:
    bench = TurnsBench()
    parent = bench.running(tasks=2)  # the page shows no executing task: no task is taken back
    bench.block(parent, is_stuck=False)
    assert parent.state == BLOCKED
    bench.end(parent)
    assert (parent.state, bench.turns.next()) == (UNSLOTTED, None)
    bench.end(parent)
    assert parent.state == IDLE


@pytest.mark.parametrize("news", ["result", "unblocks"])
def test_the_next_task_of_a_blocked_processor_is_watched(news: str) -> None:
    """The task had resumed before the agent learned that it was blocked, so the next task started before it was
    withheld.
    """
    bench = TurnsBench()
    parent = bench.running(tasks=4, executing=2)
    behind = parent.tasks()[2:]
    bench.block(parent, is_stuck=False)
    bench.wait(bench.recall, SETTLE_SECONDS + STUCK_SECONDS)
    if news == "unblocks":
        bench.receive(ProcessorUnblocked(parent.number, 1))
        finish(parent)
    else:
        bench.end(parent)
    assert list(bench.queue) == []
    bench.wait(bench.recall, SETTLE_SECONDS + 2 * STUCK_SECONDS)
    assert list(bench.queue) == behind


def test_reports_of_a_killed_processor_are_ignored() -> None:
    bench = TurnsBench()
    processor = bench.running(tasks=1, executing=1)
    bench.processors.apply(processor, KILL)
    bench.block(processor)
    bench.ask(processor)
    assert bench.told(Batch[RunBlocked]) == []
    assert bench.turns.next() is None
