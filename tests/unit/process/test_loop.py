from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from scaler.process.loop import Loop, Poll, new_poller


@pytest.fixture(params=[new_poller, Poll])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    made = Loop(request.param())
    yield made
    made.close()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def run_all(loop: Loop) -> None:
    """Run everything that is due now."""
    loop.stop()
    loop.run_forever()


def test_a_reader_and_a_writer_of_one_descriptor_are_independent(
    loop: Loop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    seen: list[str] = []
    loop.add_reader(ours.fileno(), lambda: seen.append("readable"))
    loop.add_writer(ours.fileno(), lambda: seen.append("writable"))
    run_all(loop)
    assert seen == ["writable"]
    theirs.send(b"x")
    run_all(loop)
    assert seen == ["writable", "readable", "writable"]
    loop.remove_writer(ours.fileno())
    run_all(loop)
    assert seen[3:] == ["readable"]
    loop.remove_reader(ours.fileno())
    loop.remove_reader(ours.fileno())
    run_all(loop)
    assert seen[4:] == []


def test_a_second_reader_of_a_descriptor_replaces_the_first(
    loop: Loop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    seen: list[str] = []
    loop.add_reader(ours.fileno(), lambda: seen.append("first"))
    loop.add_reader(ours.fileno(), lambda: seen.append("second"))
    theirs.send(b"x")
    run_all(loop)
    assert seen == ["second"]


def test_a_reader_removed_by_an_earlier_callback_is_not_called(loop: Loop) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    seen: list[int] = []

    def reader(mine: int) -> Callable[[], None]:
        def readable() -> None:
            seen.append(mine)
            for ours, _ in pairs:
                loop.remove_reader(ours.fileno())

        return readable

    for index, (ours, theirs) in enumerate(pairs):
        loop.add_reader(ours.fileno(), reader(index))
        theirs.send(b"x")
    run_all(loop)
    assert len(seen) == 1
    for pair in pairs:
        for end in pair:
            end.close()


def test_timers_are_called_in_their_order_and_cancelled_timers_never(loop: Loop) -> None:
    seen: list[object] = []
    started = loop.time()
    loop.call_later(0.04, loop.stop)
    loop.call_at(started + 0.02, seen.append, "second")
    cancelled = loop.call_later(0.01, seen.append, "cancelled")
    loop.call_at(started, seen.append, "first")
    cancelled.cancel()
    cancelled.cancel()
    loop.run_forever()
    assert seen == ["first", "second"]
    assert loop.time() - started >= 0.04


def test_callbacks_added_by_a_callback_run_after_ready_descriptors(
    loop: Loop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    seen: list[str] = []

    def again() -> None:
        seen.append("soon")
        if len(seen) < 10:
            loop.call_soon(again)

    loop.add_reader(ours.fileno(), lambda: (seen.append("readable"), loop.stop()))
    loop.call_soon(again)
    theirs.send(b"x")
    loop.run_forever()
    assert seen == ["readable", "soon"]


def test_a_callback_that_fails_does_not_affect_the_next_callback(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    loop.call_soon(lambda: 1 // 0)
    loop.call_soon(seen.append, "the next one")
    run_all(loop)
    assert seen == ["the next one"]
    assert "ZeroDivisionError" in caplog.text


def test_a_keyboard_interrupt_ends_the_loop(loop: Loop) -> None:
    loop.call_soon(signal.raise_signal, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()


@pytest.mark.thorough
def test_the_loop_runs_all_calls_of_another_thread_in_order(loop: Loop) -> None:
    count = 100_000  # more than its pipe holds
    seen: list[int] = []

    def call() -> None:
        for number in range(count):
            loop.call_soon_threadsafe(seen.append, number)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=call)
    thread.start()
    loop.run_forever()
    thread.join()
    assert seen == list(range(count))


def test_a_signal_wakes_the_loop_and_closing_it_restores_the_default_handlers(loop: Loop) -> None:
    seen: list[str] = []
    loop.add_signal_handler(signal.SIGUSR1, lambda: (seen.append("heard"), loop.stop()))
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    loop.run_forever()
    assert seen == ["heard"]
    loop.add_signal_handler(signal.SIGINT, seen.append, "nobody says this")
    loop.remove_signal_handler(signal.SIGUSR1)
    loop.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    assert signal.set_wakeup_fd(-1) == -1


def test_a_closed_loop_accepts_no_calls_from_other_threads(loop: Loop) -> None:
    loop.close()
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon_threadsafe(print)


def test_the_loop_sleeps_until_an_event(loop: Loop) -> None:
    before = time.process_time()
    loop.call_later(0.5, loop.stop)
    loop.run_forever()
    assert time.process_time() - before < 0.1
