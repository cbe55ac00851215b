"""Census: answers the questions of clients about peers and objects, and carries out the commands of admins.

Client sessions forward requests to the census, and the acceptor reports new workers and ended sessions. The census
answers all requests of a turn together: it asks the balancer and the agent sessions once for counts, and they reply in
the urgent lane. Answers to clients and commands to agents go through the outbox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from heapq import nlargest
from itertools import islice

from scaler.actors.messages.peers import AnswerInfo, InfoRequested, ReportStatistics, SessionEnded, WorkersArrived
from scaler.actors.messages.tasks import CancelForAdmin
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.hellos import why_not_admin
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer, PeerPipe
from scaler.ids import ClientId, ObjectId, is_public_id
from scaler.kit import Actor, ActorRef, charged_to, handles
from scaler.message import message
from scaler.process.report import Report
from scaler.wire.messages.capabilities import as_text
from scaler.wire.messages.client import OBJECTS, WORKERS, InfoRequest, InfoResponse, ObjectDetails, WorkerDetails
from scaler.wire.messages.directions import SCHEDULER_TO_AGENT, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import LeaveRequest, RestartRequest

WAITING_MOST = 64
"""Limit of the requests of one client that wait for workers. A request above it is answered at once."""
UNACKNOWLEDGED_MOST = 1
"""Limit of the unacknowledged detailed answers to one client. Such answers are large."""
DEFERRED_MOST = 1024
"""Limit of the deferred requests of one client. Above it, the oldest request is dropped."""
LOOK_SECONDS = 0.5
"""Interval at which deferred requests are examined. Those of a client are also examined when it sends a new request."""
DESCRIPTIONS_MOST = 16
"""Limit of the detailed answers to all clients together within `LOOK_SECONDS`."""

OBJECTS_MOST, OBJECTS_SEEN = 1000, 20_000
"""The most objects of a client that are described (the largest), and the most that are searched for the largest."""
_UINT32_MOST, _UINT64_MOST = 2**32 - 1, 2**64 - 1

_ANSWER = AnswerInfo()


@message
class _CheckWaiting:
    """census -> itself, by timer: examine the deferred requests."""


class Census(Actor):
    """Answers requests about peers and objects, and carries out commands.

    Args:
        balancer: the actor that knows the number of waiting tasks.
        objects: the table of the objects of all clients, which the census only reads.
    """

    def __init__(self, directory: Directory, outbox: Outbox, balancer: ActorRef, objects: ObjectTable) -> None:
        self._directory = directory
        self._objects = objects
        self._outbox = outbox
        self._balancer = balancer
        self._asked: list[tuple[Peer, InfoRequest]] = []
        self._waiting: dict[Peer, dict[int, InfoRequest]] = {}
        """the requests that wait for workers, by peer and number of the request"""
        self._unacknowledged: dict[Peer, deque[tuple[PeerPipe, int]]] = {}
        """unacknowledged detailed answers, by peer: for each, the peer's pipe and the number of its first message"""
        self._deferred: dict[Peer, dict[int, InfoRequest]] = {}
        self._n_described = 0
        """the number of detailed answers since deferred requests were last examined"""
        self._check_is_due = False
        self._total = Report()
        self._by_agent: list[tuple[Peer, Report]] = []

    @handles(InfoRequested)
    @charged_to("peer.session")
    def _ask(self, asked: InfoRequested) -> None:
        for request in asked.requests:
            waiting = self._waiting.setdefault(asked.peer, {})
            waiting.pop(request.number, None)
            if request.workers > self._directory.workers and len(waiting) < WAITING_MOST:
                waiting[request.number] = request
            if not waiting:
                del self._waiting[asked.peer]
            self._take(asked.peer, request)
        if asked.peer in self._deferred:
            self._retake(asked.peer)

    def _take(self, peer: Peer, request: InfoRequest) -> None:
        """Answer a request, or defer the request until the client has acknowledged earlier answers."""
        if not (request.detailed or _is_command(request)) or self._may_describe(peer):
            if not _why_not(peer, request):
                self._carry_out(peer, request)
            self._answer_soon(peer, request)
            return
        self._schedule_check()
        deferred = self._deferred.setdefault(peer, {})
        deferred[request.number] = request
        if len(deferred) > DEFERRED_MOST:
            del deferred[next(iter(deferred))]

    def _carry_out(self, peer: Peer, request: InfoRequest) -> None:
        if request.restart:
            self._restart_workers()
        if request.leave:
            self._dismiss_agents(frozenset(request.leave.split(",")))
        if request.cancel:
            self._cancel(frozenset(request.cancel.split(",")), peer.owner.name or "an admin")

    def _cancel(self, short_ids: frozenset[str], admin: str) -> None:
        ids = frozenset(bytes.fromhex(each) for each in filter(is_public_id, short_ids))
        for peer in self._directory.peers.values():
            if peer.outgoing is SCHEDULER_TO_CLIENT:
                peer.session.send(CancelForAdmin(ids, admin))

    def _restart_workers(self) -> None:
        for peer in self._agents():
            self._outbox.put(peer, RestartRequest("a client requests new worker processes"))

    def _dismiss_agents(self, names: frozenset[str]) -> None:
        for peer in self._agents():
            if peer.identity is not None and not names.isdisjoint(peer.identity.worker_names):
                self._outbox.put(peer, LeaveRequest("a client asks it to leave"))

    def _agents(self) -> list[Peer]:
        return [peer for peer in self._directory.connected.values() if peer.outgoing is SCHEDULER_TO_AGENT]

    def _may_describe(self, peer: Peer) -> bool:
        """Return whether to handle a command, or a request with a large answer, now. If so, count the request."""
        unacknowledged = self._unacknowledged.setdefault(peer, deque())
        while unacknowledged and (
            unacknowledged[0][0] is not peer.pipe or unacknowledged[0][0].acknowledged >= unacknowledged[0][1]
        ):
            unacknowledged.popleft()
        if len(unacknowledged) >= UNACKNOWLEDGED_MOST or self._n_described >= DESCRIPTIONS_MOST:
            return False
        self._n_described += 1
        self._schedule_check()
        unacknowledged.append((peer.pipe, peer.pipe.last_sent + 1))
        return True

    def _retake(self, peer: Peer) -> None:
        for request in self._deferred.pop(peer).values():
            self._take(peer, request)

    def _schedule_check(self) -> None:
        if not self._check_is_due:
            self._check_is_due = True
            self.schedule(LOOK_SECONDS, _CheckWaiting())

    @handles(_CheckWaiting)
    def _check_waiting(self, _look: _CheckWaiting) -> None:
        self._check_is_due, self._n_described = False, 0
        deferred, self._deferred = self._deferred, {}
        for peer, requests in deferred.items():
            for request in requests.values():
                self._take(peer, request)

    @handles(WorkersArrived)
    def _workers_arrived(self, _came: WorkersArrived) -> None:
        for peer, waiting in list(self._waiting.items()):
            for request in list(waiting.values()):
                self._answer_soon(peer, replace(request, detailed=0, restart=0, leave="", cancel=""))
                if request.workers <= self._directory.workers:
                    del waiting[request.number]
            if not waiting:
                del self._waiting[peer]

    @handles(SessionEnded)
    def _session_ended(self, ended: SessionEnded) -> None:
        self._waiting.pop(ended.peer, None)
        self._unacknowledged.pop(ended.peer, None)
        self._deferred.pop(ended.peer, None)

    def _answer_soon(self, peer: Peer, request: InfoRequest) -> None:
        if not self._asked:
            self._count()
        if request.detailed == WORKERS and not self._by_agent:
            self._count_workers()
        self._asked.append((peer, request))

    def _count(self) -> None:
        """Request the number of waiting tasks in the urgent lane, so the reply arrives before the `AnswerInfo`."""
        self._total = Report()
        self._balancer.notify(ReportStatistics(self._total))
        self.actor_ref.send(_ANSWER)

    def _count_workers(self) -> None:
        self._by_agent = [(peer, Report()) for peer in self._agents()]
        for peer, report in self._by_agent:
            peer.session.notify(ReportStatistics(report))

    @handles(AnswerInfo)
    def _answer_all(self, _answer: AnswerInfo) -> None:
        directory, asked, by_agent = self._directory, self._asked, self._by_agent
        self._asked, self._by_agent = [], []
        counts = (directory.workers, directory.agents, len(directory.connected) - directory.agents)
        waiting_tasks = self._total.total("balancer", "ready_tasks")
        for peer, request in asked:
            if request.detailed == WORKERS:
                for cluster, (agent, report) in enumerate(by_agent):
                    self._describe(peer, request.number, cluster, agent, report)
            elif request.detailed == OBJECTS:
                for item in described(self._objects, ClientId(peer.key[1]), request.number):
                    self._outbox.put(peer, item)
            self._outbox.put(peer, InfoResponse(request.number, *counts, waiting_tasks, _why_not(peer, request)))

    def _describe(self, peer: Peer, number: int, cluster: int, agent: Peer, report: Report) -> None:
        identity = agent.identity
        if identity is None:
            return
        of_agent = (identity.python_version, identity.package_version, as_text(identity.capabilities))
        for name, counts in report.of("worker"):
            tasks = (counts["tasks"], counts["blocked_tasks"])
            self._outbox.put(peer, WorkerDetails(number, name, cluster, *tasks, *of_agent))

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("census", "", {"waiting": sum(map(len, self._waiting.values()))})


def _why_not(peer: Peer, request: InfoRequest) -> str:
    """Return why the command in a request is refused; empty if the command is allowed, or if there is no command."""
    what = "cancel tasks of others" if request.cancel else "replace worker processes, or have clusters leave"
    return why_not_admin(peer, what) if _is_command(request) else ""


def _is_command(request: InfoRequest) -> bool:
    return bool(request.restart or request.leave or request.cancel)


def described(table: ObjectTable, client: ClientId, number: int) -> Iterator[ObjectDetails]:
    """Yield the objects of a client, the largest first, as the answer to the request with the number `number`."""
    owned = islice(table.owned.get(client, ()), OBJECTS_SEEN)
    known = [(object_id, table.objects[object_id]) for object_id in owned]
    for object_id, stored in nlargest(OBJECTS_MOST, known, key=lambda each: each[1].size_bytes):
        yield ObjectDetails(
            number,
            object_id,
            stored.name,
            stored.kind_for(client),
            stored.place,
            min(_UINT64_MOST, stored.size_bytes),
            len(table.copies.hosts.get(object_id, ())),
            min(_UINT32_MOST, table.users.get(ObjectId(object_id), 0)),
        )
