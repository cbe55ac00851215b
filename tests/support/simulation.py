"""A whole scheduler without a socket, a thread or a sleep: the test double of the wire, and simulated peers.

    SimulatedClient --+                                                  +-- SimulatedClient
    SimulatedAgent ---+--> SimulatedRouter --> SchedulerEdge --> actors   +-- SimulatedAgent
          ^                                         |
          +----------- SimulatedRouter <------------+

The real edge is used, so every message is really encoded and decoded, both ways. Time moves only by `advance`. Nothing
is random: a test decides what happens. Random schedules of real clients and agents: `tests/simulation`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from scaler.actors.monitor import Board
from scaler.actors.tree import SchedulerTree
from scaler.actors.vocabulary.events import EVERY_TASK
from scaler.endpoint import Endpoint
from scaler.ids import (
    NO_ID,
    PREFIX_BYTES,
    AgentId,
    ClientId,
    Connection,
    GraphId,
    ObjectId,
    SchedulerId,
    TaskId,
    content_id,
    split_ids,
)
from scaler.kit import ActorRef, Dispatcher
from scaler.pickling.serialization import OBJECT, argument_block, result_argument
from scaler.scheduler.edge import SchedulerEdge
from scaler.settings import SchedulerConfig
from scaler.transport.interface import PeerGoneError
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.accounts import number_of, owner_of
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientHello,
    ClientShutdownResponse,
    ExplainResponse,
    GoodbyeKind,
    InfoResponse,
    InputResult,
    ObjectDetails,
    OutputLine,
    OutputResponse,
    Task,
    TaskCancel,
    TaskResult,
    WorkerDetails,
)
from scaler.wire.messages.common import (
    FOUND,
    LOST,
    PROFILE,
    PROTOCOL_VERSION,
    RETURNING,
    HelloReply,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectKept,
    ObjectRequest,
    ObjectResponse,
    PartRequest,
    RunState,
    TaskStatus,
)
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.rows import pack, part_of
from scaler.wire.messages.worker import (
    HELD_OWNER,
    HELD_RUN,
    DisconnectRequest,
    DisconnectResponse,
    LeaveRequest,
    ProcessorNews,
    RecallRequest,
    RecallResponse,
    RestartRequest,
    RunBlocked,
    RunCancel,
    RunQuestion,
    RunResult,
    RunStatus,
    RunTask,
    RunUnblocked,
    WatchRequest,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
    WorkersClosed,
)
from scaler.wire.session.dialling import DialledSession
from scaler.wire.session.pipe import Message, Pipe
from tests.support.audit import Audit
from tests.support.configs import scheduler_config
from tests.support.inside import Inside
from tests.support.virtual_clock import VirtualClock

HEARTBEAT_SECONDS = 1.0
MOST_ROUNDS = 5_000
"""The number of rounds of mail at one time after which a scheduler counts as never idle."""

CODE = b"code"
FUNCTION_ID = content_id([CODE])
PACKAGE_VERSION = "1.2.3"


@dataclass(frozen=True)
class Outcome:
    """The result of the run of a task, and its duration."""

    status: TaskStatus = TaskStatus.SUCCESS
    payload: bytes = b"done"
    seconds: float = 0.1
    frames: tuple[bytes, ...] = ()
    location: bytes = b""
    """where the agent keeps the result"""


Execute = Callable[[RunTask], Outcome]


def succeed(_run: RunTask) -> Outcome:
    return Outcome()


class SimulatedRouter:
    """A replacement for the scheduler's socket. Connections that are not in `open_connections` are closed."""

    endpoint = Endpoint.parse("tcp://127.0.0.1:1")

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._incoming: deque[tuple[Connection, bytes, list[memoryview]]] = deque()
        self.outgoing: deque[tuple[Connection, bytes, list[memoryview]]] = deque()
        self.open_connections: set[Connection] = set()
        self.users: dict[Connection, str] = {}
        """connection -> the user who made it, if known"""
        self.log: list[tuple[float, str, Connection, bytes, tuple[bytes, ...]]] = []
        """time, direction of travel, connection, header, frames: every message, in order"""

    def deliver(self, connection: Connection, header: bytes, frames: Iterable[Any]) -> None:
        copies = [memoryview(bytes(frame)) for frame in frames]
        self._note("in", connection, header, copies)
        self._incoming.append((connection, header, copies))

    def expect(self) -> None:
        """Do nothing: `receive` always looks."""

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        return self._incoming.popleft() if self._incoming else None

    def send(self, connection: Connection, header: bytes, frames: Iterable[Any]) -> None:
        if connection not in self.open_connections:
            raise PeerGoneError("no such connection")
        copies = [memoryview(bytes(frame)) for frame in frames]
        self._note("out", connection, header, copies)
        self.outgoing.append((connection, header, copies))

    def user_of(self, connection: Connection) -> str:
        return self.users.get(connection, "")

    def forget(self, connection: Connection) -> None:
        """Do nothing: no connection of a stranger is kept."""

    def look(self, _resident_bytes: int) -> int:
        return 0

    def hang_up(self, connection: Connection) -> None:
        self.open_connections.discard(connection)

    def has_mail(self) -> bool:
        return bool(self._incoming or self.outgoing)

    def _note(self, way: str, connection: Connection, header: bytes, frames: Sequence[memoryview]) -> None:
        self.log.append((self._clock(), way, connection, header, tuple(bytes(frame) for frame in frames)))


