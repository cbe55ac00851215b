"""SchedulerConnection: the agent's connection to its scheduler, one after the other, from first hello to goodbye.

The edge writes to it what arrives (batches, `LinkCut`). What is said on a connection beside hellos, heartbeats and
goodbyes is the business of the class that builds on this one: the link (`link.py`).

    GREETING --welcome--> UP --cut, silence, "say hello"--> AWAY --back-off--> GREETING
                           +--leave (after the tasks, if it drains)--> LEAVING --response, time-out--> end

Must never: say anything but the hello before the welcome.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

import cloudpickle

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.agent.absence import Absence
from scaler.agent.messages import (
    Leave,
    LinkCut,
)
from scaler.ids import NO_ID, random_id
from scaler.message import message
from scaler.settings import ClusterConfig
from scaler.version import __version__
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    HelloReply,
    HelloRequest,
)
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    DrainRequest,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
)

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 5.0
"""A scheduler that is silent for this time, and for three heartbeats, is considered dead."""
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


class State(Enum):
    """Where the agent is with its scheduler."""

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


class SchedulerConnection(Actor):
    """One side of the protocol, without tasks and objects.

    Args:
        end: called once with the exit code when the agent must end.
    """

    def __init__(
        self, door: Door, config: ClusterConfig, names: tuple[str, ...], agent_token: bytes, end: Callable[[int], None]
    ) -> None:
        self._door = door
        self._config = config
        self._names = names
        self._end = end
        self._agent_id = random_id()
        self._agent_token = agent_token
        self._scheduler_id = NO_ID
        self._state = State.AWAY
        self._heard_at = 0.0
        self._connects = 0
        self._absence: Absence | None = None
        self._drain: DrainRequest | None = None
        self.ignored = 0
        """messages that made no sense at their time"""

    # What the link has to say

    def _held(self) -> bytes:
        """Return the runs that the agent has, as a hello names them."""
        raise NotImplementedError

    def _welcomed(self, is_same: bool, is_first: bool) -> None:
        """Say what a new connection begins with.

        Args:
            is_same: whether it is the scheduler of the last connection.
            is_first: whether there was none before.
        """
        raise NotImplementedError

    def _has_tasks(self) -> bool:
        raise NotImplementedError

    def _want_back(self) -> None:
        """Ask the workers for the tasks that have not started."""
        raise NotImplementedError

    def on_start(self) -> None:
        self._start_absence()
        self._connect()
        self.schedule(self._config.heartbeat_interval_seconds, _HeartbeatDue())

    # The connection

    def _connect(self) -> None:
        self._state = State.GREETING
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
            self._held(),
            self._agent_token,
        )

    def _lose(self, reason: str) -> None:
        if self._state is State.LEAVING:
            self._end(0)
            return
        if self._state is State.AWAY:
            return
        level = logging.WARNING if self._state is State.UP else logging.DEBUG
        logger.log(level, "link to %s down: %s", self._config.address, reason)
        self._start_absence()
        self._state = State.AWAY
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
        if self._state is State.AWAY:
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
        if self._state is not State.GREETING:
            self.ignored += 1
        elif not reply.accepted:
            logger.error("the scheduler at %s refused this cluster: %s", self._config.address, reply.reason)
            self._end(1)
        else:
            self._welcome(reply.scheduler_id, reply.package_version)

    def _welcome(self, scheduler_id: bytes, version: str) -> None:
        logger.info("link to %s up: scheduler %s", self._config.address, version)
        self._absence = None
        self._state = State.UP
        self._heard_at = self.now()
        last_id, self._scheduler_id = self._scheduler_id, scheduler_id
        self._welcomed(is_same=scheduler_id == last_id, is_first=last_id == NO_ID)
        if self._drain is not None:
            self._door.say([self._drain])

    @handles(_HeartbeatDue)
    def _heartbeat_due(self, _due: _HeartbeatDue) -> None:
        interval_seconds = self._config.heartbeat_interval_seconds
        self.schedule(interval_seconds, _HeartbeatDue())
        if self._state is State.AWAY:
            return
        if self.now() - self._heard_at > max(SILENCE_SECONDS, 3 * interval_seconds):
            self._lose("the scheduler is silent")
        elif self._state is not State.GREETING:
            self._connects = 0
            self._door.say([WorkerHeartbeat(int(self.now() * 1e9))])

    @handles(Batch[WorkerHeartbeatEcho])
    def _echo(self, _echos: Batch[WorkerHeartbeatEcho]) -> None:
        self._is_up()

    def _is_up(self) -> bool:
        """Note that the scheduler is alive. Return whether its item is allowed in this state."""
        self._heard_at = self.now()
        if self._state is State.UP:
            return True
        self.ignored += 1
        return False

    def _say(self, items: Sequence[Any]) -> None:
        """Say what the next connection begins with anyway, if there is one now."""
        if self._state is State.UP:
            self._door.say(items)

    # The end

    @handles(Leave)
    def _leave(self, leave: Leave) -> None:
        if self._state is not State.UP:
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
        if self._state is State.UP and (left_seconds <= 0 or not self._has_tasks()):
            self._say_goodbye(look.reason)
        elif left_seconds <= 0:
            self._end(0)
        else:
            self._want_back()
            self.schedule(min(left_seconds, DRAIN_LOOK_SECONDS), look)

    def _say_goodbye(self, reason: str) -> None:
        self._state = State.LEAVING
        self._door.say([DisconnectRequest(reason)])
        self.schedule(GOODBYE_SECONDS, _GoodbyeDue())

    @handles(_GoodbyeDue)
    def _goodbye_due(self, _due: _GoodbyeDue) -> None:
        self._end(0)

    @handles(Batch[DisconnectResponse])
    def _disconnected(self, responses: Batch[DisconnectResponse]) -> None:
        logger.info("the scheduler disconnects this cluster: %s", responses[0].reason)
        self._end(0)
