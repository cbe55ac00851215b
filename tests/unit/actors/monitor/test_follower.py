from __future__ import annotations

import pytest

from scaler.actors.insight.events import EVERY_TASK, Events
from scaler.actors.monitor.follower import ALL_BELOW, SOME_ABOVE, STEPS_MOST, Follower
from scaler.actors.monitor.names import Names
from scaler.actors.monitor.tasks import Tasks
from scaler.actors.objects.object_store import ObjectTable


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def tasks() -> Tasks:
    return Tasks(Names(ObjectTable()))


@pytest.fixture
def follower(events: Events, tasks: Tasks) -> Follower:
    return Follower(events, tasks)


def test_all_tasks_are_followed_while_few_end(follower: Follower, events: Events, tasks: Tasks) -> None:
    followed = []
    for second, ends in enumerate((0, ALL_BELOW, SOME_ABOVE, SOME_ABOVE + 1, SOME_ABOVE, ALL_BELOW)):
        events.ended[0] += ends
        follower.look(float(second), wants_sample=True, wants_some=False)
        assert events.followed in (EVERY_TASK, tasks.followed)
        followed.append(events.followed is EVERY_TASK)
    assert followed == [True, True, True, False, False, True]


def test_very_many_steps_between_two_looks_end_it(follower: Follower, events: Events, tasks: Tasks) -> None:
    follower.look(0.0, wants_sample=True, wants_some=False)
    for _ in range(STEPS_MOST - 1):
        follower.heard()
    assert events.followed is EVERY_TASK
    follower.heard()
    assert events.followed is tasks.followed


def test_without_viewers_none_is_followed(follower: Follower, events: Events, tasks: Tasks) -> None:
    follower.look(0.0, wants_sample=False, wants_some=True)
    assert events.followed is tasks.followed
    follower.look(1.0, wants_sample=False, wants_some=False)
    assert events.followed is None
