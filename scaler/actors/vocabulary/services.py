"""Services: the shared actors and settings that sessions get from the acceptor, and pass to their tasks and graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.events import Events
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig


class Options(Protocol):
    """The options of a task that the scheduler uses."""

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

    def resubmitted(self) -> bytes: ...


class WriteAudit(Protocol):
    """A function that writes one audit record: the event, its source, and further facts."""

    def __call__(self, event: str, source: str, /, **about: str) -> None: ...


def no_audit(_event: str, _source: str, /, **_about: str) -> None:
    """Ignore the record, because this scheduler writes no audit."""


def _no_payer(_object_id: ObjectId) -> Owner | None:
    return None


def _nothing_stored(_object_id: bytes) -> bool:
    return False


def _no_client(_object_id: ObjectId) -> ClientId | None:
    return None


def _no_result(_object_id: ObjectId, _client: ClientId) -> int | None:
    return None


def _no_name(_function_id: ObjectId) -> str:
    return ""


def _nothing_awaited(_host: ActorRef) -> set[ObjectId]:
    return set()


@dataclass(frozen=True, eq=False)
class Services:
    """The shared actors, values and functions, which outlive each session."""

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
    """the job keeper; None if this scheduler keeps no jobs"""
    owner: str
    """the name of the user who owns all jobs if no keys are used: then all connections have one unnamed owner"""
    read_options: Callable[[bytes], Options]
    paused_since: Callable[[float], float]
    """takes a time of the scheduler's clock; returns for how many seconds since then the process was stopped"""
    value_bytes: Callable[[], int]
    """returns the present size limit of one value in bytes; 0: no limit"""
    payer_of: Callable[[ObjectId], Owner | None] = _no_payer
    """returns the owner of an object; None if the object is shared or unknown"""
    is_stored: Callable[[bytes], bool] = _nothing_stored
    supplier_of: Callable[[ObjectId], ClientId | None] = _no_client
    """returns the only client that may send the bytes of an object; None if the object is a function or unknown"""
    maker_of: Callable[[ObjectId], ClientId | None] = _no_client
    """returns the client whose task has this object as its result; None if the object is not a result, or is unknown"""
    result_bytes: Callable[[ObjectId, ClientId], int | None] = _no_result
    """returns the size of a result that a client has not dropped; None if the result is lost or unknown"""
    function_name: Callable[[ObjectId], str] = _no_name
    """returns the name of a function; empty if the function is not stored"""
    awaited_by: Callable[[ActorRef], set[ObjectId]] = _nothing_awaited
    """returns the objects that an agent has requested and that have not been sent to the agent"""
    audit: WriteAudit = no_audit
