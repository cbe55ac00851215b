"""Acceptor: accepts or refuses each hello, and starts or finds the session of the peer.

The edge passes hellos to the acceptor, the balancer reports that it was restarted, and sessions report their end or a
request for a shutdown. The acceptor sends to sessions and, through the outbox, to peers. A session that fails is
dropped, and its peer is requested to send a new hello. An id in a hello proves nothing: it is random bytes, and belongs
to the peer that showed it first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice

from scaler.actors.messages.peers import (
    AgentArrived,
    ClientArrived,
    DismissClient,
    EndSession,
    KeysEnded,
    NestedArrived,
    ReportStatistics,
    Resumed,
    SessionEnded,
    ShutdownRequested,
    StartOver,
    StopAgent,
    WorkersArrived,
    WorkersChanged,
)
from scaler.actors.messages.tasks import BalancerRestarted
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.nested_session import NestedSession
from scaler.actors.vocabulary.events import AGENT, CLIENT, PeerRefused
from scaler.actors.vocabulary.hellos import (
    held_by,
    identity_of,
    is_admin,
    language_of,
    listed,
    names_of,
    python_of,
    why_not_admin,
    wrong_key,
    wrong_owner,
    wrong_python,
)
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import OpenPipe, Peer, PeerKey
from scaler.actors.vocabulary.services import Services
from scaler.ids import NO_ID, SchedulerId
from scaler.keys.allowed import KEY_SHOWN
from scaler.kit import Actor, ActorRef, ChildFailed, MessageRefused, charged_to, handles
from scaler.peer.conversation_state import TRIES_MOST
from scaler.wire.messages.accounts import number_of
from scaler.wire.messages.client import ClientHello, ClientShutdownResponse
from scaler.wire.messages.common import PROTOCOL_VERSION, RESUMING, HelloReply, HelloRequest
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import HELD_MOST, WorkerHeartbeatEcho, WorkerHello

logger = logging.getLogger(__name__)

UINT32_MOST = 2**32 - 1

RESETS_WITHIN_SECONDS = 60.0
"""If a peer's previous hello is older than this, its session has worked meanwhile: `Peer.garbled` becomes 0 again."""

MOST_WORKERS = 65_535
"""Limit of the workers of an agent. The numbers of workers have 16 bits on the wire."""

REFUSALS_REMEMBERED = 1024
"""The most refused peers that are remembered, each with the reason."""


def _too_many_workers(hello: ClientHello | WorkerHello) -> str:
    is_so = isinstance(hello, WorkerHello) and len(names_of(hello)) > MOST_WORKERS
    return f"an agent may have at most {MOST_WORKERS} workers: start several clusters instead" if is_so else ""


