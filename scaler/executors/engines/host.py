"""The engine host: the process of a node that holds its engine, so that the agent runs no foreign code.

    agent <--channel--> reader --calls--> submitter --> engine --futures--> results --> channel

The host uses the protocol of processors (`protocol/processor.capnp`). The reader does not wait for the engine to accept
a task. An exception of the engine is the result of a task, and never ends the host. The host ends with the agent,
together with all processes that the engine has started on this machine.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, cast

from scaler.config import ConfigError
from scaler.executors.engines.call import EngineCall, ended
from scaler.executors.engines.engine import ElasticEngine, Engine, EngineLostError
from scaler.executors.supply import needs_of
from scaler.executors.task_queue import RunKey, run_of
from scaler.ids import ObjectId
from scaler.process.interpreter import part_of_node
from scaler.process.user_code.shared_blocks import own_only_created_blocks
from scaler.processor.channel import Channel, ChannelClosedError
from scaler.processor.execution.failure import describe_failure
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import EndProcessor, EngineCapacity, EngineDown, ProcessorReady
from scaler.wire.messages.worker import RunCancel, RunResult, RunTask

EXIT_BAD_ENGINE = 2
"""The exit code of a host whose engine cannot be made; the host has reported the reason before."""


class HostSettings(NamedTuple):
    """The settings of an engine host, which the agent sends at the start of the host."""

    maker: str
    """`module:function`: makes the engine from its text, the number of workers, and a function that logs a sentence"""
    engine: str
    """the text of `--engine`"""
    n_workers: int
    address: str
    agent_token: str
    """the token of the agent, in hexadecimal digits"""
    is_elastic: bool = False
    """whether the host reports changes of the engine's capacity to the agent"""


class Host:
    """Receives tasks on the channel, and runs them in the engine."""

    def __init__(self, channel: Channel, settings: HostSettings) -> None:
        self._channel = channel
        self._settings = settings
        self._agent_token = bytes.fromhex(settings.agent_token)
        self._write_lock = threading.Lock()
        self._submit_lock = threading.Lock()
        """held while the future of a submitted call is stored, so that a cancel at that moment is not lost"""
        self._objects: dict[ObjectId, list[bytes]] = {}
        self._open: dict[RunKey, Future[RunResult] | None] = {}
        """the future of each open call; None while the call has not been submitted to the engine"""
        self._calls: SimpleQueue[EngineCall | None] = SimpleQueue()
        """the calls to submit to the engine; None as the last entry"""
        self._readers: dict[type, Callable[[Any], None]] = {
            Batch[RunTask]: self._take,
            Batch[RunCancel]: self._cancel,
            Batch[ObjectResponse]: self._store,
            Batch[ObjectInstruction]: self._forget,
        }

    def serve(self) -> int:
        """Make the engine, and run tasks until the agent ends. Return the exit code of the process."""
        try:
            engine = _make_engine(self._settings, self._report)
        except Exception as error:  # noqa: BLE001 - the maker is foreign code
            self._send([EngineDown(1, _reason(error))])
            return EXIT_BAD_ENGINE
        self._send([ProcessorReady(os.getpid())])
        if self._settings.is_elastic:
            cast("ElasticEngine", engine).follow(self._resized)
        threading.Thread(target=self._submit_calls, args=(engine,), name="scaler-submit", daemon=True).start()
        with contextlib.suppress(ChannelClosedError):
            while self._read():
                pass
        self._calls.put(None)
        with contextlib.suppress(Exception):  # foreign code, at the end of its process
            engine.close()
        return 0

    # From the agent

    def _read(self) -> bool:
        """Handle the messages that have arrived. Return whether the host continues."""
        for header, frames in self._channel.receive():
            for batch in decode(AGENT_TO_PROCESSOR, header, frames):
                if type(batch) is Batch[EndProcessor]:
                    return False
                for item in batch:
                    self._readers[type(batch)](item)
        return True

    def _take(self, task: RunTask) -> None:
        objects = {object_id: self._objects[object_id] for object_id in needs_of(task)}
        if task.frames:
            task = replace(task, frames=[bytes(frame) for frame in task.frames])
        self._open[run_of(task)] = None
        self._calls.put(EngineCall(task, objects, self._settings.address, self._agent_token))

    def _cancel(self, cancel: RunCancel) -> None:
        key = run_of(cancel)
        with self._submit_lock:
            future = self._open.get(key)
            if future is None:
                self._open.pop(key, None)  # the submitter skips it, or cancels its future
        if future is not None:
            future.cancel()

    def _store(self, response: ObjectResponse) -> None:
        self._objects[response.object_id] = [bytes(frame) for frame in response.frames]

    def _forget(self, instruction: ObjectInstruction) -> None:
        self._objects.pop(instruction.object_id, None)

    # To the engine, in a thread of its own, because that may block

    def _submit_calls(self, engine: Engine) -> None:
        while (call := self._calls.get()) is not None:
            key = run_of(call.task)
            if key not in self._open:
                self._send([ended(call.task, TaskStatus.CANCELED)])
                continue
            try:
                future = engine.submit(call)
            except Exception as error:  # noqa: BLE001 - foreign code
                future = Future()
                future.set_exception(error)
            with self._submit_lock:
                is_wanted = key in self._open
                if is_wanted:
                    self._open[key] = future
            if not is_wanted:
                future.cancel()
            future.add_done_callback(partial(self._done, call.task))

    # From the engine, in whatever thread

    def _done(self, task: RunTask, future: Future[RunResult]) -> None:
        self._open.pop(run_of(task), None)
        self._send([_result_of(task, future)])

    def _report(self, sentence: str) -> None:
        self._send([EngineDown(0, sentence)])

    def _resized(self, capacity: int) -> None:
        self._send([EngineCapacity(capacity)])

    def _send(self, items: Sequence[Any]) -> None:
        with self._write_lock, contextlib.suppress(ChannelClosedError):  # the agent has ended: the reader sees it
            for header, frames in encode(PROCESSOR_TO_AGENT, items):
                self._channel.send(header, frames)


