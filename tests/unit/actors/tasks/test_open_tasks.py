"""Open tasks of a client or a job: each row of them counts for their owner."""

from __future__ import annotations

from scaler.actors.messages.tasks import CancelTask
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.vocabulary.owners import Owner
from tests.support.bench import Bench


def test_each_row_of_open_tasks_counts_for_their_owner_until_it_ends(bench: Bench) -> None:
    owner = Owner("alice")
    tasks = OpenTasks[int](owner)
    refs = [bench.recorder()[1] for _ in range(5)]
    tasks.add(1, refs[0])
    tasks.add(10, refs[1], 3)
    assert (len(tasks), tasks.n_rows, owner.tasks) == (2, 4, 4)
    assert (tasks.key_of(refs[1]), tasks.key_of(refs[2]), tasks.get(10), tasks.get(11)) == (10, None, refs[1], None)
    assert tasks.end_range(10, 11) is False
    assert (list(tasks), tasks.n_rows, owner.tasks, tasks.ranges) == ([1, 11], 2, 2, {})
    assert [tasks.end(11), tasks.end(11), owner.tasks] == [True, False, 1]
    tasks.add(20, refs[0], 2)
    assert tasks.end(20)
    assert owner.tasks == 1
    assert tasks.take_all() == [refs[0]]
    assert (len(tasks), owner.tasks) == (0, 0)


def test_a_range_that_ended_early_knows_whether_it_was_cancelled(bench: Bench) -> None:
    owner = Owner("alice")
    tasks = OpenTasks[int](owner)
    recorder, task = bench.recorder()
    tasks.add(10, task, 3)
    tasks.add(20, task, 3)
    tasks.cancel(10, CancelTask())
    bench.run()
    assert recorder.messages == [CancelTask()]
    assert [tasks.end_range(first, None) for first in (10, 10, 20, 1)] == [True, None, False, None]
    assert (len(tasks), owner.tasks) == (0, 0)
    tasks.check()


def test_an_ended_task_wakes_a_session_that_waits_for_the_quota(bench: Bench) -> None:
    recorder, session = bench.recorder()
    owner = Owner("alice")
    tasks = OpenTasks[int](owner)
    tasks.add(1, session)
    owner.wait(session)
    tasks.end(1)
    bench.run()
    assert len(recorder.messages) == 1
