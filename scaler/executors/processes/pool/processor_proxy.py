"""ProcessorProxy: the agent's end of one processor process and of the channel to it.

It passes messages of its slot to the process, and the reports of the process to the slot. The proxy of the fork server
starts and signals the process.

    coming --ProcessorReady--> up --the process has ended--> down
       +--not ready for too long, or has ended--> failure

If a process dies after it was ready, its proxy ends normally: a task that kills its processor is not a failure of the
node. The proxy never blocks on a processor.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, ClassVar, Protocol, TypeVar

from scaler.errors import ProtocolError
from scaler.executors.processes.messages import (
    CleanProcessor,
    DismissProcessor,
    DropObjects,
    InitializerFailed,
    InstallationWorks,
    InterruptProcessor,
    KillProcessor,
    PrepareAnother,
    ProcessEnded,
    ProcessNotStarted,
    ProcessorBlocked,
    ProcessorComing,
    ProcessorDown,
    ProcessorKept,
    ProcessorNotComing,
    ProcessorResumable,
    ProcessorUnblocked,
    ProcessorUp,
    ProcessStarted,
    ResumeProcessor,
    SendObject,
    SendTasks,
    SignalProcess,
    StartProcess,
    SuspendProcessor,
    TasksFinished,
    TasksPrinted,
)
from scaler.executors.processes.pool.deaths import how_it_ended, is_exiting, was_out_of_memory, why_it_ended
from scaler.kit import Actor, ActorRef, ExplainedError, Timer, handles
from scaler.message import message
from scaler.process.shell import Shell
from scaler.processor.channel import BlockLostError, Channel, ChannelClosedError
from scaler.processor.lifecycle.fork_server import CONTINUE, INTERRUPT, KILL, STOP
from scaler.processor.progress_page import ProgressPage, new_progress_page
from scaler.settings import ClusterConfig
from scaler.transport.interface import Message
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import (
    CollectGarbage,
    EndProcessor,
    ProcessorReady,
    ResumeRequest,
    ResumeTask,
    TaskBlocked,
    TaskOutput,
    TaskUnblocked,
)
from scaler.wire.messages.worker import RunResult

logger = logging.getLogger(__name__)

CHANNEL_BYTES = 1024 * 1024
"""The size of the channel's send buffer, unless the system allows less. It has room for one portion of tasks."""
READY_SECONDS = 60.0
"""How long a processor may take to become ready; unlimited with preloaded modules or a user's initializer."""


class ProcessorNotStartedError(ExplainedError):
    """The process of a processor was not started, has died before it was ready, or was not ready in time."""


@message
class _ReadyDue:
    """Proxy to itself, by timer, `READY_SECONDS` after the start: fail unless the process is ready."""


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


_CLOSED = "it closed its connection to the agent, or wrote into it"
_CUT_OFF = (
    "the initializer ended the process, or closed a descriptor that it had not opened: that of the connection to the "
    "agent (os.closerange)"
)

P = TypeVar("P", bound="ProcessorProxy")
M = TypeVar("M", bound=_Numbered)
_numbers = count(1)


def _handles_own(one: type[M]) -> Callable[[Callable[[P, M], None]], Callable[[P, M], None]]:
    """Mark a method as the handler of a message type. Messages to an earlier processor at this address are dropped."""

    def mark(method: Callable[[P, M], None]) -> Callable[[P, M], None]:
        @handles(one)
        def handle(self: P, message: M) -> None:
            if message.number == self.number:
                method(self, message)

        return handle

    return mark


