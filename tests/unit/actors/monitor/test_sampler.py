from __future__ import annotations

import pytest

from scaler.actors.monitor.names import Names
from scaler.actors.monitor.sampler import ALL_BELOW, NEW_MOST, SOME_ABOVE, Sampler
from scaler.actors.monitor.tasks import SampledTasks
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.events import EVERY_TASK, Events
from scaler.ids import TaskId
from tests.support.simulation import FUNCTION_ID
from tests.unit.actors.monitor.conftest import Move, task_id


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def tasks() -> SampledTasks:
    return SampledTasks(Names(ObjectTable()))


@pytest.fixture
def sampler(events: Events, tasks: SampledTasks) -> Sampler:
    return Sampler(events, tasks)


def test_the_sampler_follows_all_tasks_while_few_end(sampler: Sampler, events: Events, tasks: SampledTasks) -> None:
    followed = []
    for second, ends in enumerate((0, ALL_BELOW, SOME_ABOVE, SOME_ABOVE + 1, SOME_ABOVE, ALL_BELOW)):
        events.ended_of.count(FUNCTION_ID, 0, ends)
        sampler.look(float(second), wants_sample=True, wants_some=False)
        assert events.followed in (EVERY_TASK, tasks.followed)
        followed.append(events.followed is EVERY_TASK)
    assert followed == [True, True, True, False, False, True]


def test_very_many_new_tasks_between_two_looks_end_the_following_of_all_tasks(
    sampler: Sampler, events: Events, tasks: SampledTasks
) -> None:
    sampler.look(0.0, wants_sample=True, wants_some=False)
    for _ in range(NEW_MOST - 1):
        sampler.count_new()
    assert events.followed is EVERY_TASK
    sampler.count_new()
    assert events.followed is tasks.followed


def test_no_task_is_followed_without_viewers(sampler: Sampler, events: Events, tasks: SampledTasks) -> None:
    sampler.look(0.0, wants_sample=False, wants_some=True)
    assert events.followed is tasks.followed
    tasks.add_run(TaskId(b"t" * 16), "worker", 1, 2, b"function", "price")
    assert TaskId(b"t" * 16) in tasks.followed
    sampler.look(1.0, wants_sample=False, wants_some=False)
    assert events.followed is None
    assert not tasks.followed, "their ends are not reported"


def test_open_tasks_stay_followed_when_not_all_tasks_are(
    sampler: Sampler, events: Events, tasks: SampledTasks, moved: Move
) -> None:
    sampler.look(0.0, wants_sample=True, wants_some=False)
    tasks.add(moved(1), 5)
    events.ended[0] += 10 * SOME_ABOVE
    sampler.look(1.0, wants_sample=True, wants_some=False)
    assert events.followed == {task_id(1)}
