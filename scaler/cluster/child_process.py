"""The parent's end of a child process: starts it, tells it what to be, waits until it is ready, and ends it.

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
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any

from scaler.settings import Settings

START_SECONDS = 30.0
"""How long a child may take to start; a loaded machine needs some seconds."""

STOP_SECONDS = 5.0
"""How long a child may take to end before it is killed."""

_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.raw.readline())
from scaler.cluster.child import main
main()
"""


class StartError(RuntimeError):
    """A child process did not start; the text says why."""


class ChildProcess:
    """One child process. Its `settings` may be told later than it is launched, so that it starts meanwhile."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._process: subprocess.Popen[bytes] | None = None
        self._report: int | None = None

    def launch(self) -> None:
        """Start the interpreter; it imports what it needs and waits for its settings."""
        if self._process is not None:
            raise StartError(f"this {self._title} was started before; make a new one")
        self._report, child_end = os.pipe()
        try:
            # A session of its own: Ctrl-C in the terminal is for the parent, which ends its children in order.
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own program
                [sys.executable, "-c", _BOOT, self._title, str(child_end)],
                bufsize=0,
                stdin=subprocess.PIPE,
                pass_fds=(child_end,),
                start_new_session=True,
            )
        finally:
            os.close(child_end)
        self._finalizer = weakref.finalize(self, _end, [self._process])
        self._say(json.dumps(sys.path))

    def _say(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: `wait_ready` tells how
            self._process.stdin.write(line.encode() + b"\n")

    def configure(self, settings: Settings) -> None:
        """Tell the child what to be."""
        self._say(settings.to_json())

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
        if self._process is not None:
            self._process.terminate()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, at most `timeout` seconds."""
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
            self._close()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def exitcode(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return None if self._process is None else self._process.poll()

    def shutdown(self) -> None:
        """End the process: in good order, or after some seconds by force. Any number of times."""
        if self._process is not None:
            _end([self._process])
            self._close()

    def _close(self) -> None:
        self._close_report()
        self._finalizer.detach()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End child processes in the given order."""
    for process in processes:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
