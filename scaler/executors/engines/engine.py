"""Engine: the interface of the engines that run the calls of an engine host, and the engine for any `Executor`.

The text of `--engine` names the `Executor`:

    module:factory              the factory returns a `concurrent.futures.Executor`
    futures://module:factory    another form of this text

Called by the host, in its own process. The agent never imports this module, because the agent runs no foreign code.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Protocol

from scaler.config import ConfigError
from scaler.executors.engines.call import EngineCall, run
from scaler.wire.messages.worker import RunResult


class EngineLostError(RuntimeError):
    """The engine has lost a task for reasons of its own. The scheduler runs the task again, and counts no crash."""


class Engine(Protocol):
    """An engine that runs calls. The host calls `submit` from one thread, and `close` from another one."""

    def submit(self, call: EngineCall) -> Future[RunResult]:
        """Submit a call to the engine. The method may block while there is no connection to the engine.

        Returns:
            a future of the result of the run. It fails with `EngineLostError` if the engine lost the call, and with
            `concurrent.futures.BrokenExecutor` if the process that ran the call died.
        """

    def close(self) -> None:
        """End the engine; running calls may be dropped."""


class ElasticEngine(Engine, Protocol):
    """An engine whose number of workers changes."""

    def follow(self, changed: Callable[[int], None]) -> None:
        """Call `changed`, from any thread, with the number of tasks that can run at once: now, and at each change."""


class FuturesEngine:
    """Passes calls to an executor of `concurrent.futures`. A broken executor is replaced by a new one."""

    def __init__(self, make: Callable[[], Executor]) -> None:
        self._make = make
        self._executor = make()

    def submit(self, call: EngineCall) -> Future[RunResult]:
        try:
            return self._executor.submit(run, call)
        except BrokenExecutor:
            self._renew()
            return self._executor.submit(run, call)

    def _renew(self) -> None:
        with contextlib.suppress(Exception):  # it is broken already
            self._executor.shutdown(wait=False)
        self._executor = self._make()

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def futures_engine(text: str, _n_workers: int, _report: Callable[[str], None]) -> FuturesEngine:
    """Return the engine of `module:factory`.

    Raises:
        ConfigError: if there is no such factory, or the factory does not return an executor.
    """
    module_name, colon, factory_name = text.removeprefix("futures://").partition(":")
    if not (module_name and colon and factory_name):
        raise ConfigError(f"the engine {text!r} is not of the form module:factory, as in concurrent.futures:Executor")
    try:
        factory = getattr(importlib.import_module(module_name), factory_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the engine {text!r} cannot be loaded: {error}; is the module installed here, or in PYTHONPATH?"
        ) from error
    engine = FuturesEngine(factory)
    if not isinstance(engine._executor, Executor):  # noqa: SLF001 - of this module
        raise ConfigError(f"{text} returned {type(engine._executor).__name__}, not a concurrent.futures.Executor")  # noqa: SLF001
    return engine
