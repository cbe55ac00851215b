from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from scaler.agent.ledger import Ledger
from scaler.agent.tally import Tally
from scaler.agent.values import NodeValues
from scaler.errors import ObjectTooLargeError
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import SharedBlock, frames_at
from scaler.store.host_share import HostShare
from scaler.store.store import ValueStore
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, row_id
from scaler.wire.messages.worker import (
    HELD_OWNER,
    HELD_RUN,
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunResult,
    RunTask,
    RunUnblocked,
)

FUNCTION = ObjectId(b"f" * 16)
new_id = IdSource()


def task(worker: int = 0, attempt: int = 7, task_id: TaskId | None = None) -> RunTask:
    return RunTask(task_id or TaskId(new_id()), worker, attempt, FUNCTION, b"", b"")


def result(of: RunTask, frames: tuple[bytes, ...] = ()) -> RunResult:
    return RunResult(of.task_id, of.worker, of.attempt, TaskStatus.SUCCESS, b"", 0, frames)


def held(*runs: RunTask | RunResult) -> bytes:
    return b"".join(HELD_RUN.pack(run.task_id, run.attempt, run.worker, run.rows) for run in runs)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_new_tasks_are_grouped_by_worker_in_their_order(ledger: Ledger) -> None:
    tasks = [task(worker) for worker in (1, 0, 1)]
    assert ledger.add(tasks) == {1: [tasks[0], tasks[2]], 0: [tasks[1]]}


def test_an_open_task_is_not_added_again_but_a_later_attempt_is(ledger: Ledger) -> None:
    first = task(attempt=7)
    later, earlier = task(1, 8, first.task_id), task(1, 6, first.task_id)
    ledger.add([first])
    assert ledger.add([first, earlier]) == {}
    assert ledger.add([later]) == {1: [later]}
    assert ledger.find(first.task_id, 7) is None
    assert ledger.find(first.task_id, 8) is later


def test_messages_about_runs_are_sorted_by_worker_and_unknown_runs_are_returned_apart(ledger: Ledger) -> None:
    near, far = task(0), task(1)
    ledger.add([near, far])
    known = [RecallRequest(each.task_id, 9, each.attempt) for each in (near, far)]
    stale = RecallRequest(near.task_id, 0, near.attempt - 1)
    unknown = RecallRequest(task().task_id, 0, 7)
    assert ledger.by_worker([*known, stale, unknown]) == ({0: [known[0]], 1: [known[1]]}, [stale, unknown])


def test_a_run_is_held_until_its_result_is_acknowledged(ledger: Ledger) -> None:
    tasks = [task() for _ in range(3)]
    ledger.add(tasks)
    assert ledger.held() == held(*tasks)
    ends = [result(each) for each in tasks[:2]]
    ledger.finish(ends)
    assert ledger.held() == held(tasks[2], *ends)
    ledger.heard([RunUnblocked(tasks[2].task_id, 0, 7), ends[0]])
    assert ledger.results() == ends[1:]
    assert ledger.held() == held(tasks[2], ends[1])


def test_results_are_forgotten_in_the_order_of_their_acknowledgements(ledger: Ledger) -> None:
    """A large result is acknowledged after smaller ones that were sent behind it."""
    ends = [result(task()) for _ in range(4)]
    ledger.finish(ends)
    ledger.heard([ends[2]])
    ledger.heard([ends[0], ends[0], result(task())])
    assert ledger.results() == [ends[1], ends[3]]


def test_the_end_of_an_older_attempt_leaves_the_newer_one_open(ledger: Ledger) -> None:
    older = task(0, 7)
    newer = task(1, 8, older.task_id)
    ledger.add([older, newer])
    ledger.finish([result(older)])
    assert ledger.find(newer.task_id, 8) is newer
    assert ledger.results() == [result(older)]


def test_a_recalled_task_may_be_assigned_again(ledger: Ledger) -> None:
    again = task()
    ledger.add([again])
    ledger.remove_recalled(RecallResponse(again.task_id, 0, again.attempt))
    assert ledger.held() == b""
    assert ledger.add([again]) == {0: [again]}


