"""Real clusters of other engines, as small as possible, whose workers and nodes can be added and killed: Dask, Ray."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.support.processes import REPOSITORY, free_address, wait_until

THREADS = 2


class DaskCluster:
    """A Dask scheduler, and workers in separate processes. A task fails when it loses its first worker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = free_address()
        self.scheduler = self.start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def engine(self) -> str:
        return f"dask://{self.address.removeprefix('tcp://')}"

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        port = self.address.rpartition(":")[2]
        arguments = ["--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-jupyter"]
        return self._start("scheduler", *arguments)

    def add_worker(self, n_threads: int = THREADS, name: str = "w") -> subprocess.Popen[bytes]:
        """Start a worker with a nanny that restarts it when it dies."""
        arguments = ["--nthreads", str(n_threads), "--no-dashboard", "--memory-limit", "0", "--host", "127.0.0.1"]
        where = ["--local-directory", str(self._folder), "--name", name]
        process = self._start("worker", self.address, *arguments, *where)
        self.workers.append(process)
        return process

    def lose(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker and its nanny, unless they were killed before."""
        if worker in self.workers:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            self.workers.remove(worker)

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"dask-{what}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + what, *arguments],
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
                    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0",
                    "PYTHONPATH": str(REPOSITORY),
                },
                start_new_session=True,
            )

    def n_tasks(self) -> int:
        return len(self.tasks())

    def tasks(self) -> list[str]:
        return self._ask(lambda dask_scheduler: list(map(str, dask_scheduler.tasks)))

    @contextlib.contextmanager
    def sending_events_to_clients(self, every_seconds: float) -> Iterator[None]:
        """Let the scheduler report repeatedly to all its clients that a task is cancelled."""

        def begin(dask_scheduler: Any) -> list[str]:
            async def tell() -> None:
                while True:
                    dask_scheduler.report({"op": "cancelled-keys", "keys": ["nothing"]})
                    await asyncio.sleep(every_seconds)

            dask_scheduler.telling = asyncio.ensure_future(tell())
            return []

        def end(dask_scheduler: Any) -> list[str]:
            dask_scheduler.telling.cancel()
            return []

        self._ask(begin)
        try:
            yield
        finally:
            self._ask(end)

    @contextlib.contextmanager
    def without_worker_saturation(self) -> Iterator[None]:
        """Let the scheduler send all tasks to its workers at once, as it does by default only for small groups."""

        def saturate(dask_scheduler: Any) -> list[str]:
            before, dask_scheduler.WORKER_SATURATION = dask_scheduler.WORKER_SATURATION, float("inf")
            return [str(before)]

        [before] = self._ask(saturate)

        def restore(dask_scheduler: Any) -> list[str]:
            dask_scheduler.WORKER_SATURATION = float(before)
            return []

        try:
            yield
        finally:
            self._ask(restore)

    def await_workers(self) -> None:
        wait_until(
            lambda: len(self._ask(lambda dask_scheduler: list(dask_scheduler.workers))) == len(self.workers),
            "all workers are connected",
            90,
            0.1,
        )

    def _ask(self, question: Callable[..., list[str]]) -> list[str]:
        """Return what a function returns in the scheduler. Dask's clients fail if they connect while tasks change."""
        from distributed.core import clean_exception, rpc  # an extra: the tests that need it are skipped without it
        from distributed.protocol.pickle import dumps

        async def ask() -> list[str]:
            async with rpc(self.address) as scheduler:
                answer = await scheduler.run_function(function=dumps(question), args=dumps(()), kwargs=dumps({}))
            if answer["status"] == "error":
                _kind, error, traceback = clean_exception(**answer)
                raise error.with_traceback(traceback)
            return list(answer["result"])

        return asyncio.run(asyncio.wait_for(ask(), 90))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):  # it has ended with its scheduler
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class RayCluster:
    """A head of Ray without CPUs, and nodes with some, all on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.address = free_address().removeprefix("tcp://")
        own, of_clients = (address.rpartition(":")[2] for address in (self.address, free_address()))
        ports = ["--port", own, "--ray-client-server-port", of_clients]
        self._start("--head", "--num-cpus", "0", "--include-dashboard=false", "--disable-usage-stats", *ports)

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which `ray://auto` finds it."""
        return {"RAY_ADDRESS": self.address, "RAY_AUTH_MODE": "disabled"}

    def add_node(self, n_cpus: int = THREADS) -> subprocess.Popen[bytes]:
        return self._start("--address", self.address, "--num-cpus", str(n_cpus))

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._folder / f"ray{len(self._processes)}.log"
        memory = ["--object-store-memory", str(80 * 2**20)]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *memory, *arguments],
                stdout=file,
                stderr=file,
                cwd=REPOSITORY,
                env={**os.environ, "RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(REPOSITORY)},
                start_new_session=True,
            )
        self._processes.append(process)
        wait_until(lambda: b"Ray runtime started" in log.read_bytes(), "the node is up", 150)
        return process

    def end(self) -> None:
        for process in reversed(self._processes):
            end_with_children(process)


def end_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kill a node of Ray at once: some of its processes have groups of their own."""
    if process.poll() is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.kill()
    process.wait()