def _result_of(task: RunTask, future: Future[RunResult]) -> RunResult:
    try:
        result: object = future.result()
        if isinstance(result, RunResult):
            return result
        raise TypeError(f"the engine returned {type(result).__name__} instead of the result of the call")
    except CancelledError:
        return ended(task, TaskStatus.CANCELED)
    except EngineLostError as error:
        return ended(task, TaskStatus.NOT_FOUND, str(error))
    except BrokenExecutor as error:
        return ended(task, TaskStatus.PROCESSOR_DIED, f"its process in the engine died while the task ran: {error}")
    except BaseException as error:  # noqa: BLE001 - foreign code
        failure = describe_failure(error)._replace(task_id=task.task_id)
        return ended(task, TaskStatus.FAILED, failure.encode(), failure.short)


def _make_engine(settings: HostSettings, report: Callable[[str], None]) -> Engine:
    module_name, _, name = settings.maker.partition(":")
    try:
        make = getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        extra = settings.engine.partition("://")[0]
        raise ConfigError(
            f"the engine {settings.engine!r} needs a package that cannot be imported here: {error}; try "
            f"pip install 'scaler[{extra}]'"
        ) from error
    return cast("Engine", make(settings.engine, settings.n_workers, report))


def _reason(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    return f"the engine cannot be made: {type(error).__name__}: {error}"


def main() -> None:
    """Run the host until its agent ends, then kill the host with all processes that it has started."""
    descriptor, settings = part_of_node()
    own_only_created_blocks()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection = socket.socket(fileno=descriptor)
    os.register_at_fork(after_in_child=connection.close)  # when it closes, the agent knows that this process has ended
    code = Host(Channel(connection), HostSettings(**json.loads(settings))).serve()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if code:
        os._exit(code)
    os.killpg(0, signal.SIGKILL)  # its own process group: the processes that the engine has started here end too