class ProcessorProxy(Actor):
    """Passes messages between a slot and one processor process, and reports the end of this process."""

    def __init__(
        self,
        shell: Shell,
        fork_server: ActorRef,
        pool: ActorRef,
        slot: ActorRef,
        name: str,
        config: ClusterConfig,
        is_extra: bool,
        pool_number: int,
    ) -> None:
        self.number = next(_numbers)
        self._pool_number = pool_number
        self._shell = shell
        self._fork_server = fork_server
        self._pool = pool
        self._slot = slot
        self._name = name
        self._is_extra = is_extra
        self._is_dismissed = False
        self._trim_above_bytes = config.trim_memory_threshold_bytes
        self._pid = 0
        self._is_channel_broken = False
        self._is_ready = False
        self._is_end_reported = False
        self._how = ""
        self._killed_because = ""
        self._died = TaskStatus.PROCESSOR_DIED
        self._results_taken = 0
        self._blamed = 0
        """the number of the task whose result was lost on the channel; 0: no result was lost"""
        self._is_waiting_to_write = False
        ours, self._their_channel = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHANNEL_BYTES)
        ours.setblocking(False)
        self._channel = Channel(ours, remembers_blocks=True)
        self._progress_page = new_progress_page()
        self._progress = ProgressPage(self._progress_page)
        self._has_initializer = bool(config.initializer)
        self._is_prepared_by_user = bool(config.preload or config.initializer)
        self._ready_timer: Timer | None = None

    def on_start(self) -> None:
        self._shell.watch(self._channel.descriptor, self._read)
        self._fork_server.send(
            StartProcess(
                self.number,
                self._name,
                self.actor_ref,
                self._their_channel.detach(),
                self._progress_page,
                self._is_extra,
            )
        )
        self._slot.send(ProcessorComing(self.number, self._is_extra, self._pool_number))
        if not self._is_prepared_by_user:
            self._ready_timer = self.schedule(READY_SECONDS, _ReadyDue())

    # From the process

    def _read(self) -> None:
        try:
            self._take(self._channel.receive())
        except BlockLostError as error:
            logger.warning("worker %s: a result of processor %d cannot be received: %s", self._name, self._pid, error)
            self._killed_because = f"its result was lost: {error}"
            self._blamed = self._results_taken + 1
            self._shell.unwatch(self._channel.descriptor)
            self._signal(KILL)
        except (ChannelClosedError, ProtocolError) as error:
            # It is dying, or useless. Its death is reported separately.
            logger.debug("the channel of %s is closed: %s", self._name, error)
            self._shell.unwatch(self._channel.descriptor)
            self._is_channel_broken = True
            if self._pid:
                self._end_broken()

    def _end_broken(self) -> None:
        """Kill a process with a broken channel. Unless the process was exiting, report that it closed the channel."""
        if not is_exiting(self._pid):
            self._killed_because = _CLOSED
        self._signal(KILL)

    def _take(self, messages: Iterable[Message]) -> None:
        for header, frames in messages:
            for batch in decode(PROCESSOR_TO_AGENT, header, frames):
                self._readers[type(batch)](self, batch)

    def _finished(self, results: Batch[RunResult]) -> None:
        self._results_taken += len(results)
        self._slot.send(TasksFinished(self.number, results))

    def _ready(self, batch: Batch[ProcessorReady]) -> None:
        if not self._is_ready:
            self._is_ready = True
            pid = self._pid or batch[0].pid  # the report of the fork server may arrive later
            logger.info("worker %s: processor %d started", self._name, pid)
            self._pool.send(InstallationWorks())
            self._slot.send(ProcessorUp(self.number, self.actor_ref, self._progress, self._is_extra, pid))
        elif self._is_dismissed:
            self._is_dismissed = False
            self._slot.send(ProcessorKept(self.number))

    def _blocked(self, batch: Batch[TaskBlocked]) -> None:
        for item in batch:
            timeout_seconds = item.timeout_ms / 1000 if item.timeout_ms else math.inf
            self._slot.send(ProcessorBlocked(self.number, item.number, bool(item.is_stuck), item.wait, timeout_seconds))

    def _printed(self, batch: Batch[TaskOutput]) -> None:
        self._slot.send(TasksPrinted(self.number, batch))

    def _resumable(self, batch: Batch[ResumeRequest]) -> None:
        for item in batch:
            self._slot.send(ProcessorResumable(self.number, item.number))

    def _unblocked(self, batch: Batch[TaskUnblocked]) -> None:
        for item in batch:
            self._slot.send(ProcessorUnblocked(self.number, item.number))

    _readers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        Batch[RunResult]: _finished,
        Batch[ProcessorReady]: _ready,
        Batch[TaskBlocked]: _blocked,
        Batch[ResumeRequest]: _resumable,
        Batch[TaskUnblocked]: _unblocked,
        Batch[TaskOutput]: _printed,
    }

    # From the slot

    @_handles_own(SendTasks)
    def _hand_tasks(self, hand: SendTasks) -> None:
        for header, frames in encode(AGENT_TO_PROCESSOR, hand.tasks):
            self._write(self._channel.send_in_stream if frames else self._channel.send, header, frames)

    @_handles_own(SendObject)
    def _hand_object(self, hand: SendObject) -> None:
        stored = hand.stored
        if stored.block is None:
            self._send([ObjectResponse(stored.object_id, 1, stored.frames)])
            return
        placeholders = [b""] * len(stored.block.sizes)  # only their number is in the header
        for header, _ in encode(AGENT_TO_PROCESSOR, [ObjectResponse(stored.object_id, 1, placeholders)]):
            self._write(self._channel.send_block, header, stored.block)

    @_handles_own(DropObjects)
    def _drop_objects(self, drop: DropObjects) -> None:
        self._send([ObjectInstruction(InstructionKind.DELETE, each, "", ()) for each in drop.object_ids])

    @_handles_own(CleanProcessor)
    def _clean(self, _clean: CleanProcessor) -> None:
        self._send([CollectGarbage(self._trim_above_bytes)])

    @_handles_own(ResumeProcessor)
    def _resume(self, resume: ResumeProcessor) -> None:
        self._send([ResumeTask(resume.task)])

    @_handles_own(DismissProcessor)
    def _dismiss(self, _dismiss: DismissProcessor) -> None:
        self._is_dismissed = True
        self._send([EndProcessor("it was idle for some time, or is replaced")])

    @_handles_own(InterruptProcessor)
    def _interrupt(self, _interrupt: InterruptProcessor) -> None:
        self._signal(INTERRUPT)

    @_handles_own(SuspendProcessor)
    def _suspend(self, suspend: SuspendProcessor) -> None:
        self._signal(STOP if suspend.is_suspended else CONTINUE)

    @_handles_own(KillProcessor)
    def _kill(self, kill: KillProcessor) -> None:
        logger.info("worker %s: processor %d is killed: %s", self._name, self._pid, kill.reason)
        self._killed_because = kill.reason
        self._signal(KILL)

    def _signal(self, kind: int) -> None:
        self._fork_server.send(SignalProcess(self.number, kind))

    def _send(self, items: Any) -> None:
        for header, frames in encode(AGENT_TO_PROCESSOR, items):
            self._write(self._channel.send, header, frames)

    def _write(self, send: Callable[[bytes, Any], bool], header: bytes, content: Any) -> None:
        try:
            if send(header, content) or self._is_waiting_to_write:
                return
        except ChannelClosedError:
            return  # the next read finds that too, after the last results
        self._is_waiting_to_write = True
        self._shell.watch_writable(self._channel.descriptor, self._flush)

    def _flush(self) -> None:
        try:
            is_done = self._channel.flush()
        except ChannelClosedError:
            is_done = True
        if is_done:
            self._is_waiting_to_write = False
            self._shell.unwatch_writable(self._channel.descriptor)

    # The end

    @_handles_own(ProcessStarted)
    def _started(self, started: ProcessStarted) -> None:
        self._pid = started.pid
        if self._is_channel_broken:
            self._end_broken()

    @_handles_own(ProcessNotStarted)
    def _not_started(self, failed: ProcessNotStarted) -> None:
        self._pool.send(InstallationWorks())
        raise ProcessorNotStartedError(
            f"worker {self._name}: the system refused to start a process: {os.strerror(failed.errno)}. "
            "There may be a limit of processes (ulimit -u, or the pids limit of a container) or too little memory. "
            "The other processors continue; the start is retried"
        )

    @handles(_ReadyDue)
    def _ready_due(self, _due: _ReadyDue) -> None:
        if not self._is_ready:
            raise ProcessorNotStartedError(f"processor {self._pid} was not ready after {READY_SECONDS:g} s")

    @_handles_own(ProcessEnded)
    def _ended(self, ended: ProcessEnded) -> None:
        unprepared = self._unprepared(ended.exit_code)
        how = unprepared or why_it_ended(ended.exit_code, self._killed_because, ended.peak_bytes, ended.is_memory_short)
        if was_out_of_memory(ended.exit_code, self._killed_because, ended.is_memory_short):
            self._died = TaskStatus.OUT_OF_MEMORY
        is_in_order = self._is_ready and not ended.exit_code and (self._is_dismissed or not self._progress.executing)
        level = logging.DEBUG if is_in_order or unprepared else logging.WARNING
        logger.log(level, "worker %s: processor %d ended: %s", self._name, self._pid, how)
        self._report_end(f"died: process {self._pid}, {how}", is_failure=not self._is_ready, is_to_blame=True)
        self._how = how
        if unprepared:
            self._pool.send(InitializerFailed(self._name, unprepared, self.actor_ref, self.number))
        elif self._is_ready:
            self.stop_now()
        else:
            self._fail(PrepareAnother(self.number))

    @_handles_own(PrepareAnother)
    def _fail(self, _another: PrepareAnother) -> None:
        raise ProcessorNotStartedError(
            f"processor {self._pid} of worker {self._name} died before it was ready: {self._how}"
        )

    def _unprepared(self, exit_code: int) -> str:
        """Return why the process did not get ready, if the initializer is the cause; otherwise an empty text."""
        if self._is_ready or not self._has_initializer:
            return ""
        if self._progress.failure:
            return self._progress.failure
        if not exit_code or self._killed_because == _CLOSED:
            return _CUT_OFF
        how = f"the initializer has not returned, because its worker process ended: {how_it_ended(exit_code)}"
        return "" if self._killed_because else how

    def _report_end(self, reason: str, is_failure: bool, is_to_blame: bool) -> None:
        """Read what the process has still written, and then report its end to the slot.

        Args:
            is_failure: whether this proxy fails, so that the pool starts another process.
            is_to_blame: whether the executing task may have ended the process.
        """
        if self._is_end_reported:
            return
        self._is_end_reported = True
        with contextlib.suppress(ChannelClosedError, ProtocolError):
            while not self._blamed and (messages := self._channel.receive()):
                self._take(messages)
        if self._is_ready:
            executing = self._blamed or self._progress.executing
            self._slot.send(ProcessorDown(self.number, executing, reason, self._died, is_to_blame))
        else:
            self._slot.send(ProcessorNotComing(self.number, self._is_extra, is_failure))

    def on_stop(self) -> None:
        """Kill the process. When the whole agent ends, nothing executes this kill: the process ends by itself."""
        self._end(is_failure=False)

    def on_failure(self, *_error: object) -> None:
        self._end(is_failure=True)

    def _end(self, is_failure: bool) -> None:
        self._progress.interrupt_all()
        self._signal(KILL)
        self._report_end("was ended", is_failure, is_to_blame=False)  # by us
        if self._ready_timer is not None:
            self._ready_timer.cancel()  # the timer would keep this proxy until then
        self._shell.unwatch(self._channel.descriptor)
        self._channel.close()
        self._progress.close()