def test_only_open_runs_can_be_blocked_until_they_resume_or_end(ledger: Ledger) -> None:
    tasks = [task() for _ in range(3)]
    ledger.add(tasks)
    waits = [RunBlocked(each.task_id, 0, each.attempt) for each in tasks]
    stale = RunBlocked(tasks[0].task_id, 0, tasks[0].attempt - 1)
    assert ledger.block([*waits, stale, RunBlocked(task().task_id, 0, 7)]) == waits
    ledger.unblock(RunUnblocked(tasks[0].task_id, 0, tasks[0].attempt - 1))
    assert ledger.blocked() == waits
    ledger.unblock(RunUnblocked(tasks[0].task_id, 0, tasks[0].attempt))
    ledger.finish([result(tasks[1])])
    assert ledger.blocked() == waits[2:]


def test_a_cancel_of_an_ended_run_is_answered_by_its_kept_result(ledger: Ledger) -> None:
    ended = task()
    ledger.finish([result(ended)])
    cancels = [RunCancel(ended.task_id, 0, attempt) for attempt in (ended.attempt, ended.attempt + 1)]
    assert ledger.without_result(cancels) == cancels[1:]


def test_a_large_result_is_found_as_long_as_it_is_kept(ledger: Ledger) -> None:
    small, large = task(), task()
    ledger.finish([result(small), result(large, (b"large",))])
    assert ledger.large_result(ObjectId(large.task_id)) == (b"large",)
    assert ledger.large_result(ObjectId(small.task_id)) == ()
    ledger.heard(ledger.results())
    assert ledger.large_result(ObjectId(large.task_id)) == ()


@pytest.mark.parametrize("attempt", [20, 90])
def test_attempts_of_the_next_scheduler_are_not_compared_with_attempts_of_the_last(
    ledger: Ledger, attempt: int
) -> None:
    former, other, ended = task(), task(), task()
    ledger.add([former, other, ended])
    ledger.block([RunBlocked(former.task_id, 0, former.attempt)])
    before = ledger.held()
    ledger.finish([result(ended)])
    ledger.keep_for_new_session()
    assert ledger.held() == before
    assert ledger.add([former]) == {}
    again = replace(former, attempt=(former.attempt + attempt - 50) % 2**32)
    assert ledger.add([again]) == {0: [again]}
    assert ledger.blocked() == []
    assert ledger.add([replace(again, attempt=(again.attempt - 1) % 2**32)]) == {}
    ledger.finish([result(other)])
    fresh = replace(other, attempt=5)
    ledger.add([fresh])
    assert ledger.add([replace(fresh, attempt=4)]) == {}


def test_statistics_count_open_tasks_blocked_tasks_and_results(ledger: Ledger) -> None:
    one, two, other = task(0), task(0), task(2)
    ledger.add([one, two, other])
    ledger.block([RunBlocked(one.task_id, 0, one.attempt)])
    ledger.finish([result(other)])
    assert ledger.statistics() == {"tasks": 2, "blocked_tasks": 1, "results": 1}
    assert ledger.tasks_by_worker() == {0: 2}


def test_tasks_by_worker_counts_the_open_tasks_of_each_worker(ledger: Ledger) -> None:
    one, two, three, other = task(0), task(0), task(0), task(1)
    ledger.add([one, two, three, other])
    assert ledger.tasks_by_worker() == {0: 3, 1: 1}
    ledger.finish([result(one)])
    ledger.remove_recalled(RecallResponse(two.task_id, 0, two.attempt))
    assert ledger.tasks_by_worker() == {0: 1, 1: 1}
    elsewhere = task(1, three.attempt + 1, three.task_id)
    ledger.add([elsewhere, elsewhere])
    assert ledger.tasks_by_worker() == {1: 2}
    ledger.finish([result(three)])
    assert ledger.tasks_by_worker() == {1: 2}, "the older attempt has ended"
    ledger.finish([result(elsewhere), result(other), result(task(1))])
    assert ledger.tasks_by_worker() == {}