class Simulation(Inside):
    """The scheduler, its peers and their time.

    Args:
        audited: check all invariants all the time, which takes long with thousands of tasks.
        board: where a monitor publishes; None: there is no monitor.
    """

    def __init__(
        self,
        limits: SchedulerConfig | None = None,
        audited: bool = True,
        board: Board | None = None,
        value_bytes: Callable[[], int] = int,
    ) -> None:
        self._board = board
        self._value_bytes = value_bytes
        self.clock = VirtualClock(1000.0)
        self.escalations: list[BaseException] = []
        self.shut_downs = 0
        self.goes_on = False
        """whether a blocked task has resumed, which needs no slot"""
        self.dispatcher = Dispatcher(self.clock, on_escalation=self.escalations.append)
        self.limits = limits or scheduler_config()
        self._lives = 0
        self.paused_seconds = 0.0
        """how long the scheduler believes that it was paused"""
        self.tree = self._new_tree()
        self.router = SimulatedRouter(self.clock)
        self.edge = SchedulerEdge(cast("Any", self.router), self.tree)
        self.peers: list[SimulatedPeer] = []
        self._by_connection: dict[Connection, SimulatedPeer] = {}
        self._ids = 0
        self._audited = audited
        self._checked: tuple[Dispatcher, int] | None = None
        """the scheduler at the last check of its invariants, and the number of messages it had handled then"""
        self.run()

    def _new_tree(self) -> SchedulerTree:
        self._lives += 1
        scheduler_id = SchedulerId(b"scheduler" if self._lives == 1 else b"%d. scheduler" % self._lives)
        scheduler_id = SchedulerId(scheduler_id.ljust(16, b"-"))
        options = (self.limits, self._shut_down, RunOptions.decode, Pipe, lambda _since: self.paused_seconds)
        return SchedulerTree(
            self.dispatcher, scheduler_id, PACKAGE_VERSION, *options, self._board, value_bytes=self._value_bytes
        )

    def restart(self) -> None:
        """Kill the scheduler, and start another one. Its peers notice when they reconnect."""
        self.dispatcher = Dispatcher(self.clock, on_escalation=self.escalations.append)
        self.router = SimulatedRouter(self.clock)
        self._by_connection.clear()
        self.tree = self._new_tree()
        self.edge = SchedulerEdge(cast("Any", self.router), self.tree)
        self.run()

    def audit(self) -> Audit:
        """Return an audit that listens to all events from now on."""
        audit = Audit()
        self.tree.events.listen(self.dispatcher.spawn(audit), EVERY_TASK)
        return audit

    # Peers

    def client(self, user: str = "", label: str = "", **options: Any) -> SimulatedClient:
        """Return a connected client. `user` is its owner, and `label` its name for people."""
        client = SimulatedClient(self, ClientId(self.new_id(b"client")), **options)
        client.user, client.label = user, label
        self.peers.append(client)
        client.connect()
        self.run()
        return client

    def nested_client(self, agent: SimulatedAgent, processor: int = 1, comes_back: bool = True) -> SimulatedClient:
        """Return a connected client inside a task of `agent`. `comes_back` says whether it reconnects on request."""
        client = SimulatedClient(self, ClientId(self.new_id(b"client")))
        client.comes_back = comes_back
        client.agent_token, client.processor = agent.agent_token, processor
        self.peers.append(client)
        client.connect()
        self.run()
        return client

    def agent(
        self,
        workers: int = 1,
        execute: Execute = succeed,
        closed: int = 0,
        text_hash: int = 0,
        takes_rows: bool = False,
    ) -> SimulatedAgent:
        agent = SimulatedAgent(self, AgentId(self.new_id(b"node")), workers, execute)
        agent.closed, agent.text_hash, agent.takes_rows = closed, text_hash, takes_rows
        self.peers.append(agent)
        agent.connect()
        self.run()
        return agent

    def new_id(self, name: bytes) -> bytes:
        self._ids += 1
        return name.ljust(8, b"-") + self._ids.to_bytes(8, "big")

    def open_connection(self, peer: SimulatedPeer) -> Connection:
        connection = Connection(self.new_id(b"link"))
        self.router.open_connections.add(connection)
        self._by_connection[connection] = peer
        self.router.users[connection] = peer.user
        return connection

    def close_connection(self, connection: Connection) -> None:
        """Close a connection, as when a socket is closed or a cable is cut: the edge finds out by a probe."""
        self.router.open_connections.discard(connection)
        self._by_connection.pop(connection, None)
        self.edge.probe([connection])

    def _shut_down(self) -> None:
        self.shut_downs += 1

    # Time

    def run(self) -> None:
        """Run everything that can happen now; check all invariants whenever the actors are idle."""
        for _ in range(MOST_ROUNDS):
            self.edge.receive()
            idle = self.dispatcher.run(flush=self.edge.flush)
            if idle and self._audited and not self.escalations and not self._is_due():
                self._check_what_is_new()
            sent = self.edge.flush()
            delivered = self._deliver()
            if idle and not sent and not delivered and not self.router.has_mail() and self.dispatcher.run(0):
                return
        raise AssertionError(f"not idle after {MOST_ROUNDS} rounds: {self.dispatcher.statistics()}")

    def _check_what_is_new(self) -> None:
        """Check all invariants, if any actor has handled a message since the last check."""
        state = self.dispatcher, self.dispatcher.messages_handled
        if state != self._checked:
            self.check()
            self._checked = state

    def _is_due(self) -> bool:
        """Return whether a timer is due now. Then an actor may be in the middle of long work."""
        deadline = self.dispatcher.next_deadline()
        return deadline is not None and deadline <= self.clock()

    def _deliver(self) -> bool:
        outgoing, delivered = self.router.outgoing, False
        while outgoing:
            connection, header, frames = outgoing.popleft()
            peer = self._by_connection.get(connection)
            delivered = True
            if peer is not None:
                peer.receive(connection, header, frames)
        return delivered

    def advance(self, seconds: float) -> None:
        """Advance the time, event by event."""
        end = self.clock() + seconds
        self.run()
        while True:
            due = [peer.next_event() for peer in self.peers]
            timer = self.dispatcher.next_deadline()
            moment = min([time for time in (*due, timer) if time is not None], default=end)
            if moment > end:
                break
            self.clock.advance(max(0.0, moment - self.clock()))
            for peer in list(self.peers):
                peer.on_time(self.clock())
            self.run()
            if moment == end and timer is None and not any(due):
                break
        self.clock.advance(max(0.0, end - self.clock()))
        self.run()

    def fail(self, ref: ActorRef) -> None:
        """Make an actor fail by a message that it does not handle."""
        ref.send(_Nonsense())


