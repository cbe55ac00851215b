"""EngineHost: the agent's end of the engine host, which holds the engine of the node (`host.py`).

The proxy reports the end of each run to the run's worker (`TaskEnded`). It also reports to the link that the clients
inside the run have ended. When the host dies, its running tasks are lost, and a new host starts after a pause. The
proxy never blocks on the host, and unpickles no task.

    STARTING --ProcessorReady--> UP --it has died--> DOWN --pause--> STARTING
       +--EngineDown, final, and no host was ever UP--> the end of the agent
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

from scaler.errors import ProtocolError
from scaler.executors.engines.call import ended
from scaler.executors.engines.host import HostSettings
from scaler.executors.inline.thread import Runner, TaskEnded
from scaler.executors.messages import CapacityChanged, ExecutorProcessGone
from scaler.executors.supply import needs_of
from scaler.executors.task_queue import RunKey, run_of
from scaler.ids import ObjectId
from scaler.kit import Actor, ActorRef, handles
from scaler.message import message
from scaler.process import strays
from scaler.process.interpreter import start_part
from scaler.process.shell import Shell
from scaler.processor.channel import Channel, ChannelClosedError
from scaler.processor.execution.values import LoadedValues
from scaler.transport.interface import Message
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import EndProcessor, EngineCapacity, EngineDown, ProcessorReady
from scaler.wire.messages.worker import RunCancel, RunResult, RunTask

logger = logging.getLogger(__name__)

PROGRAM = "scaler.executors.engines.host"
PAUSE_SECONDS, PAUSE_MOST_SECONDS = 0.1, 10.0
"""The first and the longest pause before a dead host is replaced. The pause doubles until a host becomes ready."""
GOODBYE_SECONDS = 3.0
EXIT_NO_ENGINE = 1
"""The exit code of an agent whose engine cannot be made."""


@message
class SubmitRun:
    """Run a task in the engine. The worker receives the result as `TaskEnded`."""

    runner: Runner
    worker: ActorRef
    task: RunTask
    values: LoadedValues


@message
class DropRun:
    """Cancel a run, whose result is not needed."""

    key: RunKey


@message
class DropHostObjects:
    """Delete from the host the objects that no later task needs."""

    object_ids: Iterable[ObjectId]


@message
class _HostStartDue:
    pass


class EngineHost(Actor):
    """Starts the host process with `settings`, and passes tasks and results between the workers and the host."""

    def __init__(self, shell: Shell, settings: HostSettings, link: ActorRef) -> None:
        self._shell = shell
        self._settings = settings
        self._link = link
        self._open: dict[RunKey, SubmitRun] = {}
        self._waiting: list[SubmitRun] = []
        self._sent_objects: set[ObjectId] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._end_of_process: int | None = None
        self._channel: Channel | None = None
        self._is_ready = False
        self._has_worked = False
        """whether a host was ever ready: if so, the agent survives failures of the engine, and keeps waiting runs"""
        self._is_waiting_to_write = False
        self._pause_seconds = PAUSE_SECONDS
        self._readers: dict[type, Callable[[Any], None]] = {
            Batch[ProcessorReady]: self._ready,
            Batch[RunResult]: self._results,
            Batch[EngineDown]: self._engine_down,
            Batch[EngineCapacity]: self._resized,
        }

    def on_start(self) -> None:
        self._start()

    # The process

    @handles(_HostStartDue)
    def _start_due(self, _due: _HostStartDue) -> None:
        if self._process is None:
            self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        settings = json.dumps(self._settings._asdict())
        with theirs:
            self._process = start_part(PROGRAM, settings, theirs.fileno(), {}, is_session=True)
        self._channel = Channel(ours)
        self._shell.watch(self._channel.descriptor, self._read)
        self._end_of_process = _end_of(self._process)
        if self._end_of_process is not None:
            self._shell.watch(self._end_of_process, self._ended)

    def _ended(self) -> None:
        """Handle the end of the host process. The host's end of the channel may still be open, in forks of the host."""
        channel = self._channel
        assert channel is not None
        while self._channel is channel and channel.has_input():
            self._read()
        if self._channel is channel:
            self._lost()

    def _read(self) -> None:
        channel = self._channel
        assert channel is not None
        try:
            self._take(channel.receive())
        except (ChannelClosedError, ProtocolError) as error:
            logger.debug("the channel of the engine host is closed: %s", error)
            self._lost()

    def _take(self, messages: Iterable[Message]) -> None:
        for header, frames in messages:
            for batch in decode(PROCESSOR_TO_AGENT, header, frames):
                self._readers[type(batch)](batch)

    def _ready(self, batch: Batch[ProcessorReady]) -> None:
        logger.info("engine %s: its host (process %d) is ready", self._settings.engine, batch[0].pid)
        self._is_ready = self._has_worked = True
        self._pause_seconds = PAUSE_SECONDS
        waiting, self._waiting = self._waiting, []
        for hand in waiting:
            self._hand(hand)

    def _resized(self, batch: Batch[EngineCapacity]) -> None:
        self._link.send(CapacityChanged(batch[-1].places))

    def _engine_down(self, batch: Batch[EngineDown]) -> None:
        for down in batch:
            if down.is_final and not self._has_worked:
                logger.error("%s", down.reason)
                self._shell.stop(EXIT_NO_ENGINE)
            else:
                logger.warning("%s", down.reason)

    def _lost(self) -> None:
        how = self._end_process(0.0)
        self._is_ready, self._sent_objects = False, set()
        logger.warning("engine %s: its host process has died (%s); the next one starts in %.3g s",
                       self._settings.engine, how, self._pause_seconds)  # fmt: skip
        lost, self._open = self._open, {}
        sentence = f"the engine host of the task's cluster died while the task ran ({how})"
        for hand in lost.values():
            self._end(hand, ended(hand.task, TaskStatus.PROCESSOR_DIED, sentence))
        self.schedule(self._pause_seconds, _HostStartDue())
        self._pause_seconds = min(2 * self._pause_seconds, PAUSE_MOST_SECONDS)

    def _end_process(self, seconds: float) -> str:
        """End the host process and its process group. Return how the process ended, as a part of a sentence."""
        process, self._process = self._process, None
        channel, self._channel = self._channel, None
        if self._end_of_process is not None:
            self._shell.unwatch(self._end_of_process)
            os.close(self._end_of_process)
            self._end_of_process = None
        if channel is not None:
            self._shell.unwatch(channel.descriptor)
            if self._is_waiting_to_write:
                self._shell.unwatch_writable(channel.descriptor)
                self._is_waiting_to_write = False
            channel.close()
        if process is None:
            return "it was not running"
        if seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        strays.kill_group(process.pid)
        code = process.wait()
        strays.own.discard(process.pid)
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    # Runs

    @handles(SubmitRun)
    def _hand_run(self, hand: SubmitRun) -> None:
        if self._is_ready:
            self._hand(hand)
        else:
            self._waiting.append(hand)

    def _hand(self, hand: SubmitRun) -> None:
        task = hand.task
        self._open[run_of(task)] = hand
        items: list[Any] = []
        for object_id in dict.fromkeys(needs_of(task)):
            if object_id not in self._sent_objects:
                self._sent_objects.add(object_id)
                items.append(ObjectResponse(object_id, 1, hand.values.frames(object_id)))
        self._send([*items, task])

    @handles(DropRun)
    def _drop_run(self, drop: DropRun) -> None:
        hand = self._open.get(drop.key)
        if hand is not None:
            self._send([RunCancel(hand.task.task_id, hand.task.worker, hand.task.attempt)])
            return
        for waiting in [each for each in self._waiting if run_of(each.task) == drop.key]:
            self._waiting.remove(waiting)
            self._end(waiting, ended(waiting.task, TaskStatus.CANCELED))

    @handles(DropHostObjects)
    def _drop_objects(self, drop: DropHostObjects) -> None:
        dropped = self._sent_objects.intersection(drop.object_ids)
        if dropped:
            self._sent_objects -= dropped
            self._send([ObjectInstruction(InstructionKind.DELETE, object_id, "", ()) for object_id in dropped])

    def _results(self, results: Batch[RunResult]) -> None:
        for result in results:
            hand = self._open.pop(run_of(result), None)
            if hand is not None:
                self._end(hand, result)

    def _end(self, hand: SubmitRun, result: RunResult) -> None:
        hand.worker.send(TaskEnded(hand.runner, result))
        self._link.send(ExecutorProcessGone(hand.task.attempt))

    # The channel

    def _send(self, items: list[Any]) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            for header, frames in encode(AGENT_TO_PROCESSOR, items):
                if not channel.send(header, frames) and not self._is_waiting_to_write:
                    self._is_waiting_to_write = True
                    self._shell.watch_writable(channel.descriptor, self._write)
        except ChannelClosedError:
            return  # its end is about to be read

    def _write(self) -> None:
        channel = self._channel
        assert channel is not None
        with contextlib.suppress(ChannelClosedError):
            if not channel.flush():
                return
        self._is_waiting_to_write = False
        self._shell.unwatch_writable(channel.descriptor)

    # The end

    def on_stop(self) -> None:
        self._send([EndProcessor("the agent ends")])
        self._end_process(GOODBYE_SECONDS)

    def on_failure(self, *_error: object) -> None:
        self._end_process(0.0)


def _end_of(process: subprocess.Popen[bytes]) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None if the system has no such descriptors."""
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # another system than Linux, or an old one
        return None
