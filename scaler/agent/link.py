"""Link: what the agent and the scheduler have to say to each other, whatever becomes of the connection.

The edge writes to it what arrives (batches, `LinkCut`), workers their results, the object cache what it needs. It sends
tasks and cancels to the workers, objects to the cache, and everything for the scheduler to the edge.

    GREETING --welcome--> UP --cut, silence, "say hello"--> AWAY --back-off--> GREETING
                           +--leave (after the tasks, if it drains)--> LEAVING --response, time-out--> end

Nothing but the hello is said before the welcome. Results are kept until they are acknowledged, and said first on a new
connection. While the scheduler is away the tasks go on.

Must never: forget a result, or decode a payload.
"""

from __future__ import annotations

import logging
import platform
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

import cloudpickle

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.agent.absence import Absence
from scaler.agent.ledger import Ledger
from scaler.agent.messages import (
    ExecutorProcessGone,
    FetchObject,
    ForgetEverything,
    KeepObject,
    Leave,
    LinkCut,
    ObjectsHere,
    RunsNotHere,
    SayStatistics,
    SayWhatIsKept,
)
from scaler.ids import NO_ID, ObjectId, random_id
from scaler.message import message
from scaler.settings import ClusterConfig
from scaler.version import __version__
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    HelloReply,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectKept,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    DrainRequest,
    ProcessorGone,
    ProcessorNews,
    RecallRequest,
    RecallResponse,
    ResultsReceived,
    RunBlocked,
    RunCancel,
    RunResult,
    RunTask,
    RunUnblocked,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
)

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 5.0
"""A scheduler that said nothing for so long, and for three heartbeats, is taken for dead."""
PROCESSORS_REMEMBERED = 1024
"""The scheduler may have missed the end of so many processors with a lost connection."""
BACK_OFF_SECONDS = 0.05
BACK_OFF_MOST_SECONDS = 2.0
GOODBYE_SECONDS = 1.0
DRAIN_LOOK_SECONDS = 0.1


class Door(Protocol):
    """The way out: the edge, or a test's stand-in."""

    def connect(self, link: ActorRef) -> None:
        """Open a new connection, with an identity that was never used; what arrives goes to `link`."""

    def hang_up(self) -> None:
        """Close the connection; what was not sent yet is dropped."""

    def say(self, items: Sequence[Any]) -> None:
        """Send items with the next flush."""


class _State(Enum):
    GREETING = "greeting"
    UP = "up"
    AWAY = "away"
    LEAVING = "leaving"


@message
class _HeartbeatDue:
    pass


@message
class _ConnectDue:
    pass


@message
class _AbsenceDue:
    absence: Absence


@message
class _DrainLook:
    reason: str
    ends_at: float


@message
class _GoodbyeDue:
    pass