class _Nonsense:
    """A message that no actor handles."""


class SimulatedPeer:
    """The common part of both kinds of peer: a connection, a heartbeat, and ways to disappear."""

    incoming: Direction
    outgoing: Direction

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.connection: Connection = Connection(b"")
        self.is_gone = False
        self.is_welcome = False
        self.was_welcome = False
        """whether it had a session before"""
        self.hangs = False
        self.protocol_version = PROTOCOL_VERSION
        self.python_version = "3.11.7"
        self.comes_back = True
        """whether it reconnects on request"""
        self.heard: list[Any] = []
        """every item from the scheduler, in order"""
        self._next_heartbeat = simulation.clock() + HEARTBEAT_SECONDS
        self._unread: list[tuple[Connection, bytes, list[memoryview]]] = []
        self.goes_on = False
        """whether it asks to resume its session on a new connection; else it resubmits everything in a new session"""
        self.user = ""
        self.session = DialledSession(self.incoming, self.outgoing, on_acknowledged=self.on_acknowledged)

    def on_acknowledged(self, items: Sequence[Any]) -> None:
        """Handle the acknowledgement of some items."""

    def said(self, kind: type) -> list[Any]:
        """Return the received items of one kind."""
        return [item for item in self.heard if type(item) is kind]

    def connect(self) -> None:
        if self.connection:
            self._simulation.close_connection(self.connection)
        self.connection = self._simulation.open_connection(self)
        self.is_welcome = False
        if not self.goes_on:
            self.session.spoil()
        self._send(self.session.hello(self.hello()))

    def hello(self) -> Any:
        raise NotImplementedError

    def after_hello(self) -> None:
        """Resend what may have been lost with the old connection."""

    def say(self, *items: Any) -> None:
        """Send items. Before its hello is accepted, they wait if the session may resume; else they are lost."""
        if self.is_welcome or self.goes_on:
            self.session.pipe.put_all(items)
            self._flush()

    def say_alone(self, *items: Any) -> None:
        """Send items outside of the count of acknowledgements, if its hello was accepted; else they are lost."""
        if self.is_welcome:
            self._send(self.session.pipe.unnumbered(items))

    def _flush(self) -> None:
        pipe = self.session.pipe
        if self.is_welcome:
            self._send(*pipe.take())
            if pipe.is_acknowledgement_due:
                self._send(pipe.unnumbered(()))

    def _send(self, *messages: Message) -> None:
        if self.connection in self._simulation.router.open_connections:
            for header, frames in messages:
                self._simulation.router.deliver(self.connection, header, frames)

    def cut(self) -> None:
        """Lose the connection, and do not reconnect."""
        self._simulation.close_connection(self.connection)

    def die(self) -> None:
        """Disappear, as after SIGKILL."""
        self.is_gone = True
        self.cut()

    def hang(self) -> None:
        """Stop reading, writing and sending heartbeats, but keep the connection."""
        self.hangs = True

    def wake(self) -> None:
        self.hangs = False
        unread, self._unread = self._unread, []
        for connection, header, frames in unread:
            self.receive(connection, header, frames)
        self._beat()

    def receive(self, connection: Connection, header: bytes, frames: list[memoryview]) -> None:
        if self.is_gone or connection != self.connection:
            return
        if self.hangs:
            self._unread.append((connection, header, frames))
            return
        for batch in self.session.pipe.receive(header, frames):
            for item in batch:
                self.heard.append(item)
                self.on_item(item)
        self._flush()

    def on_item(self, item: Any) -> None:
        if type(item) is HelloReply and item.accepted:
            self.is_welcome = self.was_welcome = True
            if self.session.may_resume(item.resumed):
                self._send(*self.session.pipe.resume(item.heard))
            else:
                self.session.begin()
                self.after_hello()
        elif type(item) is HelloRequest and self.comes_back:
            self.connect()

    def next_event(self) -> float | None:
        return None if self.is_gone or self.hangs else self._next_heartbeat

    def on_time(self, now: float) -> None:
        if not (self.is_gone or self.hangs) and now >= self._next_heartbeat:
            self._beat()

    def _beat(self) -> None:
        now = self._simulation.clock()
        self._next_heartbeat = now + HEARTBEAT_SECONDS
        self.say_alone(self.heartbeat(int(now * 1e9)))

    def heartbeat(self, sent_ns: int) -> Any:
        raise NotImplementedError


