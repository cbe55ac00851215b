"""Slot: order, how much the processor gets, objects, cancels, deaths, and taking back; on a virtual clock."""

from __future__ import annotations

import pytest

from scaler.actors.kit import Dispatcher, VirtualClock
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import (
    BalanceRequest,
    BalanceRequests,
    BalanceResponses,
    RunCancel,
    RunCancels,
    RunResult,
    RunResults,
    RunTask,
    RunTasks,
)
from scaler.worker.messages import (
    CleanProcessor,
    CollectionDue,
    DropObjects,
    ForgetObjects,
    HandObject,
    HandTasks,
    InterruptProcessor,
    KillProcessor,
    NeedObject,
    ObjectFound,
    ObjectLost,
    ProcessorComing,
    ProcessorDown,
    ProcessorUp,
    StoredObject,
    TasksFinished,
)
from scaler.worker.progress import Progress, new_progress_page
from scaler.worker.slot import (
    AWAITED_OBJECTS,
    GRACE_SECONDS,
    HELD_TASKS,
    INSIST_SECONDS,
    SETTLE_SECONDS,
    STOPPED,
    STUCK_SECONDS,
    Slot,
)
from tests.support.recorder import Recorder

FUNCTION = ObjectId(b"f" * 16)
OTHER = ObjectId(b"g" * 16)


class Bench:
    """A slot between recorders."""

    def __init__(self, limit_seconds: float = 0) -> None:
        self.clock = VirtualClock()
        self.dispatcher = Dispatcher(self.clock)
        self.link, self.objects, self.pool, self.processor = Recorder(), Recorder(), Recorder(), Recorder()
        link, objects, pool = map(self.dispatcher.spawn, (self.link, self.objects, self.pool))
        self.slot = self.dispatcher.spawn(Slot("w", 3, link, objects, pool, limit_seconds))
        self.processor_ref = self.dispatcher.spawn(self.processor)
        self.number = 0
        self.new_id = IdSource()

    def tell(self, message: object) -> None:
        self.slot.send(message)
        assert self.dispatcher.run()
        assert self.dispatcher.failures == 0

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        assert self.dispatcher.run()

    def processor_up(self, is_extra: bool = False) -> None:
        self.number += 1
        self.progress = Progress(new_progress_page())
        self.tell(ProcessorComing(self.number, is_extra))
        self.tell(ProcessorUp(self.number, self.processor_ref, self.progress, is_extra))

    def with_function(self, *functions: ObjectId) -> Bench:
        """A ready processor that has the functions."""
        self.processor_up()
        for function in functions or (FUNCTION,):
            self.tell(ObjectFound(StoredObject(function, [b"x"], None)))
        self.processor.messages.clear()
        return self

    def task(self, function: ObjectId = FUNCTION, object_ids: bytes = b"", priority: int = 0) -> RunTask:
        return RunTask(TaskId(self.new_id()), 0, 1, function, b"", object_ids, priority)

    def run(self, *tasks: RunTask) -> None:
        self.tell(RunTasks(tasks))

    def finish(self, *tasks: RunTask, microseconds: int = 0, status: TaskStatus = TaskStatus.SUCCESS) -> None:
        results = RunResults(RunResult(t.task_id, 0, 1, status, b"", microseconds, ()) for t in tasks)
        self.tell(TasksFinished(self.number, results))

    def execute(self, number: int) -> None:
        """Have the processor begin with this task now."""
        self.progress.words[4] = round(self.clock() * 1e9)
        self.progress.words[0] = number

    def texts(self) -> list[str]:
        return [r.payload.decode() for results in self.link.take(RunResults) for r in results]

    def cancel(self, *tasks: RunTask) -> None:
        self.tell(RunCancels(RunCancel(t.task_id, 0, t.attempt) for t in tasks))

    def ask_back(self, *tasks: RunTask) -> list[bytes]:
        """Return the ids of the tasks that were given back."""
        self.tell(BalanceRequests(BalanceRequest(t.task_id, 0, t.attempt) for t in tasks))
        return [response.task_id for batch in self.link.take(BalanceResponses) for response in batch]

    def die(self, executing: int) -> None:
        self.tell(ProcessorDown(self.number, executing, "died: signal SIGKILL"))

    def handed(self) -> list[RunTask]:
        return [task for hand in self.processor.take(HandTasks) for task in hand.tasks]

    def answers(self) -> list[tuple[bytes, TaskStatus]]:
        return [(r.task_id, TaskStatus(r.status)) for results in self.link.take(RunResults) for r in results]

    def know(self, microseconds: int = 0, function: ObjectId = FUNCTION) -> None:
        """Let the slot see how long a function takes."""
        task = self.task(function)
        self.run(task)
        assert self.handed() == [task]
        self.finish(task, microseconds=microseconds)
        self.answers()


