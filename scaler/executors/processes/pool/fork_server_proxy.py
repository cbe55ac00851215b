"""ForkServerProxy: the agent's end of the fork server, which forks and signals the processes of processors.

The requests and reports are defined in `processor/lifecycle/fork_server.py`. When the fork server is lost, all
processors are lost too. The proxy then ends the processes that tasks have started, and fails; its supervisor starts
fork server and processors again. If a node's first fork server cannot preload a module, or ends while it imports one,
the agent ends at once.

The proxy never forks, and never blocks on a processor or on a stopped fork server.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
from collections import deque
from collections.abc import Mapping

from scaler.cores import THREAD_VARIABLES, THREADS_OF_ALL, usable_cores
from scaler.executors.processes.messages import (
    ProcessEnded,
    ProcessNotStarted,
    ProcessStarted,
    SignalProcess,
    StartProcess,
)
from scaler.executors.processes.pool.deaths import OutOfMemoryKills, how_it_ended
from scaler.ids import NO_ID
from scaler.kit import Actor, ActorRef, handles
from scaler.message import message
from scaler.process import strays
from scaler.process.interpreter import start_part
from scaler.process.shell import Shell
from scaler.processor.lifecycle import first_fork_server
from scaler.processor.lifecycle.fork_server import (
    CANNOT_PRELOAD,
    END,
    ENDED,
    PRELOADING,
    PROGRAM,
    REPORT,
    REQUEST,
    START,
    STARTED,
)
from scaler.processor.lifecycle.preparation import import_failed
from scaler.settings import ClusterConfig

logger = logging.getLogger(__name__)

GOODBYE_SECONDS = 5.0
"""How long the fork server may take to kill all processors."""


class ForkServerDiedError(RuntimeError):
    """The fork server has ended, and with it all processors."""


@message
class _ForkServerLost:
    """Proxy to itself: the fork server has closed its connection."""


class _Requests:
    """Unwritten requests to the fork server, with the descriptors of each: a stopped fork server reads no requests."""

    def __init__(self, shell: Shell, connection: socket.socket) -> None:
        self._shell = shell
        self._socket = connection
        self._waiting: deque[tuple[bytes, tuple[int, ...]]] = deque()

    def put(self, request: bytes, *descriptors: int) -> None:
        """Write a request with these descriptors as soon as possible, and then close the descriptors."""
        self._waiting.append((request, descriptors))
        if len(self._waiting) == 1 and not self._write():
            self._shell.watch_writable(self._socket.fileno(), self._write_more)

    def _write_more(self) -> None:
        if self._write():
            self._shell.unwatch_writable(self._socket.fileno())

    def _write(self) -> bool:
        """Write the requests that the socket takes now. Return whether no request is left."""
        try:
            while self._waiting:
                request, descriptors = self._waiting[0]
                if descriptors:
                    socket.send_fds(self._socket, [request], descriptors, socket.MSG_DONTWAIT)
                else:
                    self._socket.send(request, socket.MSG_DONTWAIT)
                self._drop_first()
        except BlockingIOError:
            return False
        except ConnectionError:  # the end of the connection is about to be read
            self.close()
        return True

    def close(self) -> None:
        while self._waiting:
            self._drop_first()

    def _drop_first(self) -> None:
        for descriptor in self._waiting.popleft()[1]:
            os.close(descriptor)


class ForkServerProxy(Actor):
    """Starts the fork server, and passes requests and reports between it and the processor proxies.

    Args:
        has_worked: whether any processor of this node was ever ready.
    """

    def __init__(self, shell: Shell, config: ClusterConfig, agent_token: bytes, has_worked: bool) -> None:
        self._shell = shell
        self._has_worked = has_worked
        self._agent_token = agent_token
        self._processors: dict[int, ActorRef] = {}
        self._pids: dict[int, int] = {}
        self._workers = {name: index for index, name in enumerate(config.worker_names)}
        self._reports = b""
        self._modules = config.preload
        self._preloading = ""
        """the module that the fork server imports now; empty if it imports no module"""
        self._kills = OutOfMemoryKills()
        limits = thread_limits(os.environ, len(config.worker_names))
        self._socket, self._process = _started(config.to_json(), limits)
        self._requests = _Requests(shell, self._socket)

    def on_start(self) -> None:
        self._shell.watch(self._socket.fileno(), self._read_reports)

    def _read_reports(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = self._socket.recv(4096)
        if not data:
            self._shell.unwatch(self._socket.fileno())
            self.actor_ref.send(_ForkServerLost())
            return
        self._reports += data
        while len(self._reports) >= REPORT.size and not self._reports.startswith(CANNOT_PRELOAD):
            report, self._reports = self._reports[: REPORT.size], self._reports[REPORT.size :]
            self._take(*REPORT.unpack(report))

    def _take(self, kind: int, number: int, value: int, peak_bytes: int) -> None:
        if kind == PRELOADING:
            self._preloading = self._modules[number - 1] if number else ""
            return
        if kind == STARTED:
            self._pids[number] = value
            self._processors[number].send(ProcessStarted(number, value))
            return
        self._pids.pop(number, None)
        processor = self._processors.pop(number)
        if kind == ENDED:
            processor.send(ProcessEnded(number, value, peak_bytes, self._kills.has_risen()))
        else:
            processor.send(ProcessNotStarted(number, value))

    @handles(StartProcess)
    def _start(self, start: StartProcess) -> None:
        self._processors[start.number] = start.proxy
        request = REQUEST.pack(START, start.number, self._agent_token, start.is_extra, self._workers[start.worker])
        self._requests.put(request, start.channel, start.progress)

    @handles(SignalProcess)
    def _signal(self, signal: SignalProcess) -> None:
        if signal.number in self._processors:
            self._requests.put(REQUEST.pack(signal.kind, signal.number, NO_ID, False, 0))

    @handles(_ForkServerLost)
    def _lost(self, _lost: _ForkServerLost) -> None:
        for pid in self._pids.values():  # the kernel ends the processors, but not the processes that they have started
            strays.kill_group(pid)
        try:
            how = how_it_ended(self._process.wait(GOODBYE_SECONDS))
            if self._preloading:
                how = import_failed(self._preloading, f"its import ended the process: {how}")
                if self._reports.startswith(CANNOT_PRELOAD):
                    how = self._reports.removeprefix(CANNOT_PRELOAD).decode()
                if not self._has_worked:
                    self._shell.stop(os.EX_CONFIG, how)
                    return
        except subprocess.TimeoutExpired:
            how = "it closed its connection"
        raise ForkServerDiedError(
            f"the fork server (process {self._process.pid}) has ended, and with it all processors of this node: {how}. "
            "If it never starts, look for its error in the standard error of the cluster"
        )

    def on_stop(self) -> None:
        """Ask the fork server to end with all processors. Kill it if it has not ended after `GOODBYE_SECONDS`."""
        self._shell.unwatch(self._socket.fileno())
        self._requests.close()
        with contextlib.suppress(OSError):  # it has ended, or reads nothing: then it and the processors are killed
            self._socket.send(REQUEST.pack(END, 0, NO_ID, False, 0), socket.MSG_DONTWAIT)
        self._socket.close()
        try:
            self._process.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        strays.own.discard(self._process.pid)

    def on_failure(self, *_error: object) -> None:
        self.on_stop()


def _started(
    settings: str, limits: Mapping[str, str]
) -> tuple[socket.socket, subprocess.Popen[bytes] | first_fork_server.FirstForkServer]:
    if (forked := first_fork_server.take()) is not None:
        forked.tell(settings, limits)
        return forked.connection, forked
    ours, theirs = socket.socketpair()
    with theirs:
        return ours, start_part(PROGRAM, settings, theirs.fileno(), limits)


def thread_limits(environment: Mapping[str, str], n_workers: int) -> dict[str, str]:
    """Return variables for worker processes that limit the threads of mathematical libraries, unless the user set them.

    Without limits, these libraries start a thread for each core in each process. With a worker for each core, this
    makes them several times slower.
    """
    if THREADS_OF_ALL in environment:
        return {}
    threads = str(max(1, usable_cores() // n_workers))
    return {name: threads for name in THREAD_VARIABLES if name not in environment}