class Link(Actor):
    """The agent's side of the protocol.

    Args:
        end: called once with the exit code when the agent shall end.
    """

    def __init__(
        self,
        door: Door,
        *,
        config: ClusterConfig,
        names: tuple[str, ...],
        workers: tuple[ActorRef, ...],
        objects: ActorRef,
        agent_token: bytes,
        end: Callable[[int], None],
    ) -> None:
        self._door = door
        self._config = config
        self._names = names
        self._workers = workers
        self._objects = objects
        self._end = end
        self._agent_id = random_id()
        self._agent_token = agent_token
        self._ledger = Ledger()
        self._gone: deque[ProcessorGone] = deque(maxlen=PROCESSORS_REMEMBERED)
        self._scheduler_id = NO_ID
        self._state = _State.AWAY
        self._heard_at = 0.0
        self._connects = 0
        self._absence: Absence | None = None
        self._drain: DrainRequest | None = None
        self._fetched: dict[ObjectId, bool] = {}
        """objects that were asked for, and whether their location was no use"""
        self.ignored = 0
        """messages that made no sense at their time"""

    def on_start(self) -> None:
        self._start_absence()
        self._connect()
        self.schedule(self._config.heartbeat_interval_seconds, _HeartbeatDue())

    # The connection

    def _connect(self) -> None:
        self._state = _State.GREETING
        self._heard_at = self.now()
        self._door.connect(self.actor_ref)
        self._door.say([self._hello()])

    def _hello(self) -> WorkerHello:
        return WorkerHello(
            PROTOCOL_VERSION,
            __version__,
            platform.python_version(),
            cloudpickle.__version__,
            self._agent_id,
            ",".join(self._names),
            self._ledger.held(),
            self._agent_token,
        )

    def _lose(self, reason: str) -> None:
        if self._state is _State.LEAVING:
            self._end(0)
            return
        if self._state is _State.AWAY:
            return
        level = logging.WARNING if self._state is _State.UP else logging.DEBUG
        logger.log(level, "link to %s down: %s", self._config.address, reason)
        self._start_absence()
        self._state = _State.AWAY
        self._door.hang_up()
        delay_seconds = BACK_OFF_SECONDS * (2 ** min(self._connects, 16) - 1)
        self._connects += 1
        self.schedule(min(delay_seconds, BACK_OFF_MOST_SECONDS), _ConnectDue())

    def _start_absence(self) -> None:
        if self._absence is None:
            config = self._config
            self._absence = Absence(config.address, config.death_timeout_seconds, self.now())
            self._look_again_at(self._absence)

    def _look_again_at(self, absence: Absence) -> None:
        self.schedule(absence.next_seconds(self.now()), _AbsenceDue(absence))

    @handles(_ConnectDue)
    def _connect_due(self, _due: _ConnectDue) -> None:
        if self._state is _State.AWAY:
            self._connect()

    @handles(_AbsenceDue)
    def _absence_due(self, due: _AbsenceDue) -> None:
        if due.absence is not self._absence:
            return  # it is over
        if due.absence.look(self.now()):
            self._end(0)
        else:
            self._look_again_at(due.absence)

    @handles(LinkCut)
    def _cut(self, cut: LinkCut) -> None:
        self._lose(cut.reason)

    @handles(Batch[HelloRequest])
    def _hello_requested(self, requests: Batch[HelloRequest]) -> None:
        self._lose(f"the scheduler asks for a hello: {requests[0].reason}")

    @handles(Batch[HelloReply])
    def _hello_answered(self, replies: Batch[HelloReply]) -> None:
        reply = replies[0]
        if self._state is not _State.GREETING:
            self.ignored += 1
        elif not reply.accepted:
            logger.error("the scheduler at %s refused this cluster: %s", self._config.address, reply.reason)
            self._end(1)
        else:
            self._welcome(reply.scheduler_id, reply.package_version)

    def _welcome(self, scheduler_id: bytes, version: str) -> None:
        logger.info("link to %s up: scheduler %s", self._config.address, version)
        self._absence = None
        self._state = _State.UP
        self._heard_at = self.now()
        if scheduler_id != self._scheduler_id:
            if self._scheduler_id != NO_ID:
                self._objects.send(ForgetEverything())
                self._drop_tasks()
            self._scheduler_id = scheduler_id
        else:  # what it wanted deleted meanwhile was lost with the connection
            self._objects.send(SayWhatIsKept())
        self._door.say(self._ledger.results())
        self._door.say([ObjectRequest(object_id, by_value) for object_id, by_value in self._fetched.items()])
        self._door.say([*self._gone, *self._ledger.waiting()])
        if self._drain is not None:
            self._door.say([self._drain])

    @handles(_HeartbeatDue)
    def _heartbeat_due(self, _due: _HeartbeatDue) -> None:
        interval_seconds = self._config.heartbeat_interval_seconds
        self.schedule(interval_seconds, _HeartbeatDue())
        if self._state is _State.AWAY:
            return
        if self.now() - self._heard_at > max(SILENCE_SECONDS, 3 * interval_seconds):
            self._lose("the scheduler is silent")
        elif self._state is not _State.GREETING:
            self._connects = 0
            self._door.say([WorkerHeartbeat(int(self.now() * 1e9))])

    @handles(Batch[WorkerHeartbeatEcho])
    def _echo(self, _echos: Batch[WorkerHeartbeatEcho]) -> None:
        self._is_up()

    def _is_up(self) -> bool:
        """Return whether the scheduler may say what it just said, and note that it is there."""
        self._heard_at = self.now()
        if self._state is _State.UP:
            return True
        self.ignored += 1
        return False

    def _say(self, items: Sequence[Any]) -> None:
        """Say what the next connection begins with anyway, if there is one now."""
        if self._state is _State.UP:
            self._door.say(items)

    # What it does now

    @handles(SayStatistics)
    def _say_statistics(self, say: SayStatistics) -> None:
        say.report.add("link", self._state.value, self._ledger.statistics())
        tasks = self._ledger.tasks_by_worker()
        for worker, name in enumerate(self._names):
            say.report.add("worker", name, {"tasks": tasks[worker]})

    # The end

    @handles(Leave)
    def _leave(self, leave: Leave) -> None:
        if self._state is not _State.UP:
            self._end(0)
        elif leave.drain_seconds:
            self._drain = DrainRequest(leave.reason)
            self._door.say([self._drain])
            self._look_at_drain(_DrainLook(leave.reason, self.now() + leave.drain_seconds))
        else:
            self._say_goodbye(leave.reason)

    @handles(_DrainLook)
    def _look_at_drain(self, look: _DrainLook) -> None:
        """Leave when the last task has ended. Until then give back what waits, also what has come meanwhile."""
        left_seconds = look.ends_at - self.now()
        if self._state is _State.UP and (left_seconds <= 0 or not self._ledger.has_tasks):
            self._say_goodbye(look.reason)
        elif left_seconds <= 0:
            self._end(0)
        else:
            for worker, wishes in self._ledger.not_blocked().items():
                self._workers[worker].send(wishes)
            self.schedule(min(left_seconds, DRAIN_LOOK_SECONDS), look)

    def _say_goodbye(self, reason: str) -> None:
        self._state = _State.LEAVING
        self._door.say([DisconnectRequest(reason)])
        self.schedule(GOODBYE_SECONDS, _GoodbyeDue())

    @handles(_GoodbyeDue)
    def _goodbye_due(self, _due: _GoodbyeDue) -> None:
        self._end(0)

    @handles(Batch[DisconnectResponse])
    def _disconnected(self, responses: Batch[DisconnectResponse]) -> None:
        logger.info("the scheduler disconnects this cluster: %s", responses[0].reason)
        self._end(0)

    # Tasks

    @handles(Batch[RunTask])
    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        if not self._is_up():
            return
        by_worker = self._ledger.add(tasks)
        self.ignored += len(tasks) - sum(map(len, by_worker.values()))
        for worker, new in by_worker.items():
            if worker < len(self._workers):
                self._workers[worker].send(new)
            else:
                self._refuse(new, f"there is no worker {worker} here")

    @handles(Batch[RunCancel])
    def _run_cancels(self, cancels: Batch[RunCancel]) -> None:
        if not self._is_up():
            return
        by_worker, others = self._ledger.by_worker(cancels)
        for worker, wanted in by_worker.items():
            self._workers[worker].send(Batch[RunCancel](wanted))
        if others:
            self._refuse(self._ledger.without_result(others), "no such task here")

    def _drop_tasks(self) -> None:
        """Stop all tasks: another scheduler wants none of them, and none of their results.

        Its own may have the same ids, since the clients say their open tasks again, but never the same attempts. So
        whatever is still said of these is news of an attempt that it does not know.
        """
        by_worker: dict[int, Batch[RunCancel]] = {}
        for task in self._ledger.clear():
            by_worker.setdefault(task.worker, Batch[RunCancel]()).append(
                RunCancel(task.task_id, task.worker, task.attempt)
            )
        for worker, cancels in by_worker.items():
            self._workers[worker].send(cancels)

    @handles(RunsNotHere)
    def _runs_not_here(self, news: RunsNotHere) -> None:
        """Answer for those that are still open. What became of the others was said before this."""
        lost = [run for run in news.runs if self._ledger.find(run.task_id, run.attempt) is not None]
        if lost:
            self._refuse(lost, "the worker does not have the task any more")

    def _refuse(self, items: Iterable[RunTask | RunCancel | RecallRequest], text: str) -> None:
        status, payload = TaskStatus.NOT_FOUND, text.encode()
        self._results(
            Batch[RunResult](
                RunResult(item.task_id, item.worker, item.attempt, status, payload, 0, ()) for item in items
            )
        )

    @handles(Batch[RunResult])
    def _results(self, results: Batch[RunResult]) -> None:
        self._ledger.finish(results)
        self._say(results)

    @handles(Batch[RunBlocked])
    def _runs_blocked(self, batch: Batch[RunBlocked]) -> None:
        self._say(self._ledger.suspend(batch))

    @handles(Batch[RunUnblocked])
    def _runs_unblocked(self, batch: Batch[RunUnblocked]) -> None:
        for resumed in batch:
            self._ledger.resume(resumed)
        self._say(batch)

    @handles(Batch[ResultsReceived])
    def _received(self, received: Batch[ResultsReceived]) -> None:
        if self._is_up() and not self._ledger.acknowledge(max(item.total for item in received)):
            self.ignored += 1

    # Balance

    @handles(Batch[RecallRequest])
    def _recall_requests(self, requests: Batch[RecallRequest]) -> None:
        if not self._is_up():
            return
        by_worker, _ended = self._ledger.by_worker(requests)
        for worker, wanted in by_worker.items():
            self._workers[worker].send(Batch[RecallRequest](wanted))

    @handles(Batch[RecallResponse])
    def _given_back(self, responses: Batch[RecallResponse]) -> None:
        """Forget the tasks and say so, both at once; but if a hello has just said that they are here, they stay."""
        given = Batch[RecallResponse]()
        for response in responses:
            task = self._ledger.find(response.task_id, response.attempt)
            if task is None:
                continue
            if self._state is _State.UP:
                self._ledger.give_back(response)
                given.append(response)
            else:
                self._workers[task.worker].send(Batch[RunTask]([task]))
        self._say(given)

    # Processors

    @handles(Batch[ProcessorNews])
    def _processors_news(self, batch: Batch[ProcessorNews]) -> None:
        if self._is_up():
            for worker in self._workers:
                worker.send(batch)

    @handles(ExecutorProcessGone)
    def _process_gone(self, process: ExecutorProcessGone) -> None:
        gone = ProcessorGone(process.number)
        self._gone.append(gone)
        self._say([gone])

    # Objects

    @handles(FetchObject)
    def _fetch(self, fetch: FetchObject) -> None:
        self._fetched[fetch.object_id] = fetch.by_value
        self._say([ObjectRequest(fetch.object_id, fetch.by_value)])

    @handles(ObjectsHere)
    def _objects_here(self, here: ObjectsHere) -> None:
        self._say([ObjectKept(object_id) for object_id in here.object_ids])

    @handles(Batch[ObjectResponse])
    def _objects_came(self, responses: Batch[ObjectResponse]) -> None:
        if self._is_up():
            for response in responses:
                self._fetched.pop(response.object_id, None)
            self._objects.send(responses)

    @handles(Batch[ObjectInstruction])
    def _objects_deleted(self, instructions: Batch[ObjectInstruction]) -> None:
        if not self._is_up():
            return
        for item in instructions:
            if item.kind == InstructionKind.KEEP_RESULT:
                self._keep_result(item.object_id)
        self._objects.send(instructions)

    def _keep_result(self, object_id: ObjectId) -> None:
        """Have the cache keep a result, if it is still here; else it is fetched when somebody needs it."""
        frames = self._ledger.large_result(object_id)
        if frames:
            self._objects.send(KeepObject(object_id, frames))