@pytest.fixture
def bench() -> Bench:
    return Bench().with_function()


def test_first_task_of_a_function_is_handed_alone(bench: Bench) -> None:
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:1]


def test_short_tasks_are_handed_together_in_order(bench: Bench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(2000)]
    bench.run(*tasks)
    handed = bench.handed()
    assert handed == tasks[: len(handed)]
    assert len(handed) == HELD_TASKS


def test_deeper_tasks_are_handed_first(bench: Bench) -> None:
    bench.know(microseconds=50_000)
    plain, child, grandchild = bench.task(), bench.task(priority=1), bench.task(priority=2)
    first = bench.task()
    bench.run(first)
    bench.run(plain, child)
    bench.run(grandchild)
    order = []
    for _ in range(4):
        (task,) = bench.handed()
        order.append(task)
        bench.finish(task, microseconds=50_000)
    assert order == [first, grandchild, child, plain]


def test_one_chunk_may_have_tasks_of_several_priorities(bench: Bench) -> None:
    bench.know()
    child, plain = bench.task(priority=1), bench.task()
    bench.run(plain, child)
    assert bench.handed() == [child, plain]


def test_a_refill_comes_when_half_is_done(bench: Bench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(2000)]
    bench.run(*tasks)
    first = bench.handed()
    bench.finish(*first[: HELD_TASKS // 2 - 1])
    assert bench.handed() == []
    bench.finish(first[HELD_TASKS // 2 - 1])
    assert bench.handed() == tasks[HELD_TASKS : HELD_TASKS + HELD_TASKS // 2]


def test_long_tasks_are_handed_one_by_one(bench: Bench) -> None:
    bench.know(microseconds=50_000)
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:1]
    bench.finish(tasks[0], microseconds=50_000)
    assert bench.handed() == tasks[1:2]


def test_a_short_task_does_not_wait_behind_a_long_one_in_the_processor() -> None:
    bench = Bench().with_function(FUNCTION, OTHER)
    bench.know(microseconds=50_000)
    bench.know(microseconds=1, function=OTHER)
    long, short = bench.task(), bench.task(OTHER)
    bench.run(long, short)
    assert bench.handed() == [long]


def test_results_go_to_the_link(bench: Bench) -> None:
    task = bench.task()
    bench.run(task)
    bench.finish(task)
    assert bench.answers() == [(task.task_id, TaskStatus.SUCCESS)]


def test_tasks_wait_for_a_processor() -> None:
    bench = Bench()
    task = bench.task()
    bench.run(task)
    assert bench.objects.messages == []
    bench.processor_up()
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot)]


def test_object_goes_to_the_processor_before_the_task() -> None:
    bench = Bench()
    bench.processor_up()
    task = bench.task()
    bench.run(task, bench.task())
    assert len(bench.objects.take(NeedObject)) == 1
    stored = StoredObject(FUNCTION, [b"x"], None)
    bench.tell(ObjectFound(stored))
    assert bench.processor.messages == [HandObject(1, stored), HandTasks(1, [task])]


def test_a_task_with_missing_objects_fails_and_others_go_on(bench: Bench) -> None:
    lost = ObjectId(b"o" * 16)
    broken, whole = bench.task(object_ids=lost), bench.task()
    bench.run(broken, whole)
    assert bench.objects.take(NeedObject) == [NeedObject(lost, bench.slot)]
    assert bench.handed() == [whole]
    bench.tell(ObjectLost(lost))
    assert bench.objects.take(NeedObject) == [NeedObject(lost, bench.slot)]
    assert bench.answers() == []
    bench.tell(ObjectLost(lost))
    assert bench.answers() == [(broken.task_id, TaskStatus.MISSING_OBJECTS)]
    assert bench.objects.take(NeedObject) == []


def test_a_task_that_came_with_its_object_is_not_failed_by_the_answer_to_an_earlier_question(bench: Bench) -> None:
    of_one_that_left, of_another = bench.task(OTHER), bench.task(OTHER)
    bench.run(of_one_that_left)
    assert bench.objects.take(NeedObject) == [NeedObject(OTHER, bench.slot)]
    bench.run(of_another)
    bench.cancel(of_one_that_left)
    bench.answers()
    bench.tell(ObjectLost(OTHER))
    assert bench.answers() == []
    bench.tell(ObjectFound(StoredObject(OTHER, [b"x"], None)))
    assert bench.handed() == [of_another]


def test_of_tasks_that_come_between_the_two_questions_nobody_knows_yet(bench: Bench) -> None:
    first, second = bench.task(OTHER), bench.task(OTHER)
    bench.run(first)
    bench.tell(ObjectLost(OTHER))
    bench.run(second)
    bench.tell(ObjectLost(OTHER))
    assert bench.answers() == [(first.task_id, TaskStatus.MISSING_OBJECTS)]
    bench.tell(ObjectLost(OTHER))
    bench.tell(ObjectLost(OTHER))
    assert bench.answers() == [(second.task_id, TaskStatus.MISSING_OBJECTS)]


def test_tasks_that_wait_for_objects_do_not_hold_up_those_behind_them(bench: Bench) -> None:
    bench.know()
    first, second = ObjectId(b"1" * 16), ObjectId(b"2" * 16)
    waiting = [bench.task(object_ids=first), bench.task(object_ids=second), bench.task(object_ids=first)]
    behind = [bench.task() for _ in range(3)]
    bench.run(*waiting, *behind)
    assert bench.objects.take(NeedObject) == [NeedObject(first, bench.slot), NeedObject(second, bench.slot)]
    assert bench.handed() == behind
    bench.finish(*behind)
    late = bench.task()
    bench.tell(ObjectFound(StoredObject(first, [b"x"], None)))
    bench.run(late)
    assert bench.handed() == [waiting[0], waiting[2], late]
    assert bench.ask_back(waiting[1]) == [waiting[1].task_id]


def test_only_a_few_objects_are_asked_for_before_their_tasks_are_waited_for(bench: Bench) -> None:
    bench.know()
    tasks = [bench.task(object_ids=bytes([n]) * 16) for n in range(1, 100)]
    last = bench.task()
    bench.run(*tasks, last)
    assert len(bench.objects.take(NeedObject)) == AWAITED_OBJECTS + 1
    assert bench.handed() == []
    bench.tell(ObjectFound(StoredObject(ObjectId(b"\x02" * 16), [b"x"], None)))
    assert bench.handed() == [tasks[1]]
    assert len(bench.objects.take(NeedObject)) == 1


def test_tasks_that_wait_for_objects_can_be_cancelled_and_outlive_the_processor(bench: Bench) -> None:
    lost = ObjectId(b"o" * 16)
    cancelled, other = bench.task(object_ids=lost), bench.task(object_ids=lost)
    bench.run(cancelled, other)
    bench.objects.take(NeedObject)
    bench.cancel(cancelled)
    assert bench.answers() == [(cancelled.task_id, TaskStatus.CANCELED)]
    bench.die(executing=0)
    bench.processor_up()
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot), NeedObject(lost, bench.slot)]
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    bench.tell(ObjectFound(StoredObject(lost, [b"x"], None)))
    assert bench.handed() == [other]


