from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from queue import SimpleQueue

import pytest

from scaler.client.link.callbacks import Callbacks


def test_callbacks_run_in_order_in_their_own_thread() -> None:
    callbacks, seen = Callbacks(), SimpleQueue[tuple[int, str]]()
    for n in range(3):
        callbacks.put(lambda n=n: seen.put((n, threading.current_thread().name)))
    assert [seen.get(timeout=10) for _ in range(3)] == [(n, "scaler-callbacks") for n in range(3)]
    callbacks.close()


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError])
def test_a_callback_that_raises_is_logged_and_stops_no_other(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    callbacks, is_called = Callbacks(), threading.Event()
    with caplog.at_level(logging.ERROR, "scaler.client"):
        callbacks.put(fail)
        callbacks.put(is_called.set)
        assert is_called.wait(10)
    callbacks.close()
    assert "a callback of a future raised" in caplog.text
    assert error.__name__ in caplog.text


def test_queued_callbacks_run_before_the_thread_ends() -> None:
    callbacks, may_go_on = Callbacks(), threading.Event()
    threads: SimpleQueue[threading.Thread] = SimpleQueue()
    callbacks.put(may_go_on.wait)
    callbacks.put(lambda: threads.put(threading.current_thread()))
    callbacks.close()
    may_go_on.set()
    thread = threads.get(timeout=10)
    thread.join(10)
    assert not thread.is_alive()


def test_callbacks_run_in_the_calling_thread_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    callbacks, seen = Callbacks(), list[threading.Thread]()
    callbacks.put(lambda: 1 / 0)
    callbacks.put(lambda: seen.append(threading.current_thread()))
    callbacks.close()
    assert seen == [threading.current_thread()]
