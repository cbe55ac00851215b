"""The fork server: a small process that forks processors, because a process that uses ZeroMQ must never fork.

The agent sends requests (start, kill, interrupt, stop, continue), and the fork server sends reports (started, not
started, ended). It has imported what processors need, so that a new processor is ready within milliseconds. When a
processor ends, the fork server adopts the processes that its tasks have started, and kills them.

When the agent ends in order, processors have a second to end by themselves. However the agent ends, the fork server
sees the end of its connection to the agent, kills all its own descendants, and ends. It runs no user code other than
preloaded modules, opens no ZeroMQ context, and starts no thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import select
import selectors
import signal
import socket
import struct
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from scaler import starters, task_context
from scaler.process import strays
from scaler.process.interpreter import no_collections, part_of_node, restart_part
from scaler.process.logs import set_up_logging
from scaler.process.user_code.shared_blocks import own_only_created_blocks
from scaler.processor.execution.task_context import ProcessorSpec
from scaler.processor.lifecycle.bootstrap import Bootstrap
from scaler.processor.lifecycle.imports import import_once
from scaler.processor.lifecycle.preparation import PreparationError, preload
from scaler.processor.lifecycle.signals import INTERRUPT_SIGNAL
from scaler.settings import ClusterConfig
from scaler.wire.codec.codec import prepare
from scaler.wire.codec.stencil_warmup import OF_PROCESSORS, preparing

PROGRAM = "scaler.processor.lifecycle.fork_server"

REQUEST = struct.Struct("<BI16s?H")
"""The format of a request: kind of the request, number of the processor, agent token, whether the processor is extra,
and index of its worker. Only START uses the last three fields, and comes with two descriptors.
"""
START, KILL, INTERRUPT, STOP, CONTINUE, END = 1, 2, 3, 4, 5, 6
SIGNALS = {INTERRUPT: INTERRUPT_SIGNAL, STOP: signal.SIGSTOP, CONTINUE: signal.SIGCONT}
"""kind of request -> the signal for the processor itself, not for the processes that its task has started"""
GRACE_SECONDS = 1.0
"""The time that processors have to end by themselves when the agent ends in order."""
INTERRUPT_SECONDS = 0.05
"""The pause before the next interrupt of a processor. Interrupts are repeated, because some code ignores them."""
REPORT = struct.Struct("<BIiQ")
"""The format of a report: kind, number, value, and peak memory of an ended processor in bytes.

The number is the number of a processor; in a PRELOADING report, it is the number of a module, from 1, or 0 when all
modules were imported. The value is a process id, an exit code, or the `errno` of a failed start.
"""
STARTED, ENDED, NOT_STARTED, PRELOADING = 1, 2, 3, 4
CANNOT_PRELOAD = b"\xff"
"""the first byte of the message that replaces all further reports if preloading fails; the reason, as text, follows"""

AGENT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""signals that a terminal or a service manager sends to all processes of the node"""

OUT_OF_MEMORY_SCORE = 500
"""The score by which the kernel, when memory is short, kills processors and their children before the agent."""
_PR_SET_PDEATHSIG = 1
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


class _AgentEndsError(Exception):
    """The agent has announced that it ends in order."""