def test_deleted_objects_are_dropped_and_asked_for_again(bench: Bench) -> None:
    bench.tell(ForgetObjects([FUNCTION, OTHER]))
    assert bench.processor.take(DropObjects) == [DropObjects(1, (FUNCTION,))]
    bench.run(bench.task())
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot)]


def test_queued_task_is_cancelled_at_once(bench: Bench) -> None:
    first, second = bench.task(), bench.task()
    bench.run(first, second)
    bench.cancel(second)
    assert bench.answers() == [(second.task_id, TaskStatus.CANCELED)]
    assert bench.processor.take(KillProcessor) == []


def executing_bench(bench: Bench) -> list[RunTask]:
    """Three short tasks are held, and the first one is executed."""
    bench.know()
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks
    bench.progress.words[0] = 2  # number 1 was the one that taught the slot
    return tasks


def test_cancel_of_the_executing_task_interrupts_it_and_nothing_else(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    bench.cancel(first)
    assert bench.processor.take(InterruptProcessor) == [InterruptProcessor(1)]
    assert list(bench.progress.words[1:4]) == [0, 0, 2]
    assert bench.answers() == []  # its place is taken until it has ended
    bench.progress.words[3] = 0  # by the processor
    bench.finish(first, status=STOPPED)
    bench.finish(second, third)
    assert bench.answers() == [
        (first.task_id, TaskStatus.CANCELED),
        (second.task_id, TaskStatus.SUCCESS),
        (third.task_id, TaskStatus.SUCCESS),
    ]
    bench.wait(2 * GRACE_SECONDS)
    assert bench.processor.messages == []
    assert bench.dispatcher.next_deadline() is None


def test_the_processor_is_asked_until_it_has_interrupted_the_task(bench: Bench) -> None:
    first, *_ = executing_bench(bench)
    bench.cancel(first)
    bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(InterruptProcessor)) == 2
    bench.progress.words[3] = 0
    for _ in range(5):
        bench.wait(INSIST_SECONDS)
    assert bench.processor.take(InterruptProcessor) == []


