"""The scheduler process: puts socket, actors and event loop together, runs them, and ends them."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from scaler.actors.jobs.job_catalog import no_lockout
from scaler.actors.monitor import About
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.tree import SchedulerTree
from scaler.endpoint import TCP, Endpoint
from scaler.ids import Connection, SchedulerId, public_id, random_id
from scaler.process.files import OpenFiles, SocketFiles, allow_many_files
from scaler.process.memory import SpareMemory, largest_value_bytes
from scaler.process.shell import Shell
from scaler.process.wakeful_clock import WakefulClock
from scaler.scheduler.audit import AuditLog
from scaler.scheduler.edge import SchedulerEdge
from scaler.scheduler.gauges import ProcessGauges
from scaler.scheduler.kept_jobs import KeptJobs
from scaler.scheduler.key_registry import LOOK_SECONDS as LIST_SECONDS
from scaler.scheduler.key_registry import PEERS, VIEWERS, KeyRegistry
from scaler.scheduler.monitor_edge import MonitorEdge, open_publisher
from scaler.scheduler.own_keys import OwnKeys
from scaler.scheduler.snapshot import ended, snapshot
from scaler.settings import SchedulerConfig
from scaler.transport.interface import AddressInUseError
from scaler.transport.opening import open_listening_transport
from scaler.version import __version__
from scaler.wire.codec.schemas import load_schemas
from scaler.wire.codec.stencil_warmup import OF_SCHEDULERS, preparing
from scaler.wire.codec.structs import RunOptions
from scaler.wire.session.pipe import FAST_WINDOWS, Pipe
from scaler.wire.session.transfer import window_at

logger = logging.getLogger(__name__)

FILES_LEAST = 64
"""The lowest limit of open files with which a scheduler can accept its first connections."""

SPARE_SECONDS = 5.0
"""How often the scheduler checks for memory to give back; a check takes a few microseconds."""

LOOK_SECONDS = 2.5
"""How often the scheduler checks open files, free memory, and its clock, which shows pauses of the process. This is
half of `SILENT_LEAST_SECONDS` in `actors/sessions/session.py`.
"""

UNREAD_SECONDS = 0.5
"""How often the scheduler checks whether the amount of unread data grows; a check takes some 20 microseconds."""

IDLE_SECONDS = 30.0
"""The least time after which a connection that belongs to no peer is closed. The longest is twice this time."""

SPARE_STEP_BYTES = 16 * 1024 * 1024
"""The growth in memory after which the scheduler tries to give memory back."""

PROBE_SECONDS = (0.05, 0.25, 1.0)
"""The pauses before the three probes that follow a loss. One probe is too few: the socket notices a loss late."""


def describe_listener(endpoint: Endpoint) -> str:
    """Return a sentence about the process that listens at a busy address, as far as this user may know."""
    port = endpoint.port
    hint = f"choose another port, or find out who listens there: ss -ltnp 'sport = :{port}'"
    if endpoint.scheme != TCP:
        return "choose another path, or end the scheduler that listens there"
    import psutil  # noqa: PLC0415 - only here, and it takes long

    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr and str(connection.laddr[1]) == port
            if listens and connection.pid == os.getpid():
                return "this scheduler itself listens there for clients and workers; choose another port"
            if listens and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f"process {connection.pid} ({name}) listens there; end it or choose another port"
    except psutil.Error:
        return hint
    return hint


def _in_use(error: OSError, endpoint: Endpoint) -> AddressInUseError:
    return AddressInUseError(error.errno, f"{endpoint} is in use: {describe_listener(endpoint)}")


def _longest_silence(config: SchedulerConfig) -> float:
    """Return the longest time-out of sessions, in seconds. The socket must not close a silent connection earlier."""
    return max(config.client_timeout_seconds, config.worker_timeout_seconds)


class SchedulerProcess:
    """A scheduler in this process: listens, runs the actors, and closes its sockets at the end.

    Raises:
        AddressInUseError: if another program listens at the address; the message names the program.
        OSError: if the address cannot be bound.
        ConfigError: if the event loop is not installed.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        allow_many_files("a scheduler", FILES_LEAST)
        self._jobs = None if config.keep is None else KeptJobs(config)
        load_schemas("common", "client", "worker", "monitor")  # peers may use up the open files once it listens
        unread_bytes = 2 * (config.frame_bytes + (FAST_WINDOWS + 1) * config.transfer_window_bytes)
        self._audit = AuditLog(config.audit_file, propagates=config.logging.config_file is not None)
        self._keys = OwnKeys(config)
        folder = self._keys.folder
        self._key_registry = None if folder is None else KeyRegistry(folder, self._audit.say)
        try:
            self._listen(unread_bytes)
        except OSError:
            self._keys.forget(has_failed=True)
            raise
        self.monitor = None if self._publisher is None else self._publisher.endpoint
        """the address of the monitor stream; None without a stream, because all viewers would be in this process"""
        self._clock = WakefulClock(update_seconds=LOOK_SECONDS)
        self._shell = Shell(config.event_loop, self._clock)
        self._shell.run_in_steps(preparing(OF_SCHEDULERS))
        self._suspects: dict[Connection, int] = {}
        """connections that may be lost: for each, the number of probes that it must still survive to count as alive"""
        self._spare_memory = SpareMemory(SPARE_STEP_BYTES)
        self._open_files = OpenFiles()
        self._value_bytes = config.value_bytes or largest_value_bytes()
        self._doors = SocketFiles([each.file for each in (self.endpoint, self.monitor) if each and each.file])

    def _listen(self, unread_bytes: int) -> None:
        config, registry, at = self._config, self._key_registry, self._keys.endpoint
        admission_keys = None if registry is None else registry.admission_keys(*PEERS)
        self._transport = open_listening_transport(
            at, config.io_threads, config.frame_bytes, unread_bytes, admission_keys
        )
        try:
            self._listener = self._transport.listen(_longest_silence(config))
        except OSError as error:
            self._transport.close()
            if isinstance(error, AddressInUseError):
                raise _in_use(error, at) from None
            raise
        self.endpoint = self._listener.endpoint
        monitor, admission_keys = self._keys.monitor, None if registry is None else registry.admission_keys(*VIEWERS)
        try:
            self._publisher = open_publisher(monitor, self._usual_monitor(), logger.warning, admission_keys)
        except OSError as error:
            reason = _in_use(error, monitor) if monitor and isinstance(error, AddressInUseError) else error
            self._close()
            raise reason from None

    def _usual_monitor(self) -> Endpoint | None:
        """Return the address at which viewers expect the monitor stream, derived from the scheduler's address."""
        wanted, taken = self._config.endpoint, self.endpoint
        return replace(taken, host=taken.host if wanted.host == "*" else wanted.host).monitor

    def _close(self) -> None:
        if self._jobs is not None:
            self._jobs.close()
        self._listener.close(linger_seconds=0.5)
        self._transport.close()

    def run(self, on_started: Callable[[str], None] | None = None, lifeline: int | None = None) -> int:
        """Serve until a signal, a shutdown, or the end of the lifeline. Return the exit code of the process.

        Args:
            on_started: called with the bound address once peers can connect.
            lifeline: a descriptor that becomes readable when the parent process ends.
        """
        shell, config = self._shell, self._config
        scheduler_id = SchedulerId(random_id())
        board = self._board(scheduler_id)
        tree = self._tree(scheduler_id, board)
        registry = self._key_registry
        asks_for_keys = registry is not None and self.endpoint.scheme == TCP
        permit_of = registry.permit_of if registry is not None and asks_for_keys else None
        edge = SchedulerEdge(self._listener, tree, permit_of, parent=0 if lifeline is None else os.getppid())
        if board is not None:
            self._watch_viewers(board, tree)
        shell.watch(self._listener.descriptor, self._listener.expect)
        shell.loop.add_reader(self._listener.monitor_descriptor, lambda: self._connections_changed(edge))
        if lifeline is not None:
            shell.watch(lifeline, lambda: self._stop("the parent process has ended"))
        shell.on_signals(lambda _name: self._log_snapshot(tree, edge), signal.SIGUSR1)
        shell.on_signals(self._stop, *_ending_signals(is_child=lifeline is not None))
        at = (config.event_loop, self.endpoint, self.monitor or "none")
        logger.info("scheduler: event loop %s, address %s, monitor %s", *at)
        self._log_who_can_connect()
        if registry is not None:
            self._watch_gates(registry, edge, board)
        self._start_checks(edge, tree.objects)
        if on_started is not None:
            on_started(self.endpoint.address)
        try:
            return shell.run(edge)
        finally:
            self._doors.open()
            if self._publisher is not None:
                self._publisher.close()
            self._close()
            self._keys.forget()
            self._audit.close()
            logger.info(ended(self._counts(tree, edge)))

    def _tree(self, scheduler_id: SchedulerId, board: MonitorEdge | None) -> SchedulerTree:
        registry = self._key_registry if self.endpoint.scheme == TCP else None
        lockout_of = no_lockout if registry is None else registry.lockout_of
        catalog = None if self._jobs is None else self._jobs.catalog(self._shell.dispatcher.post, lockout_of)
        tree = SchedulerTree(
            self._shell.dispatcher,
            scheduler_id,
            __version__,
            self._config,
            self._stop_soon,
            RunOptions.decode,
            Pipe,
            self._clock.paused_since,
            board,
            window_at(self.endpoint, self._config.transfer_window_bytes),
            lambda: self._value_bytes,
            self._audit.say,
            catalog,
        )
        if catalog is not None and self._key_registry is None and self.endpoint.scheme == TCP:
            tree.directory.owners.alias_nobody(catalog.owner)
        return tree

    def _board(self, scheduler_id: SchedulerId) -> MonitorEdge | None:
        if self._publisher is None:
            return None
        about = About(self.endpoint.address, __version__, time.time_ns() // 1000, self._config.per_worker_queue_size)
        return MonitorEdge(self._publisher, public_id(scheduler_id), about, ProcessGauges(self._shell.loop))

    def _watch_viewers(self, board: MonitorEdge, tree: SchedulerTree) -> None:
        board.monitor = tree.monitor
        for descriptor in filter(None, (board.descriptor, board.monitor_descriptor)):
            self._shell.watch(descriptor, lambda: self._receive_subscriptions(board))

    def _log_who_can_connect(self) -> None:
        others = self.endpoint.who_can_connect()
        for line in self._keys.say():
            logger.info("scheduler: %s", line)
        if others and self._key_registry is None:
            logger.warning("scheduler: %s can connect to %s, and run code on the workers", others, self.endpoint)

    def _watch_gates(self, registry: KeyRegistry, edge: SchedulerEdge, board: MonitorEdge | None) -> None:
        for gate in (self._listener, board):
            if gate is not None and gate.authenticator_descriptor is not None:
                self._shell.loop.add_reader(gate.authenticator_descriptor, gate.authenticate)

        def look() -> None:
            self._shell.loop.call_later(LIST_SECONDS, look)  # first, so that a failure does not end the checks
            ended, terms = registry.look(), registry.take_terms()
            edge.terms_changed(terms)
            if ended:
                edge.end_keys(ended)
                if board is not None:
                    board.end_keys(ended)
            if ended or terms:
                self._shell.turn()

        self._shell.loop.call_later(LIST_SECONDS, look)

    def _receive_subscriptions(self, board: MonitorEdge) -> None:
        self._check_open_files()
        if board.receive():
            self._shell.loop.call_soon(self._receive_subscriptions, board)
        self._shell.turn()

    def _stop(self, reason: str) -> None:
        logger.info("scheduler: ends: %s", reason)
        self._shell.stop()

    def _stop_soon(self) -> None:
        self._shell.loop.call_soon(self._shell.stop)  # after the flush of this turn

    def _counts(self, tree: SchedulerTree, edge: SchedulerEdge) -> dict[str, int]:
        return {**self._shell.dispatcher.statistics(), **edge.statistics(), **tree.statistics()}

    def _log_snapshot(self, tree: SchedulerTree, edge: SchedulerEdge) -> None:
        """Log a snapshot, as soon as the actors have reported."""
        report = tree.report()
        counts = self._shell.dispatcher.statistics()
        counts |= {"unreadable_messages": edge.bad_messages, "undeliverable": edge.undeliverable}
        self._shell.loop.call_soon(lambda: logger.info(snapshot(report, edge.received, edge.sent, counts)))

    def _start_checks(self, edge: SchedulerEdge, objects: ObjectTable) -> None:
        self._return_memory_later(objects)
        self._check_regularly()
        self._check_unread(edge)
        self._shell.loop.call_later(IDLE_SECONDS, self._hang_up_on_idle, edge)

    def _return_memory_later(self, objects: ObjectTable) -> None:
        self._shell.loop.call_later(SPARE_SECONDS, self._return_memory, objects)

    def _return_memory(self, objects: ObjectTable) -> None:
        if self._spare_memory.trim_if_due(objects.size_bytes):
            logger.debug("scheduler: gave memory back to the system")
        self._return_memory_later(objects)

    def _check_regularly(self) -> None:
        self._shell.turn()
        self._check_open_files()
        self._value_bytes = self._config.value_bytes or largest_value_bytes()
        self._shell.loop.call_later(LOOK_SECONDS, self._check_regularly)

    def _check_open_files(self) -> None:
        """Stop accepting connections while few more files can be opened; libzmq aborts if a connection gets no file."""
        warning = self._open_files.warning()
        if warning:
            logger.warning("scheduler: %s", warning)
        if self._open_files.are_scarce:
            self._doors.shut()
        else:
            self._doors.open()

    def _check_unread(self, edge: SchedulerEdge) -> None:
        edge.look()
        self._shell.loop.call_later(UNREAD_SECONDS, self._check_unread, edge)

    def _hang_up_on_idle(self, edge: SchedulerEdge) -> None:
        self._connections_changed(edge)
        self._shell.turn()  # a hello may have arrived just now
        edge.hang_up_on_idle()
        self._shell.loop.call_later(IDLE_SECONDS, self._hang_up_on_idle, edge)

    def _connections_changed(self, edge: SchedulerEdge) -> None:
        self._check_open_files()
        lost = self._listener.lost()
        if lost and not self._suspects:
            self._probe_soon(edge, PROBE_SECONDS[0])
        self._suspects.update((connection, len(PROBE_SECONDS)) for connection in lost)

    def _probe_soon(self, edge: SchedulerEdge, seconds: float) -> None:
        self._shell.loop.call_later(seconds, self._probe, edge)

    def _probe(self, edge: SchedulerEdge) -> None:
        living = edge.probe(self._suspects)
        self._suspects = {each: self._suspects[each] - 1 for each in living if self._suspects[each] > 1}
        if self._suspects:
            self._probe_soon(edge, PROBE_SECONDS[-min(self._suspects.values())])
        self._shell.turn()


def _ending_signals(is_child: bool) -> list[signal.Signals]:
    """Return the signals that end a scheduler in order: not SIGINT if it is a child process, and not SIGHUP under
    `nohup`.
    """
    numbers = [signal.SIGTERM] if is_child else [signal.SIGTERM, signal.SIGINT]
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return numbers if is_ignored else [*numbers, signal.SIGHUP]
