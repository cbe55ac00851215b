"""Services: the parts of the scheduler that sessions, tasks and graphs use, and its settings.

Made by the tree for the acceptor, which hands them to each session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scaler.actors.insight.events import Events
from scaler.actors.peers.directory import Directory
from scaler.actors.peers.outbox import Outbox
from scaler.actors.peers.owners import Owner
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig


class Options(Protocol):
    """What a task asks for, as far as its actor has to know."""

    @property
    def at_most_once(self) -> bool: ...

    @property
    def was_submitted(self) -> bool: ...

    @property
    def retries(self) -> int: ...

    @property
    def retry_on(self) -> tuple[str, ...]: ...

    @property
    def retry_delay_ms(self) -> int: ...

    @property
    def capabilities(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def no_worker_timeout_ms(self) -> int: ...

    @property
    def worker(self) -> str: ...

    @property
    def suit_rows(self) -> bool: ...

    def retry_reason(self, failure: bytes) -> str: ...

    def said_again(self) -> bytes: ...


class WriteAudit(Protocol):
    """Says one thing that is to be kept: the event, whose it is, and what else is known."""

    def __call__(self, event: str, source: str, /, **about: str) -> None: ...


def no_audit(_event: str, _source: str, /, **_about: str) -> None:
    """Keep nothing."""


def _nobody_pays(_object_id: ObjectId) -> Owner | None:
    return None


def _nothing_stored(_object_id: bytes) -> bool:
    return False


def _no_client(_object_id: ObjectId) -> ClientId | None:
    return None


def _nothing_awaited(_host: ActorRef) -> set[ObjectId]:
    return set()


@dataclass(frozen=True, eq=False)
class Services:
    """The actors and values that outlive a session."""

    config: SchedulerConfig
    directory: Directory
    outbox: Outbox
    events: Events
    acceptor: ActorRef
    balancer: ActorRef
    object_store: ActorRef
    adoption: ActorRef
    census: ActorRef
    outputs: ActorRef
    jobs: ActorRef | None
    """the keeper of jobs; None: this scheduler keeps none"""
    owner: str
    """whose jobs those are that belong to nobody in particular"""
    read_options: Callable[[bytes], Options]
    """returns what the bytes of a task's options ask for"""
    paused_since: Callable[[float], float]
    """returns for how many seconds the scheduler itself was stopped since a time of its clock"""
    value_bytes: Callable[[], int]
    """returns the most bytes of one value now; 0: there is no limit"""
    payer_of: Callable[[ObjectId], Owner | None] = _nobody_pays
    """returns whose an object is; None: it is shared, or not here"""
    is_stored: Callable[[bytes], bool] = _nothing_stored
    """returns whether there is an object with an id"""
    supplier_of: Callable[[ObjectId], ClientId | None] = _no_client
    """returns the client that alone may send the bytes of an object; None: it is a function, or not here"""
    maker_of: Callable[[ObjectId], ClientId | None] = _no_client
    """returns the client that has submitted the task whose result an object is; None: it is no result, or not here"""
    awaited_by: Callable[[ActorRef], set[ObjectId]] = _nothing_awaited
    """returns the objects that an agent has asked for, and that have not left for it"""
    audit: WriteAudit = no_audit
    """says what is to be kept of peers and their owners"""