def test_a_task_that_does_not_end_is_killed_after_the_grace_and_the_others_run_again(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    late = bench.task()
    bench.run(late)
    bench.handed()
    bench.cancel(first)
    bench.progress.words[3] = 0
    for _ in range(round(GRACE_SECONDS / INSIST_SECONDS) - 1):
        bench.wait(INSIST_SECONDS)
        assert bench.processor.take(KillProcessor) == []
    bench.wait(2 * INSIST_SECONDS)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [second, third, late]


def test_a_death_in_the_grace_ends_the_canceled_task_and_marks_nobody(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    bench.cancel(first)
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [second, third]


def test_cancel_of_a_held_task_keeps_it_from_being_started(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    bench.cancel(second)
    assert list(bench.progress.words[1:4]) == [2, 4, 0]
    assert bench.processor.take(InterruptProcessor) == []
    bench.finish(first)
    bench.finish(second, third, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.CANCELED)]
    assert bench.handed() == [third]


def test_cancel_of_a_held_task_behind_a_long_one_is_answered_at_once(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    bench.cancel(second)
    bench.wait(SETTLE_SECONDS)
    assert bench.answers() == [(second.task_id, TaskStatus.CANCELED)]
    bench.finish(first)
    bench.finish(second, third, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS)]
    assert bench.handed() == [third]


def test_a_held_task_that_started_in_spite_of_its_cancel_is_interrupted(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    bench.cancel(second)
    bench.progress.words[0] = 3  # it did not see the new words in time
    bench.finish(first)
    bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.finish(second, status=STOPPED)
    bench.finish(third, status=STOPPED)  # withheld
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.CANCELED)]
    assert bench.handed() == [third]


def test_cancel_between_two_messages_waits_for_what_the_processor_says(bench: Bench) -> None:
    first, second, third = executing_bench(bench)
    bench.progress.words[0] = 0
    bench.cancel(second)
    assert list(bench.progress.words[1:3]) == [1, 4]
    bench.wait(SETTLE_SECONDS)
    assert bench.answers() == []
    bench.finish(first)  # had ended before
    bench.finish(second, third, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.CANCELED)]
    assert bench.handed() == [third]