def test_a_hello_names_at_most_the_maximum_of_held_runs(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.agent.ledger.HELD_MOST", 2)
    first, second, third = task(), task(), task()
    ledger.add([first, second, third])
    ledger.finish(Batch[RunResult]([result(first)]))
    assert ledger.held() == held(second, third)


# Results that are not sent


def failure_of(of: RunResult) -> ObjectTooLargeError:
    assert (of.status, of.frames) == (TaskStatus.FAILED, ())
    error = pickle.loads(TaskFailure.decode(of.payload).exception)
    assert type(error) is ObjectTooLargeError
    return error


def test_a_result_that_is_too_large_for_the_scheduler_fails_its_task() -> None:
    ledger = Ledger("the scheduler at tcp://there:1")
    ledger.value_bytes = 100
    runs = [task() for _ in range(3)]
    ledger.add(runs)
    small, large, other = (
        result(run, frames) for run, frames in zip(runs, [(), (bytes(101),), (bytes(100),)], strict=True)
    )
    ledger.tally = Tally()
    reported = ledger.finish(Batch[RunResult]([small, large, other]))
    assert [reported[0], reported[2]] == [small, other]
    error = failure_of(reported[1])
    assert (error.size, error.budget, error.host) == (101, 100, "the scheduler at tcp://there:1")
    assert ledger.results() == reported
    assert ledger.large_result(ObjectId(large.task_id)) == ()
    assert not ledger.has_tasks


def test_a_kept_result_that_is_too_large_for_the_next_scheduler_is_reported_as_a_failure(ledger: Ledger) -> None:
    small, large = result(task()), result(task(), (bytes(101),))
    ledger.finish(Batch[RunResult]([small, large]))
    assert ledger.results() == [small, large]
    ledger.value_bytes = 100
    same, refused = ledger.results()
    assert same is small
    assert failure_of(refused).size == 101


def test_a_batch_of_results_that_fit_is_returned_unchanged(ledger: Ledger) -> None:
    results = Batch[RunResult]([result(task()), result(task(), (bytes(10_000_000),))])
    assert ledger.finish(results) is results


def test_a_result_is_given_up_after_five_schedulers_ended_during_its_transfer(ledger: Ledger) -> None:
    poison, innocent = result(task(), (bytes(1000),)), result(task(), (bytes(1000),))
    ledger.finish(Batch[RunResult]([poison, innocent]))
    for _ in range(TRIES_MOST - 1):
        ledger.keep_for_new_session([poison])
        ledger.keep_for_new_session([])
    assert ledger.results() == [poison, innocent]
    ledger.keep_for_new_session([poison])
    given_up, kept = ledger.results()
    assert kept is innocent
    error = failure_of(given_up)
    assert (error.size, error.budget) == (1000, None)
    assert "the scheduler has ended 5 times during this transfer" in error.cure


def test_the_count_of_ended_schedulers_is_dropped_with_an_acknowledged_result(ledger: Ledger) -> None:
    large = result(task(), (bytes(1000),))
    for _ in range(3):
        ledger.finish(Batch[RunResult]([large]))
        for _ in range(TRIES_MOST - 1):
            ledger.keep_for_new_session([large])
        ledger.heard([large])
        ledger.keep_for_new_session([])
    assert ledger.results() == []


# Results that stay at the agent


def in_a_block(of: RunTask, content: bytes = b"v" * 100_000) -> RunResult:
    return result(of, tuple(SharedBlock.of([content]).map(remember=True)))


@pytest.fixture
def keeper() -> tuple[Ledger, NodeValues]:
    values = NodeValues(ValueStore(HostShare(None), 1 << 30))
    return Ledger("the scheduler", values), values


def test_a_large_result_stays_at_the_agent_and_its_location_is_reported(keeper: tuple[Ledger, NodeValues]) -> None:
    ledger, values = keeper
    run = task()
    ledger.add([run])
    (reported,) = ledger.finish(Batch[RunResult]([in_a_block(run)]))
    assert (reported.frames, values.results()) == ((), [reported])
    assert bytes(frames_at(reported.location)[0]) == b"v" * 100_000
    assert ledger.results() == [reported]


def test_an_acknowledged_result_that_stays_is_reported_to_each_new_scheduler(
    keeper: tuple[Ledger, NodeValues],
) -> None:
    ledger, values = keeper
    run, other = task(), task()
    ledger.add([run, other])
    (reported,) = ledger.finish(Batch[RunResult]([in_a_block(run)]))
    ledger.finish(Batch[RunResult]([result(other)]))
    ledger.heard([reported, result(other)])
    assert ledger.held() == HELD_RUN.pack(run.task_id, run.attempt, run.worker, run.rows)
    assert ledger.results() == [reported]
    order = RunCancel(run.task_id, run.worker, run.attempt)
    assert ledger.without_result([order, replace(order, attempt=run.attempt + 1)]) == [
        replace(order, attempt=run.attempt + 1)
    ]
    values.drop(ObjectId(run.task_id), reported.location)
    assert (ledger.held(), ledger.results()) == (b"", [])


@pytest.mark.parametrize(("ended", "running"), [(0, 1), (0, 3), (2, 3)])
def test_a_hello_names_the_rows_that_the_result_of_a_range_that_ended_early_is_about(
    ledger: Ledger, ended: int, running: int
) -> None:
    rows = replace(task(), task_id=TaskId(bytes(16)), payload=pack([b""] * 4), rows=4)
    ledger.add([rows])
    payload = pack([b""] * ended) if ended else b""
    short = replace(result(rows), payload=payload, rows=ended, running=running)
    (reported,) = ledger.finish(Batch[RunResult]([short]))
    ledger.keep_for_new_session()
    going_on = HELD_RUN.pack(row_id(rows.task_id, running - 1), rows.attempt, 0, 0)
    assert ledger.held() == going_on + HELD_RUN.pack(rows.task_id, rows.attempt, 0, running)
    assert ledger.results() == [reported]


def test_the_owner_of_each_run_is_known_as_long_as_the_run_is_held(keeper: tuple[Ledger, NodeValues]) -> None:
    """Held are open runs, unacknowledged results (also of rows), and results that stay."""
    ledger, values = keeper
    runs = [replace(task(), owner=owner) for owner in (1, 2, 3)]
    rows = replace(task(), task_id=TaskId(bytes(16)), payload=pack([b"", b""]), rows=2, owner=4)
    ledger.add([*runs, rows])
    (large,) = ledger.finish(Batch[RunResult]([in_a_block(runs[0])]))
    small = result(runs[1])
    ledger.finish(Batch[RunResult]([small]))
    ledger.finish(Batch[RunResult]([replace(result(rows), payload=pack([b"", b""]), rows=2)]))
    ledger.heard([large])

    def owners() -> list[int]:
        assert len(ledger.owners_of_held()) // HELD_OWNER.size == len(ledger.held()) // HELD_RUN.size
        return [owner for (owner,) in HELD_OWNER.iter_unpack(ledger.owners_of_held())]

    assert owners() == [3, 2, 4, 1]
    ledger.keep_for_new_session()
    assert owners() == [3, 2, 4, 1]
    ledger.heard([small, replace(result(rows), rows=2)])
    values.drop(ObjectId(runs[0].task_id), large.location)
    assert owners() == [3]
    assert (ledger._owners, values._accounts) == ({}, {})


def test_a_value_that_a_newer_attempt_may_replace_is_not_named_in_a_hello(keeper: tuple[Ledger, NodeValues]) -> None:
    ledger, _ = keeper
    old = task(attempt=7)
    again = task(attempt=8, task_id=old.task_id)
    ledger.add([old])
    (reported,) = ledger.finish(Batch[RunResult]([in_a_block(old)]))
    ledger.heard([reported])
    ledger.add([again])
    assert ledger.held() == held(again)
    (newer,) = ledger.finish(Batch[RunResult]([in_a_block(again)]))  # before the scheduler has answered
    assert ledger.results() == [newer]


def test_the_result_of_an_older_attempt_is_not_kept_as_a_value(keeper: tuple[Ledger, NodeValues]) -> None:
    ledger, values = keeper
    old = task(attempt=7)
    ledger.add([old])
    ledger.add([task(attempt=8, task_id=old.task_id)])
    (reported,) = ledger.finish(Batch[RunResult]([in_a_block(old)]))
    assert (bool(reported.frames), reported.location, values.ids()) == (True, b"", [])


def test_a_location_that_a_task_names_for_its_result_is_ignored(keeper: tuple[Ledger, NodeValues]) -> None:
    ledger, _ = keeper
    run = task()
    ledger.add([run])
    forged = replace(result(run), location=SharedBlock.of([b"somebody else's"]).location())
    (reported,) = ledger.finish(Batch[RunResult]([forged]))
    assert (reported.location, reported.frames) == (b"", ())


def test_a_result_that_is_too_large_for_the_scheduler_does_not_stay(keeper: tuple[Ledger, NodeValues]) -> None:
    ledger, values = keeper
    ledger.value_bytes = 50_000
    run = task()
    ledger.add([run])
    (reported,) = ledger.finish(Batch[RunResult]([in_a_block(run)]))
    assert (reported.status, reported.location, values.ids()) == (TaskStatus.FAILED, b"", [])
