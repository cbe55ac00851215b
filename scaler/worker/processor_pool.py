"""The processors of a node as supervised children: for each worker slot an actor that owns one process and its channel.

    Supervisor (rest for one)
      ProcessStarter                   the nursery process, which forks; when it is lost, so are all processors
      Supervisor (one for one)
        Processor 0 .. n-1             up -> slot's work -> down, and a new one starts

A processor that dies after it was ready ends in good order: its supervisor starts the next at once and at no charge,
for a task that kills its processor is not the node's failure. One that never gets ready is a failure: back-off, and
too many end the agent.

Slots write to the processors (`HandTasks`, `HandObject`, `DropObjects`, `CleanProcessor`, `InterruptProcessor`,
`KillProcessor`); those send them what became of it.

Must never: block on a processor.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from itertools import count
from typing import Any

from scaler.actors.kit import Actor, ActorRef, ChildSpec, RestartBudget, Strategy, Supervisor, handles
from scaler.config import ClusterConfig
from scaler.errors import ProtocolError
from scaler.ids import NO_ID
from scaler.message import message
from scaler.process.shell import Shell
from scaler.wire.codec import decode, encode
from scaler.wire.messages import (
    AGENT_TO_PROCESSOR,
    PROCESSOR_TO_AGENT,
    Batch,
    CollectGarbage,
    InstructionKind,
    ObjectInstruction,
    ObjectResponse,
    RunResults,
)
from scaler.worker.channel import Channel, ChannelClosedError
from scaler.worker.messages import (
    CleanProcessor,
    DropObjects,
    HandObject,
    HandTasks,
    InterruptProcess,
    InterruptProcessor,
    KillProcess,
    KillProcessor,
    ProcessEnded,
    ProcessorDown,
    ProcessorUp,
    ProcessStarted,
    StartProcess,
)
from scaler.worker.nursery import ENDED, INTERRUPT, KILL, REPORT, REQUEST, START
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


def processor_pool(
    shell: Shell, config: ClusterConfig, names: tuple[str, ...], slots: tuple[ActorRef, ...], nest_id: bytes
) -> Supervisor:
    """Return the supervisor of all processes of the node, whose clients show the scheduler `nest_id`."""
    budget = RestartBudget(times=3 * len(slots) + 2, within_seconds=30.0)

    def processors(starter: ActorRef) -> Supervisor:
        def spec(index: int) -> ChildSpec:
            return ChildSpec(
                f"processor-{index}",
                Processor,
                lambda _peers: Processor(shell, starter, slots[index], names[index], config),
            )

        return Supervisor(tuple(map(spec, range(len(slots)))), Strategy.ONE_FOR_ONE, budget)

    return Supervisor(
        (
            ChildSpec("starter", ProcessStarter, lambda _peers: ProcessStarter(shell, config, nest_id)),
            ChildSpec("processors", Supervisor, lambda peers: processors(peers["starter"])),
        ),
        Strategy.REST_FOR_ONE,
        RestartBudget(times=3, within_seconds=30.0),
    )


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
            request = REQUEST.pack(START, start.number, self._nest_id)
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

    def _request(self, kind: int, number: int) -> None:
        if number in self._processors:
            with contextlib.suppress(ConnectionError):
                self._socket.sendall(REQUEST.pack(kind, number, NO_ID))

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

    def __init__(self, shell: Shell, starter: ActorRef, slot: ActorRef, name: str, config: ClusterConfig) -> None:
        self._number = next(_numbers)
        self._shell = shell
        self._starter = starter
        self._slot = slot
        self._name = name
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
            StartProcess(self._number, self.actor_ref, self._their_channel.detach(), self._progress_page)
        )
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
            self._slot.send(batch)
        elif not self._is_ready:
            self._is_ready = True
            logger.info("worker %s: processor %d started", self._name, self._pid)
            self._slot.send(ProcessorUp(self._number, self.actor_ref, self._progress))

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

    @handles(InterruptProcessor)
    def _interrupt(self, interrupt: InterruptProcessor) -> None:
        if interrupt.number == self._number:
            self._starter.send(InterruptProcess(self._number))

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
        logger.warning("worker %s: processor %d died: %s", self._name, self._pid, how)
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