def test_cancel_of_all_held_tasks_answers_each_once(bench: Bench) -> None:
    tasks = executing_bench(bench)
    bench.cancel(*tasks)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.wait(SETTLE_SECONDS)
    bench.finish(*tasks, status=STOPPED)
    assert sorted(bench.answers()) == sorted((task.task_id, TaskStatus.CANCELED) for task in tasks)
    following = bench.task()
    bench.run(following)
    assert bench.handed() == [following]


def test_a_cancel_that_is_said_twice_is_answered_once(bench: Bench) -> None:
    first, *_ = executing_bench(bench)
    bench.cancel(first)
    bench.cancel(first)
    bench.finish(first, status=STOPPED)
    bench.cancel(first)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]


def test_a_result_that_was_read_stands_against_a_cancel(bench: Bench) -> None:
    task = bench.task()
    bench.run(task)
    bench.cancel(task)
    bench.finish(task)
    bench.die(executing=0)
    assert bench.answers() == [(task.task_id, TaskStatus.SUCCESS)]


def test_nothing_is_handed_behind_a_task_that_shall_end(bench: Bench) -> None:
    first, following = bench.task(), bench.task()
    bench.run(first)
    bench.handed()
    bench.cancel(first)
    bench.run(following)
    assert bench.handed() == []
    bench.finish(first, status=STOPPED)
    assert bench.handed() == [following]


def test_tasks_that_wait_are_given_back_and_what_the_processor_has_stays(bench: Bench) -> None:
    running, first, second = bench.task(), bench.task(), bench.task(priority=1)
    bench.run(running)
    bench.run(first, second)
    assert bench.handed() == [running]
    assert bench.ask_back(running, first, second) == [second.task_id, first.task_id]
    assert bench.processor.take(KillProcessor) == []
    bench.finish(running)
    assert bench.handed() == []
    assert bench.answers() == [(running.task_id, TaskStatus.SUCCESS)]


def test_a_request_for_another_attempt_or_for_nothing_that_is_here_is_not_answered(bench: Bench) -> None:
    running, waiting = bench.task(), bench.task()
    bench.run(running, waiting)
    older = RunTask(waiting.task_id, 0, 7, FUNCTION, b"", b"")
    assert bench.ask_back(older, bench.task()) == []
    bench.finish(running)
    assert bench.handed() == [running, waiting]


def test_unknown_cancel_is_ignored(bench: Bench) -> None:
    bench.cancel(bench.task())
    assert bench.answers() == []


def test_only_the_executing_task_is_marked_by_a_death(bench: Bench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(4)]
    bench.run(*tasks)
    bench.handed()
    bench.finish(tasks[0])
    bench.answers()
    bench.die(executing=4)  # the first one was number 1; tasks[1] had finished, and its result was lost
    assert bench.answers() == [(tasks[2].task_id, TaskStatus.PROCESSOR_DIED)]
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [tasks[1], tasks[3]]


def test_a_death_between_tasks_marks_nobody(bench: Bench) -> None:
    task = bench.task()
    bench.run(task)
    bench.handed()
    bench.die(executing=0)
    assert bench.answers() == []
    bench.with_function()
    assert bench.handed() == []  # cleared by with_function
    bench.finish(task)
    assert bench.answers() == [(task.task_id, TaskStatus.SUCCESS)]


def test_news_of_an_older_processor_is_ignored(bench: Bench) -> None:
    bench.processor_up()
    bench.tell(ProcessorDown(1, 1, "died"))
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    task = bench.task()
    bench.run(task)
    assert bench.handed() == [task]


def test_more_results_than_tasks_kill_the_processor(bench: Bench) -> None:
    bench.finish(bench.task())
    assert len(bench.processor.take(KillProcessor)) == 1
    assert bench.answers() == []