_NEWS = (
    HelloReply,
    HelloRequest,
    ClientHeartbeatEcho,
    ClientShutdownResponse,
    InfoResponse,
    ObjectDetails,
    WorkerDetails,
    ExplainResponse,
    OutputLine,
    OutputResponse,
)


class SimulatedClient(SimulatedPeer):
    """A client that resubmits its open tasks whenever it sends a new hello, as the protocol requires."""

    incoming, outgoing = SCHEDULER_TO_CLIENT, CLIENT_TO_SCHEDULER

    def __init__(self, simulation: Simulation, client_id: ClientId, code: bytes = CODE) -> None:
        super().__init__(simulation)
        self.client_id = client_id
        self.agent_token, self.processor = NO_ID, 0
        """the token of its agent, and the number of its processor, if it is inside a task"""
        self.function_id = content_id([code])
        self.label = ""
        self.name, self.options = "", b""
        """name and options of the tasks that it submits"""
        self.numbers_tasks = False
        """whether the tasks of its graphs have ids as real clients make them: part of the graph's id, and a position"""
        self.objects: dict[ObjectId, tuple[str, list[bytes]]] = {self.function_id: ("function", [code])}
        self._for_task: dict[TaskId, list[ObjectInstruction]] = {}
        self.submitted: list[TaskId] = []
        self.open: dict[TaskId, Task] = {}
        """tasks without a result"""
        self.graphs: dict[GraphId, list[Task]] = {}
        self.calls: dict[TaskId, Task] = {}
        """every submitted task, as it is sent when its lost result is needed again: in no graph"""
        self.gone: set[TaskId] = set()
        """tasks whose large results were lost"""
        self.to_cancel: set[TaskId] = set()
        self.results: dict[TaskId, TaskResult] = {}
        self.surplus: list[TaskResult] = []
        """results of tasks that were not open: empty, unless the connection was cut"""
        self.fetched: dict[ObjectId, bytes | None] = {}
        self.lost: list[ObjectId] = []
        """results that were reported as lost"""

    def hello(self) -> ClientHello:
        own = (self.protocol_version, "9.9.9", self.python_version, "3.1.1", self.client_id)
        again = (RETURNING * self.was_welcome, 0, self._account())
        return ClientHello(*own, self.agent_token, self.processor, *again, label=self.label)

    def _account(self) -> int:
        """Return the number of its account, as the last scheduler has reported it."""
        replies = self.said(HelloReply)
        return replies[-1].account if replies else 0

    def after_hello(self) -> None:
        self.say(*(self._create(object_id) for object_id in self.objects))
        graphs = dict.fromkeys(task.graph_id for task in self.open.values() if task.graph_tasks)
        of_graphs = {task.task_id for graph_id in graphs for task in self.graphs[graph_id]}
        for task_id, task in self.open.items():
            if task_id not in of_graphs:  # else the graph makes the lost result again
                self.say(*self._for_task.get(task_id, ()))
                self._say_task(task)
        for graph_id in graphs:
            self._say_graph(graph_id)
        self._say_cancels(task_id for task_id in self.open if task_id in self.to_cancel)

    def _say_task(self, task: Task) -> None:
        """Send a task, and what the client knows of the results that it needs."""
        known = [self._known(TaskId(each)) for each in split_ids(task.inputs)]
        self.say(task, *(each for each in known if each is not None))

    def _known(self, task_id: TaskId) -> InputResult | None:
        result = None if task_id in self.gone else self.results.get(task_id)
        return None if result is None else InputResult(task_id, result.status, result.payload, result.size)

    def _say_graph(self, graph_id: GraphId) -> None:
        tasks = self.graphs[graph_id]
        for task in tasks:
            self.say(*self._for_task.get(task.task_id, ()))
        self.say(*(replace(task, unwanted=int(task.unwanted or task.task_id not in self.open)) for task in tasks))

    def submit_with_results(self, *inputs: TaskId) -> TaskId:
        """Submit a task whose arguments are the results of other tasks."""
        task_id = TaskId(self._simulation.new_id(b"needy"))
        block = b"".join(map(result_argument, range(len(inputs))))
        what = task_id, self.function_id, block, b"", 0, self.name, self.options
        self.open[task_id] = self.calls[task_id] = Task(*what, inputs=b"".join(inputs))
        self.submitted.append(task_id)
        self._say_task(self.open[task_id])
        return task_id

    def _supply(self, task_id: TaskId) -> None:
        """Send a result that the scheduler has requested, or the call that makes it again."""
        known, call = self._known(task_id), self.calls.get(task_id)
        if known is not None:
            self.say(known)
        elif call is None:
            self.say(InputResult(task_id, TaskStatus.NOT_FOUND, b"its client does not know it"))
        elif task_id not in self.open:
            if not call.unwanted:
                self.open[task_id] = call
            self._say_task(call)

    def _create(self, object_id: ObjectId) -> ObjectInstruction:
        name, frames = self.objects[object_id]
        kind = InstructionKind.CREATE_FUNCTION if object_id == self.function_id else InstructionKind.CREATE
        return ObjectInstruction(kind, object_id, name, frames)

    def submit(
        self,
        count: int = 1,
        payload: bytes = b"arguments",
        uses: Iterable[ObjectId] = (),
        for_task: bytes = b"",
        priority: int = 0,
        account: int = 0,
    ) -> list[TaskId]:
        """Submit tasks in one batch.

        Args:
            uses: objects among the arguments.
            for_task: content of one more object for each task; empty: no such object.
            account: the account that they count for, as a client inside a task names it.
        """
        batch: list[Any] = []
        task_ids = []
        for _ in range(count):
            task_id = TaskId(self._simulation.new_id(b"task"))
            object_ids = list(uses)
            if for_task:
                object_ids.append(ObjectId(self._simulation.new_id(b"object")))
                brought = ObjectInstruction(InstructionKind.CREATE_FOR_TASK, object_ids[-1], "", [for_task])
                self._for_task[task_id] = [brought]
                batch.append(brought)
            self.open[task_id] = Task(
                task_id,
                self.function_id,
                payload,
                b"".join(object_ids),
                priority,
                self.name,
                self.options,
                number_of(account),
                owner=owner_of(account),
            )
            self.calls[task_id] = self.open[task_id]
            batch.append(self.open[task_id])
            task_ids.append(task_id)
        self.submitted += task_ids
        self.say(*batch)
        return task_ids

    def submit_graph(
        self, shape: Sequence[Sequence[int]], wanted: Iterable[int], for_task: bytes = b"", account: int = 0
    ) -> GraphId:
        """Submit a graph.

        Args:
            shape: for each node the positions of its dependencies, whose results are its arguments.
            wanted: positions of the nodes whose results are requested.
            for_task: content of an object of the graph that all its nodes use; empty: no such object.
        """
        graph_id = GraphId(self._simulation.new_id(b"graph")[::-1])
        object_id = ObjectId(self._simulation.new_id(b"object") if for_task else b"")
        tasks = self.graphs[graph_id] = []
        wanted = set(wanted)
        for position, dependencies in enumerate(shape):
            number = graph_id[:PREFIX_BYTES] + position.to_bytes(8, "big")
            task_id = TaskId(number if self.numbers_tasks else self._simulation.new_id(b"node"))
            block = b"".join(map(result_argument, range(len(dependencies))))
            block += object_id and argument_block(OBJECT, object_id)
            packed = b"".join(each.to_bytes(4, "little") for each in dependencies)
            what = task_id, self.function_id, block, object_id, 0, self.name, self.options
            terms = number_of(account), (), 0, owner_of(account)
            unwanted = int(position not in wanted)
            inputs = b"".join(tasks[each].task_id for each in dependencies)
            self.calls[task_id] = Task(*what, *terms, inputs=inputs, unwanted=unwanted)
            tasks.append(Task(*what, *terms, graph_id, len(shape), packed, unwanted=unwanted))
            if not unwanted:
                self.open[task_id] = tasks[-1]
                self.submitted.append(task_id)
        if for_task:
            brought = ObjectInstruction(InstructionKind.CREATE_FOR_TASK, object_id, "", [for_task])
            self._for_task[tasks[0].task_id] = [brought]
        self._say_graph(graph_id)
        return graph_id

    def cancel(self, *task_ids: TaskId) -> None:
        for task_id in task_ids:
            task = self.open.get(task_id)
            self.to_cancel.add(task_id)
            if task is not None and task.graph_tasks:
                self.to_cancel.update(each.task_id for each in self.graphs[task.graph_id])
        self._say_cancels(task_ids)

    def _say_cancels(self, task_ids: Iterable[TaskId]) -> None:
        tasks = [(task_id, self.open.get(task_id)) for task_id in task_ids]
        self.say(*(TaskCancel(task_id) for task_id, task in tasks if task is None or not task.graph_tasks))
        graphs = {task.graph_id: task_id for task_id, task in tasks if task is not None and task.graph_tasks}
        self.say(*(TaskCancel(task_id, graph_id=graph_id) for graph_id, task_id in graphs.items()))

    def create(self, content: bytes, name: str = "") -> ObjectId:
        object_id = ObjectId(self._simulation.new_id(b"object"))
        self.objects[object_id] = (name, [content])
        self.say(self._create(object_id))
        return object_id

    def delete(self, object_id: ObjectId) -> None:
        self.objects.pop(object_id, None)
        self.say(ObjectInstruction(InstructionKind.DELETE, object_id, "", ()))

    def fetch(self, object_id: ObjectId) -> None:
        self.say(ObjectRequest(object_id))

    def leave(self, kind: GoodbyeKind = GoodbyeKind.DISCONNECT) -> None:
        self.say(ClientDisconnect(kind))
        if kind is GoodbyeKind.DISCONNECT:
            self.is_gone = True
            self.open = {}

    def die(self) -> None:
        super().die()
        self.open = {}

    def on_item(self, item: Any) -> None:
        kind = type(item)
        if kind is TaskResult:
            if self.open.pop(item.task_id, None) is None:
                self.surplus.append(item)
            else:
                self.results[item.task_id] = item
                self.gone.discard(item.task_id)
        elif kind is ObjectRequest:
            self._supply(TaskId(item.object_id))
        elif kind is ObjectResponse:
            if item.found == LOST:
                self.lost.append(item.object_id)
                self.gone.add(TaskId(item.object_id))
            self.fetched[item.object_id] = b"".join(map(bytes, item.frames)) if item.found == FOUND else None
        else:
            assert kind in _NEWS, item
            super().on_item(item)

    def heartbeat(self, sent_ns: int) -> ClientHeartbeat:
        return ClientHeartbeat(sent_ns)

    def statuses(self, task_ids: Iterable[TaskId] | None = None) -> list[TaskStatus | None]:
        """Return the statuses of tasks, by default of all submitted ones; None for an open one."""
        results = map(self.results.get, self.submitted if task_ids is None else task_ids)
        return [TaskStatus(result.status) if result else None for result in results]


