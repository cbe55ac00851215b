"""ChildProcess: starts a child process, sends its settings, waits until it is ready, and ends it.

A child is a fresh interpreter that runs `scaler.cluster.child`; it never imports the program that started it, so a
script needs no `__main__` guard. Its settings arrive on its standard input, which stays open as its lifeline: when that
ends, the parent is gone, and the child goes too. It reports on a pipe of its own that it is ready, or why not.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
import weakref
from typing import Any, ClassVar

from scaler.process import hash_seed
from scaler.process.interpreter import command, modules_line
from scaler.process.user_code.patches import check_unpatched
from scaler.settings import Settings

START_SECONDS = 30.0
"""How long a child may take to start; a loaded machine needs some seconds."""

STOP_SECONDS = 5.0
"""How long a child may take to end before it is killed."""

AGENT = "scaler_cluster"
"""The child that runs workers."""

PRIVATE = "private"
"""Tells a scheduler that is started again that its folder was made for the first one, and goes with it."""


class StartError(RuntimeError):
    """A child process did not start; the message says why."""


class Running:
    """The process behind a `ChildProcess`. Its keeper may put another one in its place (`keeper.py`).

    The finalizer and the keeper hold this instead of the `ChildProcess`, so that it can be collected.
    """

    all: ClassVar[weakref.WeakSet[Running]] = weakref.WeakSet()

    def __init__(self, title: str, report: int) -> None:
        """Start the interpreter.

        Args:
            report: the descriptor on which it reports that it is ready; closed here.
        """
        self.title = title
        self.lock = threading.RLock()
        """reentrant, because a garbage collection may end this at any point of its own thread"""
        self.is_ending = False
        self.stop_seconds = STOP_SECONDS
        self.is_kept = False
        self.has_private_place = False
        """whether it listens in a folder that is to go with the last process at that address"""
        self.is_over = threading.Event()
        """set by the keeper when there will be no further process"""
        self._owner_pid = os.getpid()
        self.process = self._start(report)
        Running.all.add(self)

    @property
    def is_of_parent(self) -> bool:
        """Whether this is a copy in a forked process, which must leave the child alone."""
        return os.getpid() != self._owner_pid

    def leave_to_parent(self) -> None:
        """Close this forked process's copy of the lifeline, which would keep the child when the parent is gone."""
        self._hang_up()

    def restart(self, settings: str) -> None:
        """Put a new process in the place of one that has died; the caller has the lock."""
        self._hang_up()
        self.process = self._start(os.open(os.devnull, os.O_WRONLY), *[PRIVATE] * self.has_private_place)
        self.configure(settings)
        if self.is_ending:  # a garbage collection has collected its owner
            self.end()

    def _start(self, report: int, *words: str) -> subprocess.Popen[bytes]:
        try:
            # A session of its own: Ctrl-C in the terminal is for the parent, which ends its children in order.
            process = subprocess.Popen(  # noqa: S603 - this interpreter and our own program
                command("scaler.cluster.child", self.title, str(report), *words),
                bufsize=0,
                stdin=subprocess.PIPE,
                pass_fds=(report,),
                env=hash_seed.environment() if self.title == AGENT else None,
                start_new_session=True,
            )
        finally:
            os.close(report)
        _write(process, modules_line())
        return process

    def configure(self, settings: str) -> None:
        """Write settings to its standard input. If it died, `wait_ready` or the keeper tells how."""
        data = settings.encode()
        _write(self.process, b"%d\n%b" % (len(data), data))

    def terminate(self) -> None:
        """Ask it to end in good order; no other one is started."""
        if self.is_of_parent:
            return
        with self.lock:
            self.is_ending = True
            self.process.terminate()

    def kill(self) -> None:
        """Kill it; no other one is started."""
        if self.is_of_parent:
            return
        with self.lock:
            self.is_ending = True
            self.process.kill()

    def end(self) -> None:
        """End it: in good order, or after some seconds by force. Any number of times."""
        if self.is_of_parent:  # a wait could take for ever: a thread of the parent may have held the lock of `process`
            return
        self.terminate()
        try:
            self.process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._hang_up()

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is no process any more, and there will be none. Returns whether that is so."""
        if self.is_kept and not self.is_over.wait(timeout):
            return False
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self._hang_up()
        return True

    def _hang_up(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()


def _write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    left = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while left:
            left = left[process.stdin.write(left) :]


class ChildProcess:
    """One child process. It may be launched before its settings are known, so that it starts in the meantime."""

    def __init__(self, title: str) -> None:
        check_unpatched()
        self._title = title
        self._running: Running | None = None
        self._report: int | None = None

    def __repr__(self) -> str:
        state = "not started" if self.pid is None else f"process {self.pid}{'' if self.is_alive() else ', ended'}"
        return f"<{type(self).__name__}: {state}>"

    def launch(self) -> None:
        """Start the interpreter; it imports what it needs and waits for its settings."""
        if self._running is not None:
            raise StartError(f"this {self._title} was started before; make a new one")
        self._report, child_end = os.pipe()
        self._running = Running(self._title, child_end)
        self._finalizer = weakref.finalize(self, Running.end, self._running)

    def configure(self, settings: Settings) -> None:
        """Tell the child what to be."""
        assert self._running is not None
        self._running.configure(settings.to_json())

    def wait_ready(self) -> Any:
        """Wait until the child is ready. Returns what it reports.

        Raises:
            StartError: if it cannot start; the text is the child's own.
        """
        assert self._report is not None
        report = self._read_report()
        self._close_report()
        if report and "ready" in report:
            return report["ready"]
        self.terminate()
        self.join(STOP_SECONDS)
        if report:
            raise StartError(report["error"])
        raise StartError(f"the {self._title} ended at its start with exit code {self.exitcode}; its log says why")

    def _read_report(self) -> dict[str, Any] | None:
        assert self._report is not None
        text, deadline = b"", time.monotonic() + START_SECONDS
        while not text.endswith(b"\n"):
            readable, _, _ = select.select([self._report], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                return {"error": f"the {self._title} did not start within {START_SECONDS:g} s"}
            data = os.read(self._report, 65536)
            if not data:
                return None
            text += data
        report: dict[str, Any] = json.loads(text)
        return report

    def _close_report(self) -> None:
        if self._report is not None:
            os.close(self._report)
            self._report = None

    # As of a `multiprocessing.Process`

    def terminate(self) -> None:
        """Ask the process to end in good order (SIGTERM)."""
        if self._running is not None:
            self._running.terminate()

    def kill(self) -> None:
        """Kill the process (SIGKILL): it has no time to say goodbye. It is not started again."""
        if self._running is not None:
            self._running.kill()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, at most `timeout` seconds."""
        if self._running is not None and self._running.wait(timeout):
            self._close()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._running is not None and self._running.process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._running is None else self._running.process.pid

    @property
    def exitcode(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return None if self._running is None else self._running.process.poll()

    def shutdown(self) -> None:
        """End the process: in good order, or after some seconds by force. Any number of times."""
        if self._running is not None:
            self._running.end()
            self._close()

    def _close(self) -> None:
        self._close_report()
        self._finalizer.detach()


def _leave_all_to_parent() -> None:
    for running in list(Running.all):
        running.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