def timed_bench(limit_seconds: float) -> tuple[Bench, list[RunTask]]:
    """Three short tasks are held, none begun."""
    bench = Bench(limit_seconds).with_function()
    bench.know()
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks
    return bench, tasks


def test_a_task_that_runs_for_longer_than_the_limit_is_interrupted() -> None:
    bench, (first, *_) = timed_bench(5)
    bench.execute(2)
    bench.wait(4.9)
    assert bench.processor.take(InterruptProcessor) == []
    bench.wait(0.1)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.progress.words[3] = 0
    where = RunResult(first.task_id, 0, 1, STOPPED, b"  in f\n", 5_000_000, ())
    bench.tell(TasksFinished(bench.number, RunResults([where])))
    assert bench.texts() == [
        "it ran for 5 s on worker w, where no task may run for longer than 5 s (task_timeout_seconds)\n  in f\n"
    ]


def test_each_task_of_a_chunk_has_the_whole_limit() -> None:
    bench, (first, second, third) = timed_bench(5)
    bench.execute(2)
    bench.wait(4)
    bench.execute(3)
    bench.finish(first)
    bench.wait(4.9)
    assert bench.processor.take(InterruptProcessor) == []
    bench.wait(0.2)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.finish(second, status=STOPPED)
    bench.finish(third, status=STOPPED)  # taken back
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.TIMED_OUT)]
    assert bench.handed() == [third]


def test_a_timed_out_task_that_does_not_end_is_killed_and_gets_no_mark() -> None:
    bench, (first, *_) = timed_bench(5)
    bench.execute(2)
    bench.wait(5)
    for _ in range(round(GRACE_SECONDS / INSIST_SECONDS) + 1):
        bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.TIMED_OUT)]


def test_a_canceled_task_is_not_timed_out_as_well() -> None:
    bench, (first, *_) = timed_bench(0.5)
    bench.execute(2)
    bench.cancel(first)
    bench.wait(0.6)
    bench.finish(first, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]


def test_no_timer_runs_while_nothing_is_held() -> None:
    bench, tasks = timed_bench(5)
    bench.finish(*tasks)
    bench.wait(5)
    assert bench.dispatcher.next_deadline() is None
    bench.run(bench.task())
    assert bench.dispatcher.next_deadline() is not None


def stuck_bench(bench: Bench) -> list[RunTask]:
    """Three tasks that looked short are held, and the first one runs for long."""
    bench.know()
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks
    bench.progress.words[0] = 2  # number 1 was the one that taught the slot
    return tasks


def test_tasks_behind_a_long_one_are_taken_back(bench: Bench) -> None:
    tasks = stuck_bench(bench)
    bench.wait(STUCK_SECONDS)
    assert list(bench.progress.words[1:3]) == [2, 4]
    bench.wait(SETTLE_SECONDS)
    bench.cancel(tasks[1])
    assert bench.answers() == [(tasks[1].task_id, TaskStatus.CANCELED)]
    assert bench.processor.take(KillProcessor) == []
    bench.finish(tasks[0], microseconds=20_000)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.SUCCESS)]
    # What the processor says of the tasks that it did not start is no news, and the one that is left is handed again.
    bench.finish(tasks[1], tasks[2], status=STOPPED)
    assert bench.answers() == []
    assert bench.handed() == [tasks[2]]


def test_tasks_that_were_taken_back_from_behind_a_long_one_can_be_given_back(bench: Bench) -> None:
    tasks = stuck_bench(bench)
    assert bench.ask_back(*tasks) == []
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    assert bench.ask_back(*tasks) == [tasks[1].task_id, tasks[2].task_id]


def test_a_task_that_started_in_the_meantime_is_not_taken_back(bench: Bench) -> None:
    tasks = stuck_bench(bench)
    bench.wait(STUCK_SECONDS)
    bench.progress.words[0] = 3  # it did not see the new words in time
    bench.wait(SETTLE_SECONDS)
    bench.finish(tasks[0], tasks[1])
    bench.finish(tasks[2], status=STOPPED)
    assert [task_id for task_id, _ in bench.answers()] == [tasks[0].task_id, tasks[1].task_id]
    assert bench.handed() == [tasks[2]]


