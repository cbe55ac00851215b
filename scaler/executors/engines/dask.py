"""DaskEngine: runs each call as a task of a Dask cluster, `--engine dask://HOST:PORT`.

Called by the engine host; the loop of the Dask client has its own thread. While a task waits for its children, other
tasks use its thread at the Dask worker. If the Dask scheduler is lost, its tasks return to the scheduler of Scaler, and
the engine reconnects with growing pauses.

    submit --> loop: connected? --> Dask scheduler --> Dask worker: run_here --> result

This module can be imported only with the package `distributed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any

import dask
import distributed
from distributed.client import FutureCancelledError

from scaler.config import ConfigError
from scaler.executors.engines.call import CallContext, EngineCall, run
from scaler.executors.engines.engine import EngineLostError
from scaler.task_context import WaitReporter
from scaler.wire.messages.worker import RunResult

PAUSE_SECONDS, PAUSE_MOST_SECONDS = 0.1, 30.0
"""The first and the longest pause, in seconds, before another attempt to connect. The pause doubles each time."""

CONNECT_TRIES = 20

LOOK_SECONDS = 1.0
"""The interval at which the engine requests the number of threads of the Dask workers from Dask."""

_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}
"""Settings that hide Dask's advice to scatter large arguments, because users of Scaler cannot scatter them."""


class DaskContext(CallContext):
    """The task context of clients in a task at a Dask worker. While the task waits, other tasks use its thread."""

    def begin_wait(self, reporter: WaitReporter, is_over: Callable[[], bool]) -> None:
        distributed.secede()
        super().begin_wait(reporter, is_over)

    def end_wait(self, reporter: WaitReporter) -> None:
        distributed.rejoin()
        super().end_wait(reporter)


def run_here(call: EngineCall) -> RunResult:
    """Run the task of a call at a Dask worker, and return the result of the run."""
    return run(call, DaskContext)


class DaskEngine:
    """Submits calls to one Dask cluster.

    Args:
        address: the address of the Dask scheduler, as Dask writes it.
        report: called with a sentence when the Dask scheduler cannot be reached.

    Raises:
        ConfigError: if the Dask scheduler cannot be reached now.
    """

    def __init__(self, address: str, report: Callable[[str], None]) -> None:
        dask.config.set(_QUIET)
        self._address = address
        self._report = report
        self._client: Any = None
        self._changed: Callable[[int], None] | None = None
        self._threads = -1
        """the last reported number of threads; -1: no number was reported yet"""
        self._has_lost_tasks = False
        """whether a task was lost since a task last returned a result"""
        self._connecting = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="scaler-dask", daemon=True).start()
        try:
            self._wait_for(self._connect())
        except Exception as error:  # foreign code
            raise ConfigError(
                f"there is no Dask scheduler at {address}: {error}; check the address, and that this host can reach it"
            ) from error

    def submit(self, call: EngineCall) -> Future[RunResult]:
        return asyncio.run_coroutine_threadsafe(self._run(call), self._loop)

    def follow(self, changed: Callable[[int], None]) -> None:
        """Call `changed` with the number of threads of the Dask workers, now and at each change; 0: no connection."""
        self._changed = changed
        asyncio.run_coroutine_threadsafe(self._follow(), self._loop)

    def close(self) -> None:
        if self._client is not None:
            self._wait_for(self._client.close(timeout=1))

    def _wait_for(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # In the loop

    async def _run(self, call: EngineCall) -> RunResult:
        client = await self._connected()
        task = call.task
        key = f"{task.name or 'scaler'}-{task.task_id.hex()}-{task.attempt}"
        future = client.submit(run_here, call, key=key, pure=False, priority=task.priority)
        try:
            result: RunResult = await future
        except FutureCancelledError as error:  # first: it may be a subclass of the next one
            raise self._lost(f"the Dask scheduler at {self._address} has lost the task: {error}") from None
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # the connection may be lost: then Dask cancels the task by itself
                await future.cancel(force=True)
            raise
        except distributed.KilledWorker as error:
            raise BrokenExecutor(str(error)) from None
        except (OSError, TimeoutError, asyncio.TimeoutError) as error:
            raise self._lost(f"the connection to Dask at {self._address} is lost: {error}") from error
        self._has_lost_tasks = False
        return result

    def _lost(self, sentence: str) -> EngineLostError:
        """Return the error of a lost task. Report only the first of several tasks that are lost together.

        While Dask cannot be reached, report a capacity of 0, so that the scheduler assigns no tasks to Dask.
        """
        if not self._is_up():
            self._report_capacity(0)
        if not self._has_lost_tasks:
            self._has_lost_tasks = True
            self._report(f"{sentence}; the scheduler runs it again, with all other tasks that Dask had")
        return EngineLostError(sentence)

    async def _follow(self) -> None:
        while True:
            if self._is_up():
                with contextlib.suppress(Exception):  # the connection may be lost just now
                    self._report_capacity(sum((await self._client.nthreads()).values()))
                await asyncio.sleep(LOOK_SECONDS)
            elif self._is_closed():
                await self._connected()
            else:
                self._report_capacity(0)
                await asyncio.sleep(LOOK_SECONDS)

    def _report_capacity(self, threads: int) -> None:
        if self._changed is not None and threads != self._threads:
            self._threads = threads
            self._changed(threads)

    def _is_up(self) -> bool:
        return self._client is not None and self._client.status == "running"

    def _is_closed(self) -> bool:
        return self._client is None or self._client.status in {"closing", "closed"}

    async def _connected(self) -> Any:
        """Return the connected client. If the client is closed, reconnect with growing pauses."""
        pause_seconds = PAUSE_SECONDS
        async with self._connecting:
            while self._is_closed():
                try:
                    await self._connect()
                except Exception as error:  # noqa: BLE001 - foreign code; after any error there is no client
                    sentence = f"there is no Dask scheduler at {self._address}: {error}"
                    self._report(f"{sentence}; next try in {pause_seconds:g} s")
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, PAUSE_MOST_SECONDS)
            return self._client

    async def _connect(self) -> None:
        self._client = None
        self._client = await connect(self._address)


async def connect(address: str) -> Any:
    """Return a Dask client that is connected.

    Retry after an `AssertionError`: Dask raises it if a broadcast of its scheduler arrives in one message with the
    hello.
    """
    for _ in range(CONNECT_TRIES):
        client = distributed.Client(address, asynchronous=True, set_as_default=False, name="scaler")
        try:
            return await client
        except AssertionError:
            await client.close(timeout=1)
    raise ConnectionError(f"the Dask scheduler has not answered any of {CONNECT_TRIES} hellos as it should")


async def n_threads(address: str) -> int:
    """Return the present number of threads of all workers of the Dask scheduler."""
    async with await connect(address) as client:
        return sum((await client.nthreads()).values())


def address_of(text: str) -> str:
    """Return the address of the Dask scheduler, as Dask writes it.

    Raises:
        ConfigError: if the text contains no address.
    """
    rest = text.removeprefix("dask://")
    if not rest or rest == text:
        raise ConfigError(
            f"the engine {text!r} has no address of a scheduler, as in dask://HOST:PORT or dask://tls://HOST:PORT"
        )
    return rest


def dask_engine(text: str, _n_workers: int, report: Callable[[str], None]) -> DaskEngine:
    """Return the engine of `dask://HOST:PORT`."""
    return DaskEngine(address_of(text), report)


def dask_capacity(text: str) -> int:
    """Return the number of threads of all connected Dask workers."""
    return asyncio.run(n_threads(address_of(text)))