@dataclass
class _Slot:
    """One worker of a simulated agent: the first of `queue` runs, until `ends`."""

    queue: deque[RunTask] = field(default_factory=deque)
    outcome: Outcome | None = None
    ends: float = 0.0


class SimulatedAgent(SimulatedPeer):
    """An agent that runs tasks by a function, one per worker at a time, and keeps results until acknowledged."""

    incoming, outgoing = SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER

    def __init__(self, simulation: Simulation, agent_id: AgentId, workers: int, execute: Execute) -> None:
        super().__init__(simulation)
        self.agent_id = agent_id
        self.agent_token = b"tok-" + agent_id[4:]
        self.watched: list[WatchRequest] = []
        self.restarts = self.leave_requests = 0
        """the numbers of received requests to restart and to leave"""
        self.agents = 0
        """the number of agents that the scheduler has reported last"""
        self.execute = execute
        self.slots = [_Slot() for _ in range(workers)]
        self.closed = 0
        """how many of its workers, counted from the last one, take no tasks"""
        self.text_hash = 0
        self.takes_rows = False
        self.started: list[RunTask] = []
        self.kept: set[ObjectId] = set()
        """objects of which it has a copy"""
        self.given_back: list[RunTask] = []
        self.suspended: dict[TaskId, RunTask] = {}
        self.forgotten: list[ObjectId] = []
        self.wanted: list[ObjectId] = []
        """results that the scheduler has requested"""
        self.parts_wanted: list[PartRequest] = []
        self.dropped: list[tuple[ObjectId, bytes]] = []
        """deleted results of its own, and their locations"""
        self._kept: list[RunResult] = []
        self.owners: defaultdict[TaskId, int] = defaultdict(int)
        """the tags of the owners of the tasks that it has had"""

    @property
    def queued(self) -> list[TaskId]:
        """The tasks that the agent has, including running ones, worker by worker."""
        return [run.task_id for slot in self.slots for run in slot.queue]

    def hello(self) -> WorkerHello:
        names = ",".join(f"{self.agent_id[-1]}-{index}" for index in range(len(self.slots)))
        own = (self.protocol_version, "9.9.9", self.python_version, "3.1.1", self.agent_id, names, self._held())
        about = (self.agent_token, RETURNING * self.was_welcome)
        about_workers = {"capabilities": "gpu=2", "closed": self.closed, "text_hash": self.text_hash}
        about_workers["takes_rows"] = int(self.takes_rows)
        owners = b"".join(HELD_OWNER.pack(self.owners[run.task_id]) for run in self._runs_held())
        return WorkerHello(*own, *about, agents=self.agents, held_owners=owners, **about_workers)

    def close_workers(self, closed: int) -> None:
        """Let the last `closed` workers take no more tasks."""
        self.closed = closed
        self.say(WorkersClosed(closed))

    def _held(self) -> bytes:
        return b"".join(HELD_RUN.pack(held.task_id, held.attempt, held.worker, held.rows) for held in self._runs_held())

    def _runs_held(self) -> list[RunTask | RunResult]:
        return [*(run for slot in self.slots for run in slot.queue), *self.suspended.values(), *self._kept]

    def after_hello(self) -> None:
        waiting = [RunBlocked(run.task_id, run.worker, run.attempt) for run in self.suspended.values()]
        self.say(*self._kept, *map(ObjectKept, sorted(self.kept)), *waiting)

    def on_item(self, item: Any) -> None:
        kind = type(item)
        simple: dict[type, Callable[[Any], None]] = {
            RunTask: self._order,
            RunCancel: self._cancel,
            RunQuestion: self._say_where,
            RecallRequest: self._give_back,
            ObjectInstruction: self._instruct,
        }
        if kind in simple:
            simple[kind](item)
        elif kind is ObjectResponse:
            if item.found:
                self.kept.add(item.object_id)
        elif kind is DisconnectResponse:
            self.is_gone = True
            self.cut()
        elif kind is ObjectRequest:
            self.wanted.append(item.object_id)
        elif kind is PartRequest:
            self.parts_wanted.append(item)
        elif kind is WorkerHeartbeatEcho:
            self.agents = item.agents
        elif kind is WatchRequest:
            self.watched.append(item)
        else:
            self.restarts += kind is RestartRequest
            self.leave_requests += kind is LeaveRequest
            assert kind in (HelloReply, HelloRequest, LeaveRequest, ProcessorNews, RestartRequest), item
            super().on_item(item)

    def _say_where(self, question: RunQuestion) -> None:
        if self.hangs:
            return
        slot = self.slots[question.worker]
        run_ms = int((slot.outcome.seconds + self._simulation.clock() - slot.ends) * 1000) if slot.outcome else 0
        is_first = bool(slot.queue) and slot.queue[0].task_id == question.task_id
        if question.task_id in self.suspended:
            state, run_ms = RunState.WAITS, 0
        else:
            state = RunState.RUNS if is_first else RunState.QUEUED
        pid = 4711 if is_first else 0
        answer = RunStatus(question.task_id, question.worker, question.attempt, state, run_ms, pid)
        self.say_alone(answer)

    def _instruct(self, item: ObjectInstruction) -> None:
        if item.kind == InstructionKind.KEEP_RESULT:
            self._keep_result(item.object_id)
        else:
            assert item.kind == InstructionKind.DELETE
            if item.location:
                self.dropped.append((item.object_id, item.location))
                return
            self.kept.discard(item.object_id)
            self.forgotten.append(item.object_id)

    def on_acknowledged(self, items: Sequence[Any]) -> None:
        heard = {id(item) for item in items}
        self._kept = [result for result in self._kept if id(result) not in heard]

    def _keep_result(self, object_id: ObjectId) -> None:
        if any(result.task_id == object_id and result.frames for result in self._kept):
            self.kept.add(object_id)
            self.say(ObjectKept(object_id))

    def _order(self, run: RunTask) -> None:
        self.owners[run.task_id] = run.owner
        queue = self.slots[run.worker].queue
        if not any((known.task_id, known.attempt) == (run.task_id, run.attempt) for known in queue):
            is_alone = {waiting.account for waiting in queue} <= {run.account}  # else first come, first served
            behind = (n for n, each in enumerate(queue) if n > 0 and each.priority < run.priority and is_alone)
            queue.insert(next(behind, len(queue)), run)
            self._start_next(run.worker)

    def end_early(self, task_id: TaskId, n_done: int) -> None:
        """End the range that runs early: some of its rows are done, and the next one runs."""
        for slot in self.slots:
            if slot.queue and slot.queue[0].task_id == task_id:
                run = slot.queue[0]
                slot.queue[0] = part_of(run, n_done, 1)
                payload, what = pack([b"done"] * n_done), (run.task_id, run.worker, run.attempt, TaskStatus.SUCCESS)
                self._kept.append(RunResult(*what, payload, 0, (), rows=n_done, running=n_done + 1))
                self.say(self._kept[-1])

    def suspend(self, task_id: TaskId) -> None:
        """Let the running task wait for other tasks; the next one runs meanwhile."""
        for worker, slot in enumerate(self.slots):
            if slot.queue and slot.queue[0].task_id == task_id:
                run = slot.queue.popleft()
                slot.outcome = None
                self.suspended[task_id] = run
                self.say(RunBlocked(run.task_id, worker, run.attempt))
                self._start_next(worker)

    def resume(self, task_id: TaskId) -> None:
        """Let a blocked task resume. It ends at once."""
        run = self.suspended.pop(task_id)
        self._simulation.goes_on = True
        self.say(RunUnblocked(run.task_id, run.worker, run.attempt))
        self._finish(run, self.execute(run), seconds=0.0)

    def _cancel(self, cancel: RunCancel) -> None:
        waiting = self.suspended.pop(cancel.task_id, None)
        if waiting is not None:
            self._finish(waiting, Outcome(TaskStatus.CANCELED, b""), seconds=0.0)
            return
        slot = self.slots[cancel.worker]
        for position, run in enumerate(slot.queue):
            if (run.task_id, run.attempt) == (cancel.task_id, cancel.attempt):
                del slot.queue[position]
                if position == 0:
                    slot.outcome = None
                self._finish(run, Outcome(TaskStatus.CANCELED, b""), seconds=0.0)
                self._start_next(cancel.worker)
                return
        wanted = (cancel.task_id, cancel.worker, cancel.attempt)
        if not any((kept.task_id, kept.worker, kept.attempt) == wanted for kept in self._kept):
            unknown = RunTask(cancel.task_id, cancel.worker, cancel.attempt, ObjectId(NO_ID), b"", b"")
            self._finish(unknown, Outcome(TaskStatus.NOT_FOUND, b""), seconds=0.0)

    def _give_back(self, request: RecallRequest) -> None:
        queue = self.slots[request.worker].queue
        for position, run in enumerate(queue):
            if position > 0 and (run.task_id, run.attempt) == (request.task_id, request.attempt):
                del queue[position]
                self.given_back.append(run)
                self.say(RecallResponse(run.task_id, run.worker, run.attempt))
                return

    def _start_next(self, worker: int) -> None:
        slot = self.slots[worker]
        if slot.queue and slot.outcome is None:
            run = slot.queue[0]
            self.started.append(run)
            for object_id in [run.function_id, *map(ObjectId, split_ids(run.object_ids))]:
                if object_id not in self.kept:
                    self.fetch(object_id)
            slot.outcome = self.execute(run)
            slot.ends = self._simulation.clock() + slot.outcome.seconds

    def _finish(self, run: RunTask, outcome: Outcome, seconds: float) -> None:
        duration_us = min(int(seconds * 1e6), 2**32 - 1)
        profile = PROFILE.pack(duration_us, 0, 0) if RunOptions.decode(run.options).profiling else b""
        result = RunResult(
            run.task_id, run.worker, run.attempt, outcome.status, outcome.payload, duration_us, outcome.frames, profile
        )
        result = replace(result, location=outcome.location)
        self._kept.append(result)
        self.say(result)

    def next_event(self) -> float | None:
        if self.is_gone or self.hangs:
            return None
        return min([self._next_heartbeat, *(slot.ends for slot in self.slots if slot.outcome is not None)])

    def on_time(self, now: float) -> None:
        super().on_time(now)
        if self.is_gone or self.hangs:
            return
        for worker, slot in enumerate(self.slots):
            outcome = slot.outcome
            if outcome is not None and now >= slot.ends:
                slot.outcome = None
                self._finish(slot.queue.popleft(), outcome, outcome.seconds)
                self._start_next(worker)

    def fetch(self, object_id: ObjectId) -> None:
        self.say(ObjectRequest(object_id))

    def leave(self) -> None:
        """End in order; the agent disappears when the scheduler replies."""
        self.say(DisconnectRequest("it was asked to end"))

    def heartbeat(self, sent_ns: int) -> WorkerHeartbeat:
        return WorkerHeartbeat(sent_ns)
