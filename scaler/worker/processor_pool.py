"""The processors of a node as supervised children: for each worker slot an actor that owns one process and its channel.

    Pool (rest for one)
      ProcessStarter                   the nursery process, which forks; when it is lost, so are all processors
      Processors (one for one)
        Processor 0 .. n-1             coming -> up -> slot's work -> down, and a new one starts
        extra processors               the same, for slots that asked for more: no new one starts

A processor that dies after it was ready ends in good order: its supervisor starts the next at once and at no charge,
for a task that kills its processor is not the node's failure. One that never gets ready is a failure: back-off, and
too many end the agent.

Slots write to the pool (`AddProcessor`) and to the processors (`HandTasks`, `HandObject`, `DropObjects`,
`CleanProcessor`, `ResumeProcessor`, `PauseProcessor`, `InterruptProcessor`, `DismissProcessor`, `KillProcessor`); those
send them what became of it.

Must never: block on a processor.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, ClassVar

from scaler.actors.kit import Actor, ActorRef, ChildSpec, Restart, RestartBudget, Strategy, Supervisor, handles
from scaler.config import ClusterConfig
from scaler.errors import ProtocolError
from scaler.ids import NO_ID
from scaler.message import message
from scaler.process.shell import Shell
from scaler.wire.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectResponse
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import (
    CollectGarbage,
    EndProcessor,
    ProcessorsReady,
    ResumeRequests,
    ResumeTask,
    TasksResumed,
    TasksSuspended,
)
from scaler.wire.messages.worker import RunResults
from scaler.worker.channel import Channel, ChannelClosedError
from scaler.worker.messages import (
    AddProcessor,
    CleanProcessor,
    DismissProcessor,
    DropObjects,
    HandObject,
    HandTasks,
    InterruptProcess,
    InterruptProcessor,
    KillProcess,
    KillProcessor,
    PauseProcess,
    PauseProcessor,
    ProcessEnded,
    ProcessorComing,
    ProcessorDown,
    ProcessorNotComing,
    ProcessorStays,
    ProcessorUp,
    ProcessStarted,
    ResumeProcessor,
    StartProcess,
    TaskAsks,
    TaskGoesOn,
    TasksFinished,
    TaskWaits,
)
from scaler.worker.nursery import CONTINUE, ENDED, INTERRUPT, KILL, REPORT, REQUEST, START, STOP
from scaler.worker.progress import Progress, new_progress_page

logger = logging.getLogger(__name__)

PROGRAM = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from scaler.worker import nursery; "
    "nursery.main(int(sys.argv[1]), sys.argv[3])"
)
READY_SECONDS = 60.0
"""A processor that is not ready after so long is killed, and that counts as a failure."""
GOODBYE_SECONDS = 5.0
"""How long the nursery may take to kill all processors."""


class ProcessorNotStartedError(RuntimeError):
    """A processor ended before it was ready for work."""


class NurseryDiedError(RuntimeError):
    """The process that forks processors is gone, and all processors with it."""


class Pool(Supervisor):
    """The supervisor of all processes of the node.

    Args:
        names: of the workers; each has a processor that is always there.
        slots: of the workers.
        nest_id: what the clients inside the processors show the scheduler.
    """

    def __init__(
        self, shell: Shell, config: ClusterConfig, names: tuple[str, ...], slots: tuple[ActorRef, ...], nest_id: bytes
    ) -> None:
        def new_processor(starter: ActorRef, slot: int, is_extra: bool) -> Processor:
            return Processor(shell, starter, slots[slot], names[slot], config, is_extra)

        super().__init__(
            (
                ChildSpec("starter", ProcessStarter, lambda _peers: ProcessStarter(shell, config, nest_id)),
                ChildSpec(
                    "processors",
                    _Processors,
                    lambda peers: _Processors(partial(new_processor, peers["starter"]), names),
                ),
            ),
            Strategy.REST_FOR_ONE,
            RestartBudget(times=3, within_seconds=30.0),
        )

    @handles(AddProcessor)
    def _add_processor(self, add: AddProcessor) -> None:
        self.children["processors"].send(add)


class _Processors(Supervisor):
    """One processor for each worker, and those that slots have asked for."""

    def __init__(self, new_processor: Callable[[int, bool], Processor], names: tuple[str, ...]) -> None:
        def spec(slot: int) -> ChildSpec:
            return ChildSpec(f"processor-{slot}", Processor, lambda _peers: new_processor(slot, False))

        super().__init__(
            tuple(map(spec, range(len(names)))),
            Strategy.ONE_FOR_ONE,
            RestartBudget(times=3 * len(names) + 2, within_seconds=30.0),
        )
        self._new_processor = new_processor
        self._next_extra = count(1).__next__

    @handles(AddProcessor)
    def _add_processor(self, add: AddProcessor) -> None:
        """Start one more. When it ends in good order, it is not started again."""
        name = f"processor-{add.slot}-extra-{self._next_extra()}"
        self.add(ChildSpec(name, Processor, lambda _peers: self._new_processor(add.slot, True), Restart.TRANSIENT))


def _close_watched(shell: Shell, descriptor: int) -> None:
    if not shell.loop.is_closed():
        shell.unwatch(descriptor)
        shell.loop.remove_writer(descriptor)


@message
class _NurseryLost:
    pass


class ProcessStarter(Actor):
    """Owns the nursery process."""

    def __init__(self, shell: Shell, config: ClusterConfig, nest_id: bytes) -> None:
        self._shell = shell
        self._nest_id = nest_id
        self._processors: dict[int, ActorRef] = {}
        self._reports = b""
        self._socket, theirs = socket.socketpair()
        # The same interpreter with the same flags, and the modules that this process would find.
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *flags, "-c", PROGRAM, str(theirs.fileno()), json.dumps(sys.path), config.to_json()],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def on_start(self) -> None:
        self._shell.watch(self._socket.fileno(), self._read_reports)

    def _read_reports(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = self._socket.recv(4096)
        if not data:
            self._shell.unwatch(self._socket.fileno())
            self.actor_ref.send(_NurseryLost())
            return
        data = self._reports + data
        whole = len(data) - len(data) % REPORT.size
        self._reports = data[whole:]
        for kind, number, value in REPORT.iter_unpack(data[:whole]):
            if kind == ENDED:
                self._processors.pop(number).send(ProcessEnded(number, value))
            else:
                self._processors[number].send(ProcessStarted(number, value))

    @handles(StartProcess)
    def _start(self, start: StartProcess) -> None:
        self._processors[start.number] = start.processor
        try:
            request = REQUEST.pack(START, start.number, self._nest_id, start.is_extra)
            socket.send_fds(self._socket, [request], [start.channel, start.progress])
        except ConnectionError:
            pass  # the end of the connection is about to be read
        finally:
            os.close(start.channel)
            os.close(start.progress)

    @handles(KillProcess)
    def _kill(self, kill: KillProcess) -> None:
        self._request(KILL, kill.number)

    @handles(InterruptProcess)
    def _interrupt(self, interrupt: InterruptProcess) -> None:
        self._request(INTERRUPT, interrupt.number)

    @handles(PauseProcess)
    def _pause(self, pause: PauseProcess) -> None:
        self._request(STOP if pause.is_stopped else CONTINUE, pause.number)

    def _request(self, kind: int, number: int) -> None:
        if number in self._processors:
            with contextlib.suppress(ConnectionError):
                self._socket.sendall(REQUEST.pack(kind, number, NO_ID, False))

    @handles(_NurseryLost)
    def _lost(self, _lost: _NurseryLost) -> None:
        raise NurseryDiedError("the process that starts processors is gone")

    def on_stop(self) -> None:
        """End the nursery, which takes all processors with it."""
        _close_watched(self._shell, self._socket.fileno())
        self._socket.close()
        try:
            self._process.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def on_failure(self, *_error: object) -> None:
        self.on_stop()


@message
class _ReadyDue:
    pass


_numbers = count(1)


class Processor(Actor):
    """Owns one processor process and the channel to it."""

    def __init__(
        self, shell: Shell, starter: ActorRef, slot: ActorRef, name: str, config: ClusterConfig, is_extra: bool
    ) -> None:
        self._number = next(_numbers)
        self._shell = shell
        self._starter = starter
        self._slot = slot
        self._name = name
        self._is_extra = is_extra
        self._is_dismissed = False
        self._trim_above_bytes = config.trim_memory_threshold_bytes
        self._pid = 0
        self._is_ready = False
        self._is_over = False
        self._is_waiting_to_write = False
        ours, self._their_channel = socket.socketpair()
        ours.setblocking(False)
        self._channel = Channel(ours, remembers_blocks=True)
        self._progress_page = new_progress_page()
        self._progress = Progress(self._progress_page)

    def on_start(self) -> None:
        self._shell.watch(self._channel.descriptor, self._read)
        self._starter.send(
            StartProcess(
                self._number, self.actor_ref, self._their_channel.detach(), self._progress_page, self._is_extra
            )
        )
        self._slot.send(ProcessorComing(self._number, self._is_extra))
        self.schedule(READY_SECONDS, _ReadyDue())

    # From the process

    def _read(self) -> None:
        try:
            for header, frames in self._channel.receive():
                for batch in decode(PROCESSOR_TO_AGENT, header, frames):
                    self._take(batch)
        except (ChannelClosedError, ProtocolError) as error:
            # It is dying, or of no use any more. That it died is reported separately.
            logger.debug("the channel of %s is closed: %s", self._name, error)
            self._shell.unwatch(self._channel.descriptor)
            self._starter.send(KillProcess(self._number))

    def _take(self, batch: Batch[Any]) -> None:
        if type(batch) is RunResults:
            self._slot.send(TasksFinished(self._number, batch))
        else:
            self._others[type(batch)](self, batch)

    def _ready(self, _batch: ProcessorsReady) -> None:
        if not self._is_ready:
            self._is_ready = True
            logger.info("worker %s: processor %d started", self._name, self._pid)
            self._slot.send(ProcessorUp(self._number, self.actor_ref, self._progress, self._is_extra))
        elif self._is_dismissed:
            self._is_dismissed = False
            self._slot.send(ProcessorStays(self._number))

    def _suspended(self, batch: TasksSuspended) -> None:
        for item in batch:
            timeout_seconds = item.timeout_ms / 1000 if item.timeout_ms else math.inf
            self._slot.send(TaskWaits(self._number, item.number, bool(item.is_stuck), item.wait, timeout_seconds))

    def _asks(self, batch: ResumeRequests) -> None:
        for item in batch:
            self._slot.send(TaskAsks(self._number, item.number))

    def _goes_on(self, batch: TasksResumed) -> None:
        for item in batch:
            self._slot.send(TaskGoesOn(self._number, item.number))

    _others: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        ProcessorsReady: _ready,
        TasksSuspended: _suspended,
        ResumeRequests: _asks,
        TasksResumed: _goes_on,
    }

    # From the slot

    @handles(HandTasks)
    def _hand_tasks(self, hand: HandTasks) -> None:
        if hand.number == self._number:
            self._send(hand.tasks)

    @handles(HandObject)
    def _hand_object(self, hand: HandObject) -> None:
        stored = hand.stored
        if hand.number != self._number:
            return
        if stored.block is None:
            self._send([ObjectResponse(stored.object_id, 1, stored.frames)])
            return
        placeholders = [b""] * len(stored.block.sizes)  # only their number is in the header
        for header, _ in encode(AGENT_TO_PROCESSOR, [ObjectResponse(stored.object_id, 1, placeholders)]):
            self._sent(lambda header=header, block=stored.block: self._channel.send_block(header, block))

    @handles(DropObjects)
    def _drop_objects(self, drop: DropObjects) -> None:
        if drop.number == self._number:
            self._send([ObjectInstruction(InstructionKind.DELETE, each, "", ()) for each in drop.object_ids])

    @handles(CleanProcessor)
    def _clean(self, clean: CleanProcessor) -> None:
        if clean.number == self._number:
            self._send([CollectGarbage(self._trim_above_bytes)])

    @handles(ResumeProcessor)
    def _resume(self, resume: ResumeProcessor) -> None:
        if resume.number == self._number:
            self._send([ResumeTask(resume.task)])

    @handles(DismissProcessor)
    def _dismiss(self, dismiss: DismissProcessor) -> None:
        if dismiss.number == self._number:
            self._is_dismissed = True
            self._send([EndProcessor("it had nothing to do for some time")])

    @handles(InterruptProcessor)
    def _interrupt(self, interrupt: InterruptProcessor) -> None:
        if interrupt.number == self._number:
            self._starter.send(InterruptProcess(self._number))

    @handles(PauseProcessor)
    def _pause(self, pause: PauseProcessor) -> None:
        if pause.number == self._number:
            self._starter.send(PauseProcess(self._number, pause.is_stopped))

    @handles(KillProcessor)
    def _kill(self, kill: KillProcessor) -> None:
        if kill.number == self._number:
            logger.info("worker %s: processor %d is killed: %s", self._name, self._pid, kill.reason)
            self._starter.send(KillProcess(self._number))

    def _send(self, items: Any) -> None:
        for header, frames in encode(AGENT_TO_PROCESSOR, items):
            self._sent(lambda header=header, frames=frames: self._channel.send(header, frames))

    def _sent(self, send: Any) -> None:
        try:
            if send() or self._is_waiting_to_write:
                return
        except ChannelClosedError:
            return  # reading finds that too, after the last results
        self._is_waiting_to_write = True
        self._shell.loop.add_writer(self._channel.descriptor, self._flush)

    def _flush(self) -> None:
        try:
            is_done = self._channel.flush()
        except ChannelClosedError:
            is_done = True
        if is_done:
            self._is_waiting_to_write = False
            self._shell.loop.remove_writer(self._channel.descriptor)

    # The end

    @handles(ProcessStarted)
    def _started(self, started: ProcessStarted) -> None:
        if started.number == self._number:
            self._pid = started.pid

    @handles(_ReadyDue)
    def _ready_due(self, _due: _ReadyDue) -> None:
        if not self._is_ready:
            raise ProcessorNotStartedError(f"processor {self._pid} was not ready after {READY_SECONDS:g} s")

    @handles(ProcessEnded)
    def _ended(self, ended: ProcessEnded) -> None:
        if ended.number != self._number:
            return
        how = how_it_ended(ended.exit_code)
        level = logging.DEBUG if self._is_dismissed and not ended.exit_code else logging.WARNING
        logger.log(level, "worker %s: processor %d ended: %s", self._name, self._pid, how)
        self._over(self._progress.executing, f"died: process {self._pid}, {how}")
        if not self._is_ready:
            raise ProcessorNotStartedError(
                f"processor {self._pid} of worker {self._name} died before it was ready: {how}"
            )
        self.stop_now()

    def _over(self, executing: int, reason: str) -> None:
        """Tell the slot, after all that the process has written."""
        if self._is_over:
            return
        self._is_over = True
        with contextlib.suppress(ChannelClosedError, ProtocolError):
            while messages := self._channel.receive():
                for header, frames in messages:
                    for batch in decode(PROCESSOR_TO_AGENT, header, frames):
                        self._take(batch)
        if self._is_ready:
            self._slot.send(ProcessorDown(self._number, executing, reason))
        else:
            self._slot.send(ProcessorNotComing(self._number))

    def on_stop(self) -> None:
        self._starter.send(KillProcess(self._number))
        self._over(0, "was ended")  # by us: no task is to blame
        _close_watched(self._shell, self._channel.descriptor)
        self._channel.close()

    def on_failure(self, *_error: object) -> None:
        self.on_stop()


def how_it_ended(exit_code: int) -> str:
    """Return the exit code, or the signal by its name, as a part of a sentence."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"