def test_progress_keeps_tasks_where_they_are(bench: Bench) -> None:
    tasks = stuck_bench(bench)
    bench.finish(tasks[0])
    bench.wait(STUCK_SECONDS)
    assert list(bench.progress.words[1:3]) == [0, 0]


def test_no_timer_is_set_for_a_single_task(bench: Bench) -> None:
    bench.run(bench.task())
    assert bench.dispatcher.next_deadline() is None


def test_order_is_kept_when_tasks_come_back_twice(bench: Bench) -> None:
    tasks = stuck_bench(bench)
    late = bench.task()
    bench.run(late)
    bench.handed()
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    bench.die(executing=2)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.PROCESSOR_DIED)]
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [tasks[1], tasks[2], late]


# Garbage


def dropped(bench: Bench) -> list[ObjectId]:
    """What the processor was told to forget at the last collection; an error if it was not told to collect."""
    drops = [object_id for drop in bench.processor.take(DropObjects) for object_id in drop.object_ids]
    assert bench.processor.take(CleanProcessor) == [CleanProcessor(bench.number)]
    return sorted(drops)


def test_what_no_task_used_since_the_last_collection_is_dropped(bench: Bench) -> None:
    bench = Bench().with_function(FUNCTION, OTHER)
    for function in (FUNCTION, OTHER):
        bench.know(function=function)
    bench.tell(CollectionDue())
    assert dropped(bench) == []
    bench.know()
    bench.tell(CollectionDue())
    assert dropped(bench) == [OTHER]
    bench.tell(CollectionDue())
    assert dropped(bench) == [FUNCTION]


def test_what_was_deleted_under_a_running_task_is_fetched_for_the_next_one(bench: Bench) -> None:
    bench.know()
    running, after = bench.task(), bench.task()
    bench.run(running)
    assert bench.handed() == [running]
    bench.tell(ForgetObjects([FUNCTION]))
    bench.tell(CollectionDue())
    bench.finish(running)
    bench.run(after)
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot)]
    assert bench.handed() == []


def test_a_processor_that_did_nothing_since_the_last_collection_is_left_alone(bench: Bench) -> None:
    bench.know()
    for _ in range(2):
        bench.tell(CollectionDue())
        dropped(bench)
    for _ in range(3):
        bench.tell(CollectionDue())
    assert bench.processor.messages == []


def test_arguments_are_dropped_as_well_and_fetched_again_when_needed(bench: Bench) -> None:
    task = bench.task(object_ids=OTHER)
    bench.run(task)
    bench.tell(ObjectFound(StoredObject(OTHER, [b"x"], None)))
    assert bench.handed() == [task]
    bench.finish(task)
    bench.know()
    bench.tell(CollectionDue())
    bench.know()
    bench.processor.messages.clear()
    bench.tell(CollectionDue())
    assert dropped(bench) == [OTHER]
    bench.objects.messages.clear()
    again = bench.task(object_ids=OTHER)
    bench.run(again)
    assert [need.object_id for need in bench.objects.take(NeedObject)] == [OTHER]
    assert bench.handed() == []
    bench.tell(ObjectFound(StoredObject(OTHER, [b"x"], None)))
    assert bench.handed() == [again]


def test_what_a_running_task_uses_is_not_dropped_however_long_it_takes(bench: Bench) -> None:
    bench.run(bench.task())
    bench.handed()
    bench.processor.messages.clear()
    for _ in range(5):
        bench.tell(CollectionDue())
    assert bench.processor.messages == []


def test_collections_do_not_pile_up_behind_a_long_task(bench: Bench) -> None:
    bench.know()
    bench.run(bench.task())
    bench.processor.messages.clear()
    for _ in range(5):
        bench.tell(CollectionDue())
    assert dropped(bench) == []


def test_a_collection_without_a_processor_does_nothing(bench: Bench) -> None:
    bench.die(0)
    bench.tell(CollectionDue())
    assert bench.processor.messages == []
