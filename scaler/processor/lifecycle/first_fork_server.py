"""First fork server: forked by the process that will become the agent, before imports that only an agent needs.

The fork server is ready while the agent still starts, and shares with the agent the memory of what was imported before
the fork. Further fork servers are separate programs, because the agent has connections and values of users by then.
Call `fork` only in a process without threads and without sockets that another process waits for.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType

from scaler.process import strays
from scaler.process.interpreter import memory_with

_LOOK_SECONDS = 0.01


class FirstForkServer:
    """A forked process that waits for settings on `connection`, with the methods of `Popen` that its users call."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        self._exit_code: int | None = None

    def tell(self, settings: str, variables: Mapping[str, str]) -> None:
        """Send the settings, and additional environment variables. The fork server then starts to serve."""
        with memory_with(json.dumps([settings, dict(variables)]).encode()) as descriptor:
            socket.send_fds(self.connection, [b"\0"], [descriptor])

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the fork server. Return its exit code, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: if the fork server has not ended after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._exit_code is None:
            pid, status = os.waitpid(self.pid, 0 if deadline is None else os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
            elif deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("the fork server", timeout or 0)
            else:
                time.sleep(_LOOK_SECONDS)
        return self._exit_code

    def kill(self) -> None:
        if self._exit_code is None:
            strays.kill(self.pid)


_forked: list[FirstForkServer] = []


def fork(
    prepare: Callable[[], object], serve: Callable[[socket.socket, str], object], *descriptors_to_close: int
) -> None:
    """Fork a process that calls `prepare`, waits for settings, and calls `serve` with its connection and settings."""
    ours, theirs = socket.socketpair()
    # A KeyboardInterrupt in a hook that Python runs at a fork would be dropped, and Ctrl-C with it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            for descriptor in descriptors_to_close:
                os.close(descriptor)
            _enter()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            prepare()
            _serve(serve, theirs)
        except BaseException:  # noqa: BLE001 - nothing may return into the code of the agent
            traceback.print_exc()
        finally:
            os._exit(1)
    strays.own.add(pid)
    _forked.append(FirstForkServer(pid, ours))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()


def take() -> FirstForkServer | None:
    """Return the forked process to its only user; None if no process was forked, or if an earlier call returned it."""
    return _forked.pop() if _forked else None


def drop() -> None:
    """End the forked process, unless `take` has returned it."""
    if (forked := take()) is not None:
        forked.connection.close()
        forked.wait()
        strays.own.discard(forked.pid)


def _enter() -> None:
    """Separate this forked process from the agent: standard input, main module, arguments, Ctrl-C in the terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.modules["__main__"] = ModuleType("__main__")  # tasks do not see the agent's
    sys.argv[1:] = []


def _serve(serve: Callable[[socket.socket, str], object], agent: socket.socket) -> None:
    _, descriptors, _, _ = socket.recv_fds(agent, 1, 1)
    if not descriptors:  # the agent has ended, or needs no fork server
        return
    with os.fdopen(descriptors[0], "rb") as file:
        settings, variables = json.load(file)
    os.environ.update(variables)
    serve(agent, settings)
