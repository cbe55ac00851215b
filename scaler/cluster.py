"""Schedulers and clusters as child processes: for a program that brings its own, and for the cluster inside a client.

A child is a fresh interpreter that runs `scaler.cli.child`; it never imports the program that started it, so a script
needs no `__main__` guard. Its settings arrive on its standard input, which stays open as its lifeline: when that ends,
the parent is gone, and the child goes too. It reports on a pipe of its own that it is ready, or why not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

from scaler.config import ClusterConfig, LoggingConfig, SchedulerConfig, Settings

S = TypeVar("S", bound=Settings)

START_SECONDS = 30.0
"""How long a child may take to start; a loaded machine needs some seconds."""

STOP_SECONDS = 5.0
"""How long a child may take to end before it is killed."""

_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.raw.readline())
from scaler.cli.child import main
main()
"""


class StartError(RuntimeError):
    """A child process did not start; the text says why."""


class _ChildProcess:
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
        self._finalizer = weakref.finalize(self, _end_processes, [self._process])
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
            _end_processes([self._process])
            self._close()

    def _close(self) -> None:
        self._close_report()
        self._finalizer.detach()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def _end_processes(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End child processes in the given order."""
    for process in processes:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Scheduler(_ChildProcess):
    """A scheduler in a process of its own.

    Args:
        address: where it listens, such as `tcp://127.0.0.1:2345`; with port `*` it takes a free one.

    The other arguments are those of `SchedulerClusterCombo`.

    Raises:
        ConfigError: if an argument has a bad value.
    """

    def __init__(
        self,
        address: str = "tcp://127.0.0.1:*",
        io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        per_worker_queue_size: int = 1000,
        protected: bool = True,
        event_loop: str = "builtin",
        logging_paths: str | Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        crash_limit: int = 3,
    ) -> None:
        arguments = locals()
        super().__init__("scaler_scheduler")
        self._config = _settings(SchedulerConfig, arguments)
        self._address = address

    def start(self) -> None:
        """Start the process; returns when it listens.

        Raises:
            StartError: if it cannot, for instance because its address is in use.
        """
        self.launch()
        self.listen()

    def listen(self) -> None:
        """Let a launched process go on to its address; returns when it listens."""
        self.configure(self._config)
        self._address = self.wait_ready()

    def get_address(self) -> str:
        """Return where it listens."""
        return self._address


class Cluster(_ChildProcess):
    """One agent and its workers, in processes of their own.

    Args:
        address: of the scheduler.
        n_workers: how many tasks may run at once; the number of cores if None.
        worker_names: one per worker.

    The other arguments are those of `SchedulerClusterCombo`.

    Raises:
        ConfigError: if an argument has a bad value.
    """

    def __init__(
        self,
        address: str,
        n_workers: int | None = None,
        worker_names: Sequence[str] = (),
        worker_io_threads: int = 1,
        heartbeat_interval_seconds: float = 2,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1073741824,
        hard_processor_suspend: bool = False,
        event_loop: str = "builtin",
        logging_paths: str | Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        engine: str = "processes",
    ) -> None:
        arguments = locals()
        super().__init__("scaler_cluster")
        if n_workers is None:
            arguments["n_workers"] = len(worker_names) or usable_cores()
        self._config = _settings(ClusterConfig, arguments | {"io_threads": worker_io_threads})

    def start(self) -> None:
        """Start the process; returns when the agent runs, whether or not it has found the scheduler yet.

        Raises:
            StartError: if it cannot.
        """
        self.launch()
        self.configure(self._config)
        self.wait_ready()

    def connect_to(self, address: str) -> None:
        """Let a launched process go on, to the scheduler at `address`."""
        self.configure(dataclasses.replace(self._config, address=address))


def _settings(kind: type[S], arguments: dict[str, Any]) -> S:
    """Return the settings among the arguments of a constructor, each under its name."""
    logging = LoggingConfig(*(arguments[f"logging_{name}"] for name in ("paths", "level", "config_file")))
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in (arguments | {"logging": logging}).items() if name in names})


def _chosen(part: type, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that `part` takes as well."""
    return {name: arguments[name] for name in inspect.signature(part).parameters if name in arguments}


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SchedulerClusterCombo:
    """A scheduler and a cluster on this machine, as child processes. Usable as a context manager.

    Args:
        n_workers: how many tasks may run at once.
        address: where the scheduler listens; a free port of the loopback interface if None.
        worker_io_threads: ZeroMQ threads of the agent.
        scheduler_io_threads: ZeroMQ threads of the scheduler.
        max_number_of_tasks_waiting: new tasks are refused with `NoWorkerError` when so many wait and no worker has a
            free place; -1: none is refused.
        heartbeat_interval_seconds: how often the agent says that it is there.
        client_timeout_seconds: a client silent for so long is dead: its tasks are cancelled.
        worker_timeout_seconds: an agent silent for so long is dead: its tasks go to others.
        object_retention_seconds: nodes keep functions that nobody needs any more for so long.
        task_timeout_seconds: a task that runs for longer is ended with `TimeoutError`; 0: none is.
        death_timeout_seconds: the cluster ends itself when it was without a scheduler for so long.
        load_balance_seconds: the shortest time between two rounds of balancing, in which waiting tasks are taken from
            busy workers for idle ones; 0: there are none.
        load_balance_trigger_times: how many looks in a row must find that before there is a round.
        garbage_collect_interval_seconds: what a worker's process did not use for so long is dropped there.
        trim_memory_threshold_bytes: a process of the cluster with more memory gives back what it does not use.
        per_worker_queue_size: the most tasks at one worker, the running one included.
        hard_processor_suspend: whether the process of a task that waits for others is stopped meanwhile.
        protected: whether `Client.shutdown()` is refused.
        event_loop: `builtin` or `uvloop`.
        logging_paths: files that the processes log to.
        logging_level: the least level that is logged.
        logging_config_file: a file in the format of `logging.config.fileConfig`, instead of the two before.
        crash_limit: how often a task may be running when its process dies before it fails.
        engine: what runs the tasks: the name of an engine that is installed, or `NAME://...`.

    Raises:
        ConfigError: if an argument has a bad value.
        StartError: if the scheduler cannot start, for instance because its address is in use.
    """

    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
        worker_io_threads: int = 1,
        scheduler_io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        heartbeat_interval_seconds: float = 2,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1073741824,
        per_worker_queue_size: int = 1000,
        hard_processor_suspend: bool = False,
        protected: bool = True,
        event_loop: str = "builtin",
        logging_paths: str | Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        crash_limit: int = 3,
        engine: str = "processes",
    ) -> None:
        arguments = locals()
        listens_at = "tcp://127.0.0.1:*" if address is None else address
        self._scheduler = Scheduler(
            **_chosen(Scheduler, arguments | {"address": listens_at, "io_threads": scheduler_io_threads})
        )
        # The address is replaced by the one that the scheduler takes; everything else is checked here.
        self._cluster = Cluster(**_chosen(Cluster, arguments | {"address": "tcp://127.0.0.1:1"}))
        self._start()

    def _start(self) -> None:
        """Start both at once: the agent imports what it needs while the scheduler finds its port."""
        self._scheduler.launch()
        try:
            self._cluster.launch()
            self._scheduler.listen()
            self._cluster.connect_to(self._scheduler.get_address())
        except BaseException:
            self.shutdown()
            raise

    def get_address(self) -> str:
        """Return the address of the scheduler, for clients and further clusters."""
        return self._scheduler.get_address()

    def shutdown(self) -> None:
        """End all processes. Any number of times; also done when the interpreter exits."""
        self._cluster.shutdown()
        self._scheduler.shutdown()

    def __enter__(self) -> SchedulerClusterCombo:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()


def start_local_cluster() -> SchedulerClusterCombo:
    """Return a quiet cluster with a worker per core, for one client; what its tasks print goes to standard error."""
    return SchedulerClusterCombo(
        n_workers=usable_cores(), logging_paths=("/dev/stderr",), logging_level="WARNING", event_loop=best_event_loop()
    )


def best_event_loop() -> str:
    """Return the fastest event loop that is installed."""
    try:
        import uvloop  # noqa: F401, PLC0415 - only to see whether it is there
    except ImportError:
        return "builtin"
    return "uvloop"
