from __future__ import annotations

import gc
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

from scaler.config import ConfigError
from scaler.kit import Actor, handles
from scaler.process.shell import TURNS_PER_WAKE, Shell, new_event_loop
from scaler.settings import EVENT_LOOPS
from tests.support.processes import run_script, wait_until


class Line(str):
    __slots__ = ()


class Later(str):
    __slots__ = ()


class Fail:
    pass


class Echo(Actor):
    """Repeats each line, at once or after a delay."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    @handles(Line)
    def _uplink(self, line: Line) -> None:
        self.said.append(line)

    @handles(Later)
    def _later(self, later: Later) -> None:
        self.schedule(float(later), Line(f"after {later}"))

    @handles(Fail)
    def _fail(self, _fail: Fail) -> None:
        raise ValueError("nobody can mend this")


class LineEdge:
    """An edge with one socket: each received line is mail for the echo, and each line of the echo is sent."""

    def __init__(self, shell: Shell, end: socket.socket) -> None:
        self.said: list[str] = []
        self.echo = shell.dispatcher.spawn(Echo(self.said))
        self.receives = 0
        self._end = end
        end.setblocking(False)
        shell.watch(end.fileno())

    def receive(self) -> bool:
        self.receives += 1
        try:
            data = self._end.recv(4096)
        except BlockingIOError:
            return False
        for line in data.decode().splitlines():
            self.echo.send(Later(line.removeprefix("later ")) if line.startswith("later ") else Line(line))
        return bool(data)

    def flush(self) -> bool:
        said, self.said[:] = list(self.said), []
        for line in said:
            self._end.sendall(f"{line}\n".encode())
        return bool(said)


class Running:
    """A shell with a line edge that runs in a thread, and the other end of its socket."""

    def __init__(self, event_loop: str) -> None:
        ours, theirs = socket.socketpair()
        self.end = ours
        self.end.settimeout(10)
        self._theirs = theirs
        self.shell = Shell(event_loop)
        self.edge = LineEdge(self.shell, theirs)
        self.exit_code: int | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.exit_code = self.shell.run(self.edge)

    def start(self) -> None:
        self.thread.start()

    def in_loop(self, function: Callable[..., Any], *args: Any) -> None:
        """Call the function in the loop, and wait until it returns."""
        is_done = threading.Event()

        def call() -> None:
            try:
                function(*args)
            finally:
                is_done.set()

        self.shell.loop.call_soon_threadsafe(call)
        assert is_done.wait(10)

    def read_lines(self, lines: int) -> list[str]:
        said = b""
        while said.count(b"\n") < lines:
            said += self.end.recv(4096)
        return said.decode().splitlines()

    def close(self) -> None:
        if self.thread.is_alive():
            self.in_loop(self.shell.stop)
        self.thread.join(10)
        assert not self.thread.is_alive()
        self.end.close()
        self._theirs.close()


@pytest.fixture(params=EVENT_LOOPS)
def event_loop(request: pytest.FixtureRequest) -> str:
    if importlib.util.find_spec("uvloop") is None and request.param == "uvloop":
        pytest.skip("uvloop is not installed")
    return str(request.param)


@pytest.fixture
def running(event_loop: str) -> Iterator[Running]:
    made = Running(event_loop)
    made.start()
    yield made
    made.close()


def test_received_lines_reach_the_actor_and_its_answers_are_sent(running: Running) -> None:
    running.end.sendall(b"one\ntwo\n")
    assert running.read_lines(2) == ["one", "two"]
    running.end.sendall(b"three\n")
    assert running.read_lines(1) == ["three"]


def test_idle_shell_sleeps(running: Running) -> None:
    running.end.sendall(b"one\n")
    running.read_lines(1)
    before = running.edge.receives
    running.end.sendall(b"later 0.05\n")
    running.read_lines(1)
    assert running.edge.receives - before < 10


def test_timers_are_kept_in_order(running: Running) -> None:
    started = time.monotonic()
    running.end.sendall(b"later 0.06\n")
    running.end.sendall(b"later 0.02\n")
    assert running.read_lines(2) == ["after 0.02", "after 0.06"]
    assert time.monotonic() - started >= 0.06


def test_mail_from_another_thread_wakes_the_shell(running: Running) -> None:
    running.edge.echo.tell(Line("from outside"))
    assert running.read_lines(1) == ["from outside"]


def test_a_signal_calls_its_handler_in_the_loop_and_a_turn_follows(event_loop: str) -> None:
    shell = Shell(event_loop)
    ours, theirs = socket.socketpair()
    edge = LineEdge(shell, theirs)
    heard: list[str] = []

    def handler(name: str) -> None:
        heard.append(name)
        edge.echo.send(Line("heard"))
        shell.loop.call_soon(shell.stop)

    shell.on_signals(handler, signal.SIGUSR1)
    shell.loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    assert shell.run(edge) == 0
    assert heard == ["SIGUSR1"]
    assert ours.recv(100) == b"heard\n"
    ours.close()
    theirs.close()


def test_a_failure_that_no_supervisor_handles_ends_with_exit_code_70(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.edge.echo.tell(Fail())
    running.thread.join(10)
    assert running.exit_code == 70
    assert "nobody can mend this" in caplog.text


def test_the_shell_ends_with_the_first_exit_code_that_is_not_zero(running: Running) -> None:
    def stop_for_three_reasons() -> None:
        for code in (0, 3, 70):
            running.shell.stop(code)

    running.in_loop(stop_for_three_reasons)
    running.thread.join(10)
    assert running.exit_code == 3


def test_messages_of_the_last_turn_are_still_sent(running: Running) -> None:
    def send_and_stop() -> None:
        running.edge.echo.send(Line("goodbye"))
        running.shell.loop.call_soon(running.shell.stop)
        running.shell.turn()

    running.in_loop(send_and_stop)
    assert running.read_lines(1) == ["goodbye"]
    running.thread.join(10)
    assert running.exit_code == 0


def test_mail_after_the_end_of_the_shell_is_refused(running: Running) -> None:
    running.in_loop(running.shell.stop)
    running.thread.join(10)
    with pytest.raises(pykka.ActorDeadError):
        running.edge.echo.tell(Line("too late"))


def test_watched_descriptor_calls_back_until_it_is_unwatched(running: Running) -> None:
    reader, writer = os.pipe()
    heard = threading.Semaphore(0)

    def on_readable() -> None:
        os.read(reader, 100)
        heard.release()

    running.in_loop(running.shell.watch, reader, on_readable)
    for _ in range(2):
        os.write(writer, b"x")
        assert heard.acquire(timeout=10)
    running.in_loop(running.shell.unwatch, reader)
    running.end.sendall(b"done\n")
    running.read_lines(1)
    os.write(writer, b"x")
    running.end.sendall(b"done\n")
    running.read_lines(1)
    assert not heard.acquire(blocking=False)
    os.close(reader)
    os.close(writer)


def test_writable_descriptor_calls_back_until_it_is_unwatched(event_loop: str) -> None:
    shell = Shell(event_loop)
    ours, theirs = socket.socketpair()
    calls = []

    def on_writable() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            shell.unwatch_writable(ours.fileno())

    def run_until_readable() -> None:
        """Run the loop until the socket is readable. A descriptor that is writable by then has been handled."""
        shell.loop.add_reader(ours.fileno(), shell.loop.stop)
        theirs.send(b"x")
        shell.loop.run_forever()
        ours.recv(100)

    shell.watch_writable(ours.fileno(), on_writable)
    while len(calls) < 2:
        run_until_readable()
    shell.watch_writable(ours.fileno(), on_writable)
    shell.unwatch(ours.fileno())
    run_until_readable()
    assert calls == [0, 1]
    shell.loop.close()
    shell.unwatch(ours.fileno())  # harmless after the loop has closed
    ours.close()
    theirs.close()


class BusyEdge:
    """An edge that always has something to receive, until `rounds` have passed."""

    def __init__(self, shell: Shell, rounds: int) -> None:
        self.left = rounds
        self._shell = shell

    def receive(self) -> bool:
        self.left -= 1
        if self.left == 0:
            self._shell.stop()
        return self.left > 0

    def flush(self) -> bool:
        return False


def test_other_descriptors_are_served_while_the_edge_is_always_busy(event_loop: str) -> None:
    shell = Shell(event_loop)
    edge = BusyEdge(shell, 100 * TURNS_PER_WAKE)
    reader, writer = os.pipe()
    os.write(writer, b"x")
    left_then: list[int] = []

    def on_readable() -> None:
        os.read(reader, 1)
        left_then.append(edge.left)

    shell.watch(reader, on_readable)
    shell.run(edge)
    assert left_then
    assert left_then[0] >= 90 * TURNS_PER_WAKE
    os.close(reader)
    os.close(writer)


def test_a_loop_that_is_not_installed_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigError, match=r"pip install"):
        new_event_loop("uvloop")


def test_a_shell_in_a_thread_changes_neither_signals_nor_the_garbage_collector() -> None:
    before = (signal.getsignal(signal.SIGTERM), gc.get_threshold(), gc.get_freeze_count())
    seen: list[Any] = []

    class Nothing:
        def receive(self) -> bool:
            return False

        def flush(self) -> bool:
            return False

    def run() -> None:
        shell = Shell("builtin")
        shell.on_signals(seen.append, signal.SIGTERM)

        def look() -> None:
            seen.append((signal.getsignal(signal.SIGTERM), gc.get_threshold(), gc.get_freeze_count()))
            shell.stop()

        shell.loop.call_soon(look)
        shell.run(Nothing())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert seen == [before]


def test_a_long_turn_is_interrupted_for_signals_and_other_descriptors(
    event_loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.process.shell.TURNS_SECONDS", 0.0)

    class Flood:
        receives = 0

        def receive(self) -> bool:
            self.receives += 1
            if self.receives == 1:
                shell.loop.call_soon(lambda: seen.append(self.receives))
            if self.receives == 3:
                shell.stop()
            return True

        def flush(self) -> bool:
            return False

    shell, flood, seen = Shell(event_loop), Flood(), list[int]()
    assert shell.run(flood) == 0
    assert seen == [1], "the progress when the other descriptors were served"
    assert 3 <= flood.receives < TURNS_PER_WAKE


def test_deferred_work_is_done_in_steps_between_turns(running: Running) -> None:
    done: list[int] = []

    def work() -> Iterator[None]:
        for number in range(3):
            done.append(number)
            yield

    running.in_loop(running.shell.run_in_steps, work())
    while len(done) < 3:  # messages are handled between any two steps
        before = len(done)
        running.end.sendall(b"one\n")
        assert running.read_lines(1) == ["one"]
        wait_until(lambda before=before: len(done) > before, "a step is done")  # type: ignore[misc]


SIGNAL_WHILE_IT_CLOSES = """
import os, signal
from unittest.mock import Mock
from scaler.process.shell import Shell
shell = Shell("builtin")
shell.on_signals(print, signal.SIGUSR1)
shell.on_child_ended(lambda: None)
close = shell.loop._poller.close

def a_child_ends():  # the pipe that wakes the loop is closed by now
    os.kill(os.getpid(), signal.SIGCHLD)
    close()

shell.loop._poller = Mock(wraps=shell.loop._poller, **{"close.side_effect": a_child_ends})
shell.stop()
shell.run(Mock(**{"receive.return_value": False, "flush.return_value": False}))
"""


@pytest.mark.processes
def test_a_child_that_ends_while_the_loop_closes_causes_no_error() -> None:
    done = run_script(SIGNAL_WHILE_IT_CLOSES)
    assert (done.returncode, done.stderr) == (0, "")
