"""Parties: the scheduler, the agents and the programs with clients: the real ones, on modelled loops and sockets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from scaler.actors.tree import ACCEPTOR, BALANCER, OBJECT_STORE, SchedulerTree
from scaler.actors.vocabulary.events import (
    CLIENT,
    CUT,
    EVERY_TASK,
    SILENT,
    ObjectStored,
    PeerLeft,
    TaskMoved,
)
from scaler.actors.vocabulary.peer import Peer
from scaler.agent.agent import _tree
from scaler.agent.edge import AgentEdge
from scaler.agent.link import AgentLink
from scaler.agent.messages import Leave
from scaler.agent.object_cache import ObjectCache
from scaler.agent.values import NodeValues
from scaler.executors.executor import LINK, Node
from scaler.executors.processes.slot.slot import Slot
from scaler.ids import ObjectId, SchedulerId, random_id
from scaler.keys.allowed import OwnerTerms
from scaler.kit import ActorRef, handles
from scaler.process.files import OpenFiles, SocketFiles
from scaler.process.shell import Shell
from scaler.process.wakeful_clock import WakefulClock
from scaler.scheduler.edge import SchedulerEdge
from scaler.scheduler.scheduler import LOOK_SECONDS, SchedulerProcess
from scaler.settings import ClusterConfig, SchedulerConfig
from scaler.store.host_share import HostShare
from scaler.store.spill_folder import SpillFolder
from scaler.store.store import ValueStore
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, Direction
from scaler.wire.messages.rows import calls_of, row_ids
from scaler.wire.messages.worker import RunTask
from scaler.wire.session.pipe import Pipe
from scaler.wire.session.too_large import NO_LIMIT
from tests.simulation.disk import DiskModel
from tests.simulation.kept import Routine
from tests.simulation.loop import LoopModel
from tests.simulation.network import ListenerModel, Network, TransportModel
from tests.simulation.processors import ModelledProcesses, PoolModel, ProcessorModel, script_of
from tests.simulation.record import SCHEDULER, Record
from tests.simulation.shares import Shares
from tests.simulation.users import User
from tests.simulation.world import Party, ViolationError, World
from tests.support.audit import Audit
from tests.support.inside import Inside
from tests.support.slot_audit import audit_slot

if TYPE_CHECKING:
    from tests.simulation.contact import Contacts

ADDRESS = TransportModel.endpoint.address
GONE_SECONDS = 1.0
"""So long after the end of a session every part of the scheduler knows of it."""


class _Shelled(Party):
    """A process around a shell."""

    shell: Shell

    @property
    def _loop(self) -> LoopModel:
        return cast("LoopModel", self.shell.loop)

    def wake(self, descriptor: int) -> None:
        self._loop.wake(descriptor)


class SchedulerParty(_Shelled):
    """One life of the scheduler."""

    def __init__(
        self,
        world: World,
        network: Network,
        record: Record,
        contacts: Contacts,
        limits: SchedulerConfig,
        is_choppy: bool,
        disk: DiskModel | None,
    ) -> None:
        super().__init__(world, SCHEDULER, SCHEDULER)
        self._disk = disk
        self.is_choppy = is_choppy
        self.failures = 0
        """of its parts, which were made to fail"""
        self.network = network
        self.record = record
        self.contacts = contacts
        self.limits = limits
        self.checks = 0
        self._balancer: object = None
        """the one whose shares are watched"""
        self._owners: dict[int, str] = {}
        """of accounts, also of those whose tasks are left alone"""
        self.soon(self._start)

    def _start(self) -> None:
        limits = self.limits
        clock = WakefulClock(self.world.monotonic, LOOK_SECONDS)
        self.shell = shell = Shell("builtin", clock)
        silence = max(limits.client_timeout_seconds, limits.worker_timeout_seconds)
        listener = TransportModel(self.network, self).listen(silence)
        self.listener = listener
        if self.is_choppy:
            self._be_choppy(shell, listener)
        self.tree = SchedulerTree(
            shell.dispatcher,
            SchedulerId(random_id()),
            "1.2.3",
            limits,
            shell.stop,
            RunOptions.decode,
            Pipe,
            clock.paused_since,
            catalog=None if self._disk is None else self._disk.catalog(self),
        )
        for lacks in () if self._disk is None else self._disk.lacks(self.record):
            raise ViolationError(lacks)
        may_refuse = limits.max_number_of_tasks_waiting >= 0  # as a graph is that is over the quota
        for owner, share in SHARES.items():
            self.tree.directory.owners.of(owner, OwnerTerms(share, tasks=4 if may_refuse and share == 1 else 0))
        self.edge = SchedulerEdge(listener, self.tree)
        self._listen_in()
        self.inside = Inside(self.tree, shell.dispatcher, limits, goes_on=True)
        self.contacts.listen(self, self.tree.directory)
        self.audit = Listener(self)
        self.tree.events.listen(shell.dispatcher.spawn(self.audit), EVERY_TASK if self.is_choppy else None)
        shell._edge = self.edge
        shell.watch(listener.descriptor, listener.expect)
        process = SchedulerProcess.__new__(SchedulerProcess)  # without its own sockets and loop
        process._listener, process._shell, process._suspects = listener, shell, {}
        process._open_files, process._doors = OpenFiles(), SocketFiles([])
        process._config = SchedulerConfig(ADDRESS, value_bytes=2**40)  # whatever memory this machine has
        shell.watch(listener.monitor_descriptor, lambda: process._connections_changed(self.edge))
        process._check_regularly()

    def _be_choppy(self, shell: Shell, listener: ListenerModel) -> None:
        """Wake up late, read and do little at a time, and hear late of the ends of connections."""
        draw = self.world.random.randint
        run, receive = shell.dispatcher.run, listener.receive

        def receive_few() -> Any:
            if draw(0, 3):
                return receive()
            if listener.has_mail():
                self.wake(listener.descriptor)
            return None

        listener.receive = receive_few  # type: ignore[method-assign]
        listener.news_seconds = 0.3
        shell.dispatcher.run = lambda **options: run(draw(1, 20), **options)  # type: ignore[method-assign]
        self._loop.wake_most_seconds = self.world.random.choice((0.0005, 0.05))

    def _listen_in(self) -> None:
        """Note when each run got its number."""
        directory, numbered, world = self.tree.directory, self.record.numbered, self.world
        next_attempt = directory.next_attempt

        def note() -> int:
            attempt = next_attempt()
            numbered[attempt] = world.now
            return attempt

        self.record.told = lambda: {task_id for proxy in self.inside.proxies() for task_id in proxy._runs}
        directory.next_attempt = note
        if self._disk is not None:
            self._note_orders()

    def _note_orders(self) -> None:
        """Note which rows of maps workers are told to run although no program needs them."""
        outbox, record = self.tree.outbox, self.record
        put, put_all = outbox.put, outbox.put_all

        def note(items: list[Any]) -> None:
            for item in items:
                if type(item) is RunTask:
                    was_lost = record.order(item.attempt, row_ids(item.task_id, item.rows))
                    if not was_lost and self._is_for_nobody(item):
                        record.for_nobody.add(item.attempt)

        def put_one(peer: Peer, item: Any) -> None:
            note([item])
            put(peer, item)

        def put_some(peer: Peer, items: list[Any]) -> None:
            note(items)
            put_all(peer, items)

        outbox.put, outbox.put_all = put_one, put_some  # type: ignore[method-assign]

    def _is_for_nobody(self, order: RunTask) -> bool:
        """Return whether an order is for a map of which, as far as the scheduler can know, no program is there."""
        terms = [job._state.terms for job in self.inside.jobs()]
        names = [(each.owner, each.name) for each in terms if order.task_id.startswith(each.prefix)]
        job = self.record.jobs.get(names[0]) if names else None
        if job is None or not job.is_attended:
            return False
        since = self.world.now - GONE_SECONDS
        here = {self.contacts.name_of(peer_id) for _kind, peer_id in self.tree.directory.peers}
        return not any(
            party.is_alive or party.name in here or self.record.gone.get(party.name, -inf) > since
            for party in job.attending
        )

    def after(self) -> None:
        """Check all invariants after each turn: of long runs only after some."""
        balancer = self.inside.actor(BALANCER)
        if balancer is not None and balancer is not self._balancer:
            self._balancer, order = balancer, balancer._policy._queue
            if order._has_turns:
                Shares(order, self._owner_of, SHARES, self.world.complain)
        self.checks += 1
        dispatcher = self.shell.dispatcher
        if dispatcher.failures > self.failures:
            raise ViolationError("an actor of the scheduler failed") from self.audit.error
        if self.checks % self.record.check_each == 0 and not dispatcher.has_mail:
            deadline = dispatcher.next_deadline()
            if deadline is None or deadline > dispatcher.clock():  # else it may be in the midst of long work
                self.inside.check()
                if self.is_choppy:
                    self.audit.check(self.inside)

    def _owner_of(self, account: int) -> str:
        """Return to whom an account belongs, as its program or job has it or had it; empty if nobody had it here."""
        for client, number in self.tree.directory.accounts._accounts.items():
            if number == account:
                program = self.record.clients.get(client)
                of_job = [job._context.owner.name for job in self.inside.jobs() if job._client_id == client]
                self._owners[account] = owner_of(program) if program else "".join(of_job)
        return self._owners.get(account, "")

    def fail(self, draw: float) -> None:
        """Have one of its parts fail."""
        parts = [self.tree.supervisor.children[name] for name in (BALANCER, OBJECT_STORE, ACCEPTOR)]
        parts += [proxy.actor_ref for proxy in self.inside.proxies()]
        part = parts[int(draw * len(parts))]
        self.world.log(f"{part} fails")
        self.failures += 1
        self.record.lose(SCHEDULER)
        part.send(object())
        self.shell.turn()

    def die(self) -> None:
        """As by SIGKILL."""
        if self._disk is not None:
            self._disk.crash()
        super().die()
        self.listener.close()
        self.record.lose(SCHEDULER)


class Listener(Audit):
    """Hears which sessions end, and whether they had to."""

    def __init__(self, party: SchedulerParty) -> None:
        super().__init__()
        self._party = party

    @handles(TaskMoved)
    def _moved(self, moved: TaskMoved) -> None:
        if self._party.is_choppy:  # else it hears of some moves only
            super()._moved(moved)

    @handles(ObjectStored)
    def _stored(self, stored: ObjectStored) -> None:
        of_jobs = [job._client_id for job in self._party.inside.jobs()]
        super()._stored(replace(stored, owner=None) if stored.owner in of_jobs else stored)

    @handles(PeerLeft)
    def _went(self, went: PeerLeft) -> None:
        super()._went(went)
        party = self._party
        name = party.contacts.name_of(went.identity.peer_id)
        party.world.log(f"session of {name} ended: {went.departure} {went.reason}")
        party.record.session_lost(name, went.role != CLIENT)
        party.record.gone[name] = party.world.now
        party.record.values_left(name)
        if went.departure in (CUT, SILENT):
            party.contacts.check_lost(name, went.role == CLIENT)
            party.record.agent_lost(name)


class AgentParty(_Shelled):
    """One agent, with its processors."""

    directions: ClassVar[dict[str, Direction]] = {"up": AGENT_TO_SCHEDULER, "down": SCHEDULER_TO_AGENT}

    def __init__(
        self,
        world: World,
        network: Network,
        record: Record,
        name: str,
        config: ClusterConfig,
        capabilities: str,
        disk: int | None = None,
    ) -> None:
        super().__init__(world, name, name)
        self.capabilities = capabilities
        self._disk = disk
        self.network = network
        self.record = record
        self.config = config
        self.processors: list[ProcessorModel] = []
        self.pool: PoolModel
        self.may_end = False
        self._drains_until = 0.0
        self.soon(self._start)

    def _start(self) -> None:
        self.shell = shell = Shell("builtin")
        self.edge = AgentEdge(shell, TransportModel(self.network, self))
        self.node = Node(shell, self.config, self.config.worker_names, random_id())
        executor, n_workers = cast("Any", ModelledProcesses(self)), len(self.config.worker_names)
        self.store = _store_of(self.name, self._disk)
        self.tree = _tree(shell, self.edge, self.node, executor, self.capabilities, n_workers, self.store)
        self._root = shell.dispatcher.spawn(self.tree)
        if self.world.random.random() < 0.5:
            _move_away(self.values)
        self.record.clients[self.link._connection._agent_id] = self.name
        self.record.orders_of[self.name] = self._orders
        self.record.stores[self.name] = lambda: self.store.ids() if self.is_alive else ()
        self.record.results_of[self.name] = self.values.ids
        shell._edge = self.edge
        self._loop.on_stop = self._stopped
        shell.turn()

    def _actor(self, name: str) -> Any:
        return self.tree.children[name]._actor

    @property
    def link(self) -> AgentLink:
        return cast("AgentLink", self._actor(LINK))

    @property
    def objects(self) -> ObjectCache:
        return cast("ObjectCache", self._actor("objects"))

    @property
    def values(self) -> NodeValues:
        return self.objects._values

    @property
    def slots(self) -> list[Slot]:
        return [self._actor(f"worker-{index}") for index in range(len(self.config.worker_names))]

    def _orders(self) -> list[str]:
        """Return the tasks that run or wait here, or have ended without the scheduler's knowledge."""
        if not self.is_alive:
            return []
        ledger, keys = self.link._ledger, self.record.keys
        ids = [task_id for result in ledger.results() for task_id in row_ids(result.task_id, result.rows)]
        ended = [keys[task_id] for task_id in ids if task_id in keys]
        return [*(script_of(row).key for task in ledger._open.values() for row in calls_of(task)), *ended]

    def _hit_what_may_run(self) -> None:
        """The agent is lost: that counts against what runs, and for each worker against what the scheduler takes for
        that: the oldest order, the oldest of those that do not wait for others, the one that goes first, and what has
        ended without its knowledge.
        """
        running = {processor._script.key for processor in self.processors if processor._script is not None}
        waiting = {processor._script.key for processor in self.processors if processor._script and processor._wait}
        hit = set(self._orders()[sum(task.rows or 1 for task in self.link._ledger._open.values()) :])
        by_worker: dict[int, list[RunTask]] = {}
        for task in self.link._ledger._open.values():
            by_worker.setdefault(task.worker, []).extend(calls_of(task))
        for tasks in by_worker.values():
            others = [task for task in tasks if script_of(task).key not in waiting]
            hit |= {
                script_of(task).key for task in (*tasks[:1], *others[:1], max(tasks, key=lambda task: task.priority))
            }
        for key in hit - running:
            self.record.hit(key)

    def tell(self, ref: ActorRef, message: Any) -> None:
        """Something comes from a processor."""
        self.soon(partial(self._told, ref, message), 0.0001)

    def _told(self, ref: ActorRef, message: Any) -> None:
        ref.send(message)
        self.shell.turn()

    def replace_processor(self, index: int, is_extra: bool) -> None:
        self.pool.add(index, is_extra)
        self.shell.turn()

    def leave(self, drain_seconds: float = 0.0) -> None:
        """As by SIGTERM."""
        self.may_end = True
        self._drains_until = self.world.now + drain_seconds

        def leave() -> None:
            self.tree.children[LINK].send(Leave("SIGTERM", drain_seconds))
            self.shell.turn()

        self.soon(leave)

    def end_clients(self) -> None:
        """Have the clients inside processors leave, which have nothing to do any more: a task of a dead program may go
        on until its session has ended.
        """
        for processor in self.processors:
            if processor.user is not None and processor._script is None:
                processor.soon(processor.user.leave)

    def after(self) -> None:
        if self.shell.dispatcher.failures:
            raise ViolationError(f"an actor of {self.name} failed")
        if self.world.random.random() < 1 / self.record.check_each:
            for slot in self.slots:
                if slot is not None:
                    audit_slot(slot)
            if self.link is not None:  # else it has ended, and its agent is about to
                self.link.check()
            self._check_store()

    def _check_store(self) -> None:
        """What is accounted is what is held."""
        memories = {reference() for reference in self.store._held} - {None}
        held = sum(os.fstat(memory.descriptor).st_blocks * 512 for memory in memories)
        if not -4096 * len(memories) <= self.store.hot_bytes - held <= 4096 * len(memories):
            raise ViolationError(f"{self.name} accounts for {self.store.hot_bytes} bytes in memory, and holds {held}")
        if self.store.cold_bytes < sum(
            value.n_bytes for value in self.store._cold.values()
        ):  # some are not unlinked yet
            raise ViolationError(f"{self.name} accounts for {self.store.cold_bytes} bytes on disk")
        if is_read := self.store._readers.keys() & self.store._cold.keys():
            raise ViolationError(f"{self.name} has {len(is_read)} values on disk that somebody reads")

    def breaks_promise(self, object_id: ObjectId, location: bytes) -> str:
        """Return what is wrong if the scheduler promises readers this value here; with a location, a result."""
        if location and not self.values.is_at(object_id, location):
            return f"{self.name} has no result {object_id.hex()} at the location that the scheduler has"
        return "" if object_id in self.store else f"{self.name} does not have the object {object_id.hex()}"

    def _stopped(self) -> None:
        if not self.may_end:
            raise ViolationError(f"{self.name} ends, and was not told to: exit code {self.shell.exit_code}")
        if self.record.is_orderly and self.world.now < self._drains_until:
            for processor in self.processors:
                if processor._script is not None:
                    raise ViolationError(f"{self.name} ends before its time, with task {processor._script.key}")
        self.shell.dispatcher.end(self._root)
        self.edge.close()
        self._end()

    def end(self, is_silent: bool = False) -> None:
        """The process and its processors are gone; silently, if the machine is."""
        self._hit_what_may_run()
        self._end(is_silent)

    def _end(self, is_silent: bool = False) -> None:
        self.record.lose(self.name)
        self.die()
        self.network.process_ended(self, is_silent)
        for processor in list(self.processors):
            processor.die(is_silent)

    def left(self) -> list[str]:
        """Return what is left here, of which there should be nothing."""
        ledger = self.link._ledger.statistics()
        left = [f"{self.name} has {count} {name} left" for name, count in ledger.items() if count]
        left += [
            f"{self.name} still counts {count} at {each}"
            for each, count in self.link._ledger.tasks_by_worker().items()
            if count
        ]
        objects = self.objects
        if objects._waiting:
            left.append(f"{self.name} waits for {len(objects._waiting)} objects")
        if object_ids := objects._store.ids():
            left.append(f"{self.name} has {len(object_ids)} objects left")
        elif objects._store.hot_bytes or objects._store.cold_bytes:
            where = f"{objects._store.hot_bytes} bytes in memory and {objects._store.cold_bytes} on disk"
            left.append(f"{self.name} has {where} of objects that it has no more")
        if held := self.values.room.held:
            left.append(f"{self.name} has {len(held)} workers that begin nothing, though there is room")
        busy = [slot for slot in self.slots if list(slot._queue) or any(each.tasks() for each in slot._processors)]
        if self.values.ids():
            left.append(f"{self.name} has {len(self.values.ids())} values left")
        return left + [f"{slot.name} has tasks left" for slot in busy]


