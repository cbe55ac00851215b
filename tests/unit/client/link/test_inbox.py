from __future__ import annotations

import itertools
import select
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from scaler.client.link import inbox as module
from scaler.client.link.inbox import Inbox


def is_roused(inbox: Inbox[int]) -> bool:
    return bool(select.select([inbox.descriptor], [], [], 0)[0])


def has_run_with(run: Callable[[], Any], meanwhile: Callable[[], Any], step: int) -> bool:
    """Call `run`, and `meanwhile` before instruction number `step` of the inbox, as another thread may.

    Return whether `run` executes more than `step` instructions of the inbox.
    """
    steps = itertools.count()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == step:
            meanwhile()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return next(steps) > step


def test_items_are_taken_in_order() -> None:
    inbox: Inbox[int] = Inbox(lambda item: None)
    for item in (1, 2):
        inbox.put(item)
    assert (inbox.take(), inbox.take(), inbox.take()) == (1, 2, None)
    inbox.end()


def test_a_thread_with_an_item_in_its_inbox_never_appears_asleep() -> None:
    for step in itertools.count():
        inbox: Inbox[int] = Inbox(lambda item: None)
        is_on_time = has_run_with(inbox.fall_asleep, lambda inbox=inbox: inbox.put(1), step)  # type: ignore[misc]
        assert inbox.has_items is is_on_time
        assert not (inbox.has_items and inbox.is_asleep)
        inbox.end()
        if not is_on_time:
            break


def test_a_burst_of_items_wakes_a_sleeping_thread_once() -> None:
    inbox: Inbox[int] = Inbox(lambda item: None)
    inbox.put(1)
    assert not is_roused(inbox)
    assert not inbox.fall_asleep()
    inbox.take()
    assert inbox.fall_asleep()
    for item in range(10):
        inbox.put(item)
    assert is_roused(inbox)
    assert len(inbox._receiver.recv(100)) == 1
    inbox.wake_up(was_roused=False)
    inbox.end()


def test_items_put_after_the_end_are_refused() -> None:
    refused: list[int] = []
    inbox: Inbox[int] = Inbox(refused.append)
    inbox.put(1)
    inbox.end()
    inbox.put(2)
    inbox.put(3)
    assert refused == [1, 2, 3]


def test_no_item_is_lost_between_many_threads_and_the_end() -> None:
    for _ in range(50):
        refused: list[int] = []
        inbox: Inbox[int] = Inbox(refused.append)
        taken: list[int] = []

        def put(inbox: Inbox[int] = inbox) -> None:
            for item in range(1, 101):
                inbox.put(item)

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(taken) < 150:
            inbox.fall_asleep()
            inbox.wake_up(is_roused(inbox))
            while (item := inbox.take()) is not None:
                taken.append(item)
        inbox.end()
        for thread in threads:
            thread.join()
        assert len(taken) + len(refused) == 400


@pytest.mark.parametrize("is_put_meanwhile", [True, False])
def test_a_thread_never_sleeps_while_its_inbox_has_an_item(is_put_meanwhile: bool) -> None:
    """The other thread runs before each instruction of `fall_asleep`, or of `put`."""
    for step in itertools.count():
        inbox: Inbox[int] = Inbox(lambda item: None)
        sleeps: list[bool] = []

        def put(inbox: Inbox[int] = inbox) -> None:
            inbox.put(1)

        def fall_asleep(inbox: Inbox[int] = inbox, sleeps: list[bool] = sleeps) -> None:
            sleeps.append(inbox.fall_asleep())

        run, meanwhile = (fall_asleep, put) if is_put_meanwhile else (put, fall_asleep)
        is_there = has_run_with(run, meanwhile, step)
        if is_there:
            assert sleeps == [False] or is_roused(inbox), step
            inbox.wake_up(is_roused(inbox))
            assert (inbox.take(), inbox.is_asleep) == (1, False)
        inbox.end()
        if not is_there:
            break
    assert step > 5


@pytest.mark.parametrize("is_put_meanwhile", [True, False])
@pytest.mark.parametrize("is_asleep", [True, False])
def test_no_item_is_lost_when_an_inbox_ends(is_put_meanwhile: bool, is_asleep: bool) -> None:
    for step in itertools.count():
        refused: list[int] = []
        inbox: Inbox[int] = Inbox(refused.append)
        inbox.is_asleep = is_asleep

        def put(inbox: Inbox[int] = inbox) -> None:
            inbox.put(1)

        run, meanwhile = (inbox.end, put) if is_put_meanwhile else (put, inbox.end)
        if not has_run_with(run, meanwhile, step):
            inbox.end()
            break
        assert refused == [1], step
        inbox.put(2)
        assert refused == [1, 2], step
    assert step > 5
