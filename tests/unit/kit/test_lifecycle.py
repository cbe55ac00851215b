"""Hooks of actors: which one runs when, how often, and what happens to an exception in it."""

from __future__ import annotations

import logging

import pytest

from scaler.kit import Actor, ActorRef, ChildFailed, ChildStopped, Dispatcher, handles
from scaler.message import message
from tests.support.virtual_clock import VirtualClock


@message
class Work:
    number: int


@message
class Raise:
    error: BaseException


@message
class StopNow:
    then_raise: bool = False


class Life(Actor):
    """An actor that records what happens to it."""

    def __init__(self, raises_in: str = "") -> None:
        self.story: list[object] = []
        self._raises_in = raises_in

    def _chapter(self, name: str) -> None:
        self.story.append(name)
        if name == self._raises_in:
            raise ValueError(name)

    def on_start(self) -> None:
        self._chapter("on_start")

    def on_stop(self) -> None:
        self._chapter("on_stop")

    def on_failure(self, *error: object) -> None:
        self._chapter("on_failure")

    @handles(Work)
    def work(self, work: Work) -> None:
        self.story.append(work.number)

    @handles(Raise)
    def raise_it(self, command: Raise) -> None:
        raise command.error

    @handles(StopNow)
    def leave(self, command: StopNow) -> None:
        self.stop_now()
        self.story.append("after stop_now")
        if command.then_raise:
            raise ValueError("after stop_now")


class Parent(Actor):
    def __init__(self) -> None:
        self.news: list[object] = []

    @handles(ChildFailed)
    def child_failed(self, failed: ChildFailed) -> None:
        self.news.append(failed.error)

    @handles(ChildStopped)
    def child_stopped(self, stopped: ChildStopped) -> None:
        self.news.append("stopped")


class Setup:
    def __init__(self) -> None:
        self.dispatcher = Dispatcher(VirtualClock())
        self.parent = Parent()
        self.parent_ref = self.dispatcher.spawn(self.parent)

    def spawn(self, life: Life, *mail: object) -> ActorRef:
        ref = self.dispatcher.spawn(life, self.parent_ref)
        for letter in mail:
            ref.send(letter)
        self.dispatcher.run()
        return ref


@pytest.fixture
def setup() -> Setup:
    return Setup()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "scaler")


def test_on_start_runs_before_any_mail_and_on_stop_after_all(setup: Setup) -> None:
    life = Life()
    ref = setup.spawn(life, Work(1), Work(2))
    setup.dispatcher.stop(ref)
    assert life.story == ["on_start", 1, 2, "on_stop"]
    assert setup.parent.news == []


def test_a_handler_that_raises_ends_the_actor_by_on_failure(setup: Setup) -> None:
    life, error = Life(), RuntimeError("handler")
    ref = setup.spawn(life, Work(1), Raise(error), Work(2))
    assert life.story == ["on_start", 1, "on_failure"]
    assert setup.parent.news == [error]
    assert ref.is_stopped()
    assert setup.dispatcher.dead_letters.count == 1


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), MemoryError(), RecursionError()]
)
def test_no_exception_of_an_actor_reaches_the_loop_or_another_actor(setup: Setup, error: BaseException) -> None:
    neighbour = Life()
    ref = setup.dispatcher.spawn(neighbour)
    setup.spawn(Life(), Raise(error))
    ref.send(Work(1))
    setup.dispatcher.run()
    assert setup.parent.news == [error]
    assert neighbour.story == ["on_start", 1]


def test_on_start_that_raises_is_a_failure_before_the_first_message(setup: Setup) -> None:
    life = Life("on_start")
    ref = setup.spawn(life, Work(1))
    assert life.story == ["on_start", "on_failure"]
    assert str(setup.parent.news[0]) == "on_start"
    assert ref.is_stopped()
    assert setup.dispatcher.dead_letters.count == 1


def test_on_stop_that_raises_is_only_counted(setup: Setup) -> None:
    life = Life("on_stop")
    ref = setup.spawn(life, StopNow())
    assert life.story == ["on_start", "on_stop", "after stop_now"]
    assert setup.parent.news == []
    assert ref.is_stopped()
    assert setup.dispatcher.failures == 1


def test_on_failure_that_raises_does_not_hide_the_first_error_from_the_parent(setup: Setup) -> None:
    life, error = Life("on_failure"), RuntimeError("the first")
    setup.spawn(life, Raise(error))
    assert setup.parent.news == [error]
    assert setup.dispatcher.failures == 1


def test_a_handler_that_raises_after_stop_now_is_reported_and_cleaned_up_once(setup: Setup) -> None:
    life = Life()
    setup.spawn(life, StopNow(then_raise=True))
    assert life.story == ["on_start", "on_stop", "after stop_now"]
    assert str(setup.parent.news[0]) == "after stop_now"


def test_on_failure_runs_before_the_parent_is_notified(setup: Setup) -> None:
    order: list[str] = []

    class LoudParent(Actor):
        @handles(ChildFailed)
        def child_failed(self, failed: ChildFailed) -> None:
            order.append("parent")

    class Child(Life):
        def on_failure(self, *error: object) -> None:
            order.append("on_failure")

    parent = setup.dispatcher.spawn(LoudParent())
    setup.dispatcher.spawn(Child(), parent).send(Raise(ValueError()))
    setup.dispatcher.run()
    assert order == ["on_failure", "parent"]


def test_only_a_supervised_child_reports_that_it_stopped_in_order(setup: Setup) -> None:
    ref = setup.dispatcher.address(Life, setup.parent_ref)
    setup.dispatcher.attach(ref, Life())
    ref.send(StopNow())
    setup.spawn(Life(), StopNow())
    assert setup.parent.news == ["stopped"]


def test_the_failure_is_logged_with_the_address_and_the_traceback(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "scaler")
    ref = setup.spawn(Life("on_failure"), Raise(RuntimeError("lost")))
    first, second = caplog.records
    assert f"{ref} failed: RuntimeError('lost')" in first.getMessage()
    assert first.exc_info is not None
    assert "failed again in on_failure" in second.getMessage()