class ForkServer:
    """The loop of the fork server's process: handles requests of the agent, and reports ended processors."""

    def __init__(self, agent: socket.socket, config: ClusterConfig) -> None:
        self._agent = agent
        os.environ[strays.MARK] = str(os.getpid())  # processors set their own
        self._workers = config.worker_names
        self._bootstrap = Bootstrap(config)
        self._pids: dict[int, int] = {}
        self._handlers: dict[signal.Signals, Any] = {}
        """the original handlers of signals that the fork server ignores; processors get these handlers back"""
        self._preparing = preparing(OF_PROCESSORS)
        self._pid = os.getpid()

    def run(self) -> None:
        """Serve until the agent has ended, then kill all processes that are left."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The agent handles or ignores them; the fork server ends when the agent has ended.
        self._handlers = {number: signal.signal(number, signal.SIG_IGN) for number in AGENT_SIGNALS}
        strays.adopt()
        for direction, _ in OF_PROCESSORS:
            prepare(direction)
        gc.freeze()
        with selectors.DefaultSelector() as selector:
            selector.register(self._agent, selectors.EVENT_READ)
            selector.register(wake_read, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in self._wait(selector):
                        if key.fileobj is self._agent:
                            self._serve((wake_read, wake_write, selector.fileno()))
                        else:
                            with contextlib.suppress(BlockingIOError):
                                os.read(wake_read, 4096)
                            self._reap()
            except _AgentEndsError:
                self._await_processors(wake_read)
            except (EOFError, ConnectionError):
                pass
            finally:
                self._kill_all()

    def _wait(self, selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for a request or a signal, and return the readable descriptors. Meanwhile, warm up the codec."""
        ready = selector.select(0)
        if not ready:
            for _ in self._preparing:
                gc.freeze()
                ready = selector.select(0)
                if ready:
                    break
        return ready or selector.select()

    def _await_processors(self, wake_read: int) -> None:
        """Interrupt all tasks, and wait until all processors have ended or `GRACE_SECONDS` have passed."""
        deadline = time.monotonic() + GRACE_SECONDS
        for pid in self._pids.values():
            os.kill(pid, signal.SIGCONT)
        while self._pids and time.monotonic() < deadline:
            for pid in self._pids.values():
                os.kill(pid, INTERRUPT_SIGNAL)
            if select.select([wake_read], [], [], INTERRUPT_SECONDS)[0]:
                os.read(wake_read, 4096)
            self._reap()

    def _kill_all(self) -> None:
        for pid in self._pids.values():
            strays.kill_group(pid)
        with contextlib.suppress(ChildProcessError):
            while True:  # their children become children of this process when they end
                for pid in strays.children_of(self._pid):
                    strays.kill(pid)
                os.waitpid(-1, 0)

    def _serve(self, descriptors_to_close: tuple[int, ...]) -> None:
        request, descriptors, _, _ = socket.recv_fds(self._agent, REQUEST.size, 2)
        while request and len(request) < REQUEST.size:
            request += self._agent.recv(REQUEST.size - len(request)) or b""
        if not request:
            raise EOFError
        kind, number, agent_token, is_extra, worker = REQUEST.unpack(request)
        if kind == END:
            raise _AgentEndsError
        if kind == START:
            spec = ProcessorSpec(number, agent_token, is_extra, self._workers[worker])
            self._start(spec, descriptors, descriptors_to_close)
        elif number in self._pids:  # only reaped here, so the id cannot belong to another process
            if kind == KILL:
                strays.kill_group(self._pids[number])
            else:
                os.kill(self._pids[number], SIGNALS[kind])

    def _start(self, spec: ProcessorSpec, descriptors: list[int], descriptors_to_close: tuple[int, ...]) -> None:
        channel, progress = descriptors
        for descriptor in descriptors:  # for the processor, and not for the programs that its tasks start
            os.set_inheritable(descriptor, False)
        try:
            pid = os.fork()
            if pid == 0:
                self._become_processor(spec, channel, progress, descriptors_to_close)
        except OSError as error:  # a limit is reached, which does not affect the other processors
            self._report(NOT_STARTED, spec.number, error.errno or 0)
            return
        finally:
            os.close(channel)
            os.close(progress)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does the same; the first call counts
        self._pids[spec.number] = pid
        self._report(STARTED, spec.number, pid)

    def _become_processor(
        self, spec: ProcessorSpec, channel: int, progress: int, descriptors_to_close: tuple[int, ...]
    ) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (signal.SIGHUP, signal.SIGQUIT):  # the others are set by the processor
                signal.signal(number, self._handlers[number])
            self._agent.close()
            for descriptor in descriptors_to_close:
                os.close(descriptor)
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            _die_with_parent(self._pid)
            _raise_out_of_memory_score()
            os.environ[strays.MARK] = str(os.getpid())
            self._bootstrap.run(socket.socket(fileno=channel), progress, spec)
            code = 0
        except BaseException:  # nothing may return into the loop
            logging.getLogger(__name__).exception("worker %s: its processor ends because of an error", spec.worker)
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Report each processor that has ended, and kill the processes that the tasks of the processor have started."""
        numbers = {pid: number for number, pid in self._pids.items()}
        with contextlib.suppress(ChildProcessError):
            while (info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                number = numbers.get(info.si_pid)
                if number is not None:
                    strays.kill_group(info.si_pid)  # before the id can be reused
                _, status, usage = os.wait4(info.si_pid, 0)
                if number is not None:
                    del self._pids[number]
                    peak_bytes = usage.ru_maxrss * _RSS_UNIT_BYTES
                    self._report(ENDED, number, os.waitstatus_to_exitcode(status), peak_bytes)
        strays.end_strays(self._pids.values())

    def _report(self, kind: int, number: int, value: int, peak_bytes: int = 0) -> None:
        with contextlib.suppress(ConnectionError):  # the agent has ended, or is about to: its end is read next
            self._agent.sendall(REPORT.pack(kind, number, value, peak_bytes))


_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def _die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends. Linux only; elsewhere the process watches a lifeline."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the parent was killed before the line above


def _outlive_parent() -> None:
    """Undo `_die_with_parent`: from now on the fork server ends by itself, after the agent and all its processors."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def _raise_out_of_memory_score() -> None:
    """Raise the out-of-memory score of this process, unless it is higher already. Needs no privilege. Linux only."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+b", buffering=0) as score:  # noqa: PTH123
        if int(score.read()) < OUT_OF_MEMORY_SCORE:
            score.write(b"%d" % OUT_OF_MEMORY_SCORE)


def _append_working_directory() -> None:
    """Let processors import modules from the folder in which the cluster was started, which is searched last."""
    with contextlib.suppress(OSError):
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))


def import_client() -> None:
    """Import the client once for all processors, because modules with user functions often import it."""
    if starters.import_client is not None:
        with no_collections():
            starters.import_client()


def main() -> None:
    """Run the fork server on its connection to the agent."""
    descriptor, settings = part_of_node()
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    serve(socket.socket(fileno=descriptor), settings)


def _report_preloading(agent: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the agent has ended
        agent.sendall(REPORT.pack(PRELOADING, number, 0, 0))


def serve(agent: socket.socket, settings: str) -> NoReturn:
    """Run a fork server for the agent at the other end of a socket, and end the process."""
    _append_working_directory()
    own_only_created_blocks()
    config = ClusterConfig.from_json(settings)
    import_client()
    if config.preload:
        set_up_logging(config.logging, is_strict=False)
        _die_with_parent(os.getppid())  # an import that never ends does not see the end of the connection
        try:
            with task_context.preparing(config.address, "the import of a preloaded module"):
                generator = preload(config.preload, partial(_report_preloading, agent))
            _report_preloading(agent, 0)
            _outlive_parent()
            if generator:
                logging.getLogger(__name__).warning(
                    "the preloaded modules make the random generator %s: each worker process has a copy, and "
                    "copies draw the same numbers; draw from scaler.current_task().rng() instead, or make "
                    "the generator in an initializer",
                    generator,
                )
        except PreparationError as error:
            with contextlib.suppress(OSError):  # the agent has ended
                agent.sendall(CANNOT_PRELOAD + str(error).encode(errors="backslashreplace"))
            os._exit(os.EX_CONFIG)
    import_once(config, partial(restart_part, PROGRAM, settings, agent.fileno()))
    ForkServer(agent, config).run()
    # Skip the interpreter's own shutdown: it would complain about signals of ending processors.
    os._exit(0)