class Acceptor(Actor):
    """Answers the hellos of peers: starts a session, resumes a former session, or refuses the peer."""

    def __init__(
        self,
        services: Services,
        scheduler_id: SchedulerId,
        package_version: str,
        open_pipe: OpenPipe,
        shut_down: Callable[[], None],
    ) -> None:
        self._services = services
        self._config, self._directory = services.config, services.directory
        self._outbox, self._census = services.outbox, services.census
        self._scheduler_id = scheduler_id
        self._package_version = package_version
        self._open_pipe = open_pipe
        self._shut_down = shut_down
        self._waiting: list[AgentArrived] = []
        """hellos of agents that wait until the clients of another Python have left"""
        self._hello_error = ""
        self._refusals: OrderedDict[bytes, str] = OrderedDict()
        """the reason of each refused peer, by id; a refused peer may retry"""

    # Hellos

    @handles(ClientArrived)
    @charged_to()
    def _client_arrived(self, arrived: ClientArrived) -> None:
        hello, connection = arrived.hello, arrived.connection
        key = ("client", hello.client_id)
        if self._is_answered(arrived, SCHEDULER_TO_CLIENT, key):
            return
        agent = self._directory.agents_by_token.get(hello.agent_token)
        if hello.agent_token != NO_ID and (agent is None or agent.is_stopped()):
            reason = "the agent that runs your task is not connected"
            self._outbox.put_to_stranger(connection, SCHEDULER_TO_CLIENT, HelloRequest(reason))
            return
        peer = self._new_peer(arrived, key, CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
        peer.is_admin, peer.is_in_parent = is_admin(arrived.permit, hello), arrived.is_in_parent
        if agent is None:
            last = hello.account if hello.resumes else None
            account = self._directory.accounts.open(hello.client_id, peer.owner, last, hello.label)
            session = self._start_client(hello, peer, ClientSession, account)
        else:
            self._directory.accounts.enter(hello.client_id)
            session = self._start_client(hello, peer, partial(NestedSession, agent, hello.processor), 0)
            agent.send(NestedArrived(hello.processor, session))
        self._directory.add(peer, session, connection)
        self._reply(peer, is_resumed=False)

    def _is_answered(self, arrived: ClientArrived | AgentArrived, outgoing: Direction, key: PeerKey) -> bool:
        """Return whether a hello needs no new session: it is repeated, is refused, or resumes a session."""
        if self._directory.is_spent(arrived.connection) or self._refused(arrived, outgoing, key):
            return True
        known = self._present(key)
        if known is not None:
            self._resume(known, arrived)
        return known is not None

    def _new_peer(
        self, arrived: ClientArrived | AgentArrived, key: PeerKey, incoming: Direction, outgoing: Direction
    ) -> Peer:
        hello, owner = arrived.hello, self._owner_of(arrived)
        token = hello.agent_token if isinstance(hello, WorkerHello) and hello.agent_token != NO_ID else b""
        what = (python_of(hello), token, identity_of(hello, owner.name), arrived.permit, owner)
        peer = Peer(key, incoming, outgoing, self._open_pipe, *what)
        peer.dial = peer.begun = hello.dial
        return peer

    def _present(self, key: PeerKey) -> Peer | None:
        peer = self._directory.peers.get(key)
        return peer if peer is not None and not peer.session.is_stopped() else None

    def _resume(self, peer: Peer, arrived: ClientArrived | AgentArrived) -> None:
        """Resume a session, or start a new one if that is impossible. Ignore a hello older than the last one."""
        hello = arrived.hello
        if 0 < hello.dial < peer.dial:
            self._directory.spend(arrived.connection, peer)
            return
        peer.dial, peer.permit = hello.dial, arrived.permit
        peer.is_admin = is_admin(arrived.permit, hello)
        if self.now() - peer.hello_at > RESETS_WITHIN_SECONDS:
            peer.garbled = 0
        if peer.garbled >= TRIES_MOST:
            reason = f"{TRIES_MOST} times in a row, a message of this {peer.key[0]} or one for it was unreadable"
            self._refuse(arrived, peer.outgoing, reason)
            peer.session.send(EndSession(reason))
            return
        self._directory.reconnect(peer, arrived.connection)
        peer.last_received_at = self.now()  # its time-out may expire in this turn
        # A peer that missed the reply that started this session requests to resume an earlier session.
        is_the_same = hello.resumes == RESUMING and hello.begun in (0, peer.begun)
        if is_the_same and peer.resume(hello.heard):
            self._reply(peer, is_resumed=True)
            peer.session.send(Resumed(peer.connection_number))
            return
        results, held = peer.start_over(hello.dial), held_by(hello) if isinstance(hello, WorkerHello) else ()
        self._reply(peer, is_resumed=False)
        peer.session.send(StartOver(peer.connection_number, held, len(held) < HELD_MOST, results))

    def _owner_of(self, arrived: ClientArrived | AgentArrived) -> Owner:
        return arrived.owner or self._directory.owners.nobody

    def _start_client(
        self, hello: ClientHello, peer: Peer, made_of: Callable[..., ClientSession], account: int
    ) -> ActorRef:
        logger.info("client %s connected (%s)", hello.client_id.hex()[:8], language_of(hello))
        assert peer.identity is not None
        return self.spawn(made_of(peer.identity, peer, self._services, account, bool(hello.resumes)))

    @handles(AgentArrived)
    @charged_to()
    def _agent_arrived(self, arrived: AgentArrived) -> None:
        hello, connection = arrived.hello, arrived.connection
        key = ("cluster", hello.agent_id)
        if self._is_answered(arrived, SCHEDULER_TO_AGENT, key) or self._must_wait(arrived):
            return
        hello = self._directory.worker_names.take(hello)
        peer = self._new_peer(replace(arrived, hello=hello), key, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
        identity, names = peer.identity, names_of(hello)
        assert identity is not None
        services, is_back = self._services, bool(hello.resumes)
        made = AgentSession(
            identity, peer, services, names=names, held=held_by(hello), agents=hello.agents, is_back=is_back
        )
        session = self.spawn(made)
        self._directory.add(peer, session, connection)
        self._directory.expect(hello.agents, self.now())
        self._reply(peer, is_resumed=False)
        self._notify_former(session)
        logger.info("workers %s connected (%s)", listed(identity.worker_names), language_of(hello))
        self._directory.text_hashes.add(hello)

    @handles(WorkersChanged)
    def _workers_changed(self, changed: WorkersChanged) -> None:
        self._directory.describe(changed.peer, changed.identity)
        self._census.send(WorkersArrived())

    def _reply(self, peer: Peer, *, is_resumed: bool) -> None:
        config = self._config
        is_client = peer.outgoing is SCHEDULER_TO_CLIENT
        seconds = config.client_timeout_seconds if is_client else config.worker_timeout_seconds
        milliseconds = min(int(seconds * 1000), UINT32_MOST)
        versions = (PROTOCOL_VERSION, self._package_version)
        goes_on = (1, peer.pipe.heard) if is_resumed else (0, 0)
        peer.hello_at = self.now()
        self._refusals.pop(peer.key[1], None)
        if not is_client:
            self._census.send(WorkersArrived())
        window = self._window(peer.owner) if is_client else (0, 0)
        peer.tasks_announced = max(peer.tasks_announced, window[0])
        account = number_of(self._directory.accounts.of(peer.key[1])) if is_client else 0
        last_sent = (
            1,
            "",
            self._scheduler_id,
            *versions,
            *goes_on,
            milliseconds,
            *window,
            account,
            self._services.value_bytes(),
            config.rows_per_task if is_client and config.rows_per_task > 1 else 0,
        )
        self._outbox.put_unnumbered(peer, HelloReply(*last_sent))
        if not is_client:  # the agent reports the number to the next scheduler, even if this one is killed now
            self._send_agent_count(peer)

    def _notify_former(self, session: ActorRef) -> None:
        """Send the new number of agents to the second newest agent, too, so that two agents know the number."""
        others = (each for each in reversed(self._directory.agents_by_token.values()) if each is not session)
        for former in islice(others, 1):
            self._send_agent_count(self._directory.of_session(former))

    def _send_agent_count(self, agent: Peer | None) -> None:
        if agent is not None:
            n_agents = self._directory.agents_to_announce(self.now())
            self._outbox.put_unnumbered(agent, WorkerHeartbeatEcho(0, n_agents, self._services.value_bytes()))

    def _window(self, owner: Owner) -> tuple[int, int]:
        """Return how many tasks and bytes a client may have, by its limit, an equal part of the total, and the quota.

        A quota of bytes is divided among the owner's clients, because sessions can hold tasks, but not values.
        """
        config, count = self._config, len(self._directory.peers)
        terms, clients = owner.terms, max(1, owner.clients)
        tasks, n_bytes = min(config.client_tasks, config.open_tasks // count), config.open_bytes // count
        return (
            max(1, min(tasks, terms.tasks or tasks)),
            max(1, min(config.client_bytes, n_bytes, terms.n_bytes // clients if terms.n_bytes else n_bytes)),
        )

    def _refused(self, arrived: ClientArrived | AgentArrived, outgoing: Direction, key: PeerKey) -> bool:
        """Refuse a peer without permission, or with an unfit protocol or Python. Return whether the peer is refused."""
        hello = arrived.hello
        known = self._present(key)
        reason = (
            wrong_key(arrived.permit, hello)
            or wrong_owner(self._owner_of(arrived), None if known is None else known.owner)
            or self._wrong_protocol(hello, key)
            or self._wrong_python(hello, key)
            or _too_many_workers(hello)
        )
        if reason:
            self._refuse(arrived, outgoing, reason)
        return bool(reason)

    def _wrong_protocol(self, hello: ClientHello | WorkerHello, key: PeerKey) -> str:
        if hello.protocol_version == PROTOCOL_VERSION:
            return ""
        return (
            f"this {key[0]} (scaler {hello.package_version}) speaks protocol {hello.protocol_version}, "
            f"the scheduler (scaler {self._package_version}) speaks protocol {PROTOCOL_VERSION}: "
            f"install the same version of scaler on both sides"
        )

    def _wrong_python(self, hello: ClientHello | WorkerHello, key: PeerKey) -> str:
        """Return why a peer's Python does not fit the connected workers; empty if it fits or no worker is connected.

        Functions travel as bytecode, which another minor version of Python misreads, at worst with a crash.
        """
        own = python_of(hello)
        known = self._directory.peers.get(key)
        pythons = self._directory.pythons_of("cluster", without=known)
        pythons.update(python_of(arrived.hello) for arrived in self._waiting)
        return wrong_python(key[0], own, next(iter(pythons))) if own and pythons and own not in pythons else ""

    def _must_wait(self, arrived: AgentArrived) -> bool:
        """Dismiss clients of another Python before the first workers join. Return whether the agent has to wait."""
        python = python_of(arrived.hello)
        if not python or not self._directory.pythons_of("client") - {python}:
            return False
        for peer in self._directory.peers.values():
            if peer.outgoing is SCHEDULER_TO_CLIENT and peer.python not in ("", python):
                peer.session.send(DismissClient(wrong_python("client", peer.python, python)))
        self._waiting.append(arrived)
        return True

    def _refuse(self, arrived: ClientArrived | AgentArrived, outgoing: Direction, reason: str) -> None:
        identity = identity_of(arrived.hello, self._owner_of(arrived).name)
        if self._refusals.pop(identity.peer_id, "") != reason:  # else the peer retries, and this is logged already
            logger.warning("a peer is refused: %s", reason)
            owner, name = identity.owner, identity.label or ",".join(identity.worker_names[:1])
            key = "" if arrived.permit is None else arrived.permit.public[:KEY_SHOWN]
            self._services.audit("refused", owner, owner=owner, key=key, name=name, why=reason)
            if self._services.events.listener is not None:
                role = AGENT if outgoing is SCHEDULER_TO_AGENT else CLIENT
                self._services.events.listener.send(PeerRefused(role, identity, reason))
        self._refusals[identity.peer_id] = reason
        if len(self._refusals) > REFUSALS_REMEMBERED:
            self._refusals.popitem(last=False)
        reply = HelloReply(0, reason, self._scheduler_id, PROTOCOL_VERSION, self._package_version)
        self._outbox.put_to_stranger(arrived.connection, outgoing, reply)

    @handles(MessageRefused)
    def _hello_failed(self, refused: MessageRefused) -> None:
        arrived, error = refused.message, refused.error
        if repr(error) != self._hello_error:  # else this is logged already
            self._hello_error = repr(error)
            logger.error("a hello cannot be handled: %r", error, exc_info=error)
        outgoing = SCHEDULER_TO_AGENT if type(arrived) is AgentArrived else SCHEDULER_TO_CLIENT
        reason = f"the scheduler failed while it handled your hello: {error!r}"
        reply = HelloReply(0, reason, self._scheduler_id, PROTOCOL_VERSION, self._package_version)
        self._outbox.put_to_stranger(arrived.connection, outgoing, reply)

    # Sessions

    @handles(KeysEnded)
    def _keys_ended(self, ended: KeysEnded) -> None:
        for key in sorted(ended.keys):
            self._services.audit("revoked", key, key=key[:KEY_SHOWN])
        for peer in self._directory.peers.values():
            if peer.permit is not None and peer.permit.public in ended.keys:
                reason = f"the key of {peer.permit.name} is no longer valid, or has another role or owner now"
                peer.session.send(EndSession(reason))

    @handles(SessionEnded)
    def _session_ended(self, ended: SessionEnded) -> None:
        self._directory.remove(ended.peer)
        self._census.send(ended)
        self._services.outputs.send(ended)
        waiting, self._waiting = self._waiting, []
        for arrived in waiting:
            self._agent_arrived(arrived)

    @handles(ChildFailed)
    def _session_failed(self, failed: ChildFailed) -> None:
        peer = self._directory.of_session(failed.child)
        if peer is not None:
            self._outbox.put_unnumbered(
                peer, HelloRequest(f"the scheduler failed while it handled your session: {failed.error!r}")
            )
            self._directory.remove(peer)

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        for peer in self._directory.peers.values():
            peer.session.send(restarted)
        if self._services.jobs is not None:
            self._services.jobs.send(restarted)

    def check(self) -> None:
        assert len(self._refusals) <= REFUSALS_REMEMBERED
        self._directory.check()

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        for peer in self._directory.peers.values():
            peer.session.notify(ask)

    # Shutdown

    @handles(ShutdownRequested)
    @charged_to("peer.session")
    def _shutdown_asked(self, asked: ShutdownRequested) -> None:
        if self._config.protected:
            reason = "the scheduler is protected: start it with --no-protected to let clients shut it down"
            self._outbox.put(asked.peer, ClientShutdownResponse(0, reason))
            return
        reason = why_not_admin(asked.peer, "shut the scheduler down")
        if reason:
            self._outbox.put(asked.peer, ClientShutdownResponse(0, reason))
            return
        logger.info("shutting down: a client requested it")
        self._outbox.put(asked.peer, ClientShutdownResponse(1, ""))
        for peer in self._directory.peers.values():
            if peer.outgoing is SCHEDULER_TO_AGENT:
                peer.session.send(StopAgent("a client shut the scheduler down"))
        self._shut_down()