_disk = tempfile.TemporaryDirectory(prefix="scaler-simulation-")


def _store_of(name: str, disk: int | None) -> ValueStore:
    """Return a store with memory for one large value, and such a disk; without one, every third agent has a disk
    without end, and the others memory without end.
    """
    if disk is None and sum(name.encode()) % 3:
        return ValueStore(HostShare(None), NO_LIMIT)
    folder = None if disk == 0 else SpillFolder(Path(_disk.name), keeps_free=False)
    return ValueStore(HostShare(None), SMALL_MEMORY_BYTES, folder, NO_LIMIT if disk is None else disk)


def _move_away(values: NodeValues) -> None:
    """Have nobody else open the values of an agent, as if it was on another machine."""
    locate = values.locate
    values.locate = lambda object_id: bytes(16) + locate(object_id)[16:]


SMALL_MEMORY_BYTES = 1_500_000
SHARES = {"alice": 1, "bob": 2}
"""Whose programs there are, and what each owner gets while others wait."""


def owner_of(program: str) -> str:
    """Return to whom a program belongs."""
    return list(SHARES)[len(program) + sum(program.encode()) & 1]


class ProgramParty(Party):
    """A program of a user, with a client."""

    def __init__(self, world: World, network: Network, record: Record, name: str, beat: float) -> None:
        super().__init__(world, name, name)
        self.owner = owner_of(name)
        self.network = network
        self.record = record
        self.user: User
        self._beat = beat
        self.routines: list[Routine] = []
        """its threads that wait for jobs"""
        self.soon(self._start)

    def _start(self) -> None:
        self.user = User(self, self.name, ADDRESS, self.record, beat=self._beat)

    def end_routines(self) -> None:
        """Nothing of it goes on."""
        for routine in self.routines:
            routine.end()

    def act(self, action: Callable[[User], Any]) -> None:
        """Have the program do something."""
        self.soon(lambda: action(self.user))

    def wake(self, descriptor: int) -> None:
        self.user.driver.wake()

    def is_readable(self, descriptor: int) -> bool:
        return self.user.driver.is_readable(descriptor)

    def after(self) -> None:
        self.user.look()

    def end(self, is_silent: bool = False) -> None:
        self.record.lose(self.name)
        self.die()
        self.network.process_ended(self, is_silent)
