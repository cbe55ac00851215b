"""Presence: information about the scheduler, its workers and its objects, and how to wait for workers or restart them.

An inquiry is a request to the scheduler, and the future of the answer. Any thread of the user may make and send
inquiries. A wait for workers does not poll: the scheduler answers once enough workers are connected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, TypeVar

from scaler import starters, task_context
from scaler.client.insight import markup
from scaler.client.insight.explanation import checked_task_id
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import Inquiry
from scaler.config import ConfigError, check_timeout, check_whole_number
from scaler.ids import PUBLIC_ID_BYTES, is_public_id, public_id
from scaler.texts import shown
from scaler.wire.messages.capabilities import as_text, from_text
from scaler.wire.messages.client import OBJECTS, WORKERS, InfoResponse
from scaler.wire.messages.client import ObjectDetails as SentObject
from scaler.wire.messages.client import WorkerDetails as SentWorker

T = TypeVar("T")

_MOST = 2**32 - 1


@dataclass(frozen=True)
class SchedulerInfo:
    """The result of `Client.info`.

    Attributes:
        address: where the scheduler listens.
        workers: the number of connected workers.
        clusters: the number of clusters with connected workers.
        clients: the number of connected clients, including those inside tasks.
        waiting_tasks: the number of tasks of all clients that wait at the scheduler for a worker.
    """

    address: str
    workers: int
    clusters: int
    clients: int
    waiting_tasks: int


@dataclass(frozen=True)
class WorkerInfo:
    """A worker, as returned by `Client.workers`.

    Attributes:
        name: the name of the worker.
        cluster: the number of the worker's `scaler_cluster`; another call of `Client.workers` may give another number.
        tasks: the number of tasks of the worker: running, blocked, and queued.
        blocked_tasks: the number of tasks of the worker that wait for nested tasks.
        python_version: the Python version of the worker's processes, such as "3.12.1".
        version: the version of scaler on the worker.
        capabilities: the resources of the worker's node that tasks may require, with their amounts.
    """

    name: str
    cluster: int
    tasks: int
    blocked_tasks: int
    python_version: str
    version: str
    capabilities: Mapping[str, int] = field(default_factory=dict, hash=False)


class Workers(list[WorkerInfo]):
    """A list of workers that notebooks show as a table."""

    def _repr_html_(self) -> str:
        rows = (
            (each.name, each.cluster, each.tasks, each.blocked_tasks, as_text(each.capabilities.items()))
            for each in self
        )
        return markup.table(("worker", "cluster", "tasks", "blocked", "capabilities"), rows)


KINDS = ("value", "function", "argument", "result")
PLACES = ("scheduler", "client", "cluster", "lost")


@dataclass(frozen=True)
class ObjectInfo:
    """An object of this client that the scheduler knows, as returned by `Client.objects`.

    Attributes:
        object_id: the id of the object, 16 bytes; for a result the `task_id` of its future.
        kind: "value" (of `send_object`), "function", "argument" (of one call, too large to travel with it) or "result".
        name: the name of the value or function; for a result the name of its function; otherwise empty.
        size: the number of bytes of the serialised object.
        place: where the bytes of the object are: "scheduler"; "client": in memory that this program shares with workers
            on its machine; "cluster": with the agent of the workers that made the object, in memory or on disk; "lost":
            with an agent that was lost.
        copies: the number of agents that have fetched the object.
        readers: the number of open tasks that need the object.
    """

    object_id: bytes
    kind: str
    name: str
    size: int
    place: str
    copies: int
    readers: int


class Objects(list[ObjectInfo]):
    """A list of objects that notebooks show as a table."""

    def _repr_html_(self) -> str:
        rows = ((each.kind, each.name, each.size, each.place, each.copies, each.readers) for each in self)
        return markup.table(("kind", "name", "bytes", "place", "copies", "readers"), rows)


def info(address: str) -> Inquiry[SchedulerInfo]:
    """Return an inquiry about the numbers of workers, clients and tasks."""
    return Inquiry(lambda response, _: _read_info(address, response))


def workers() -> Inquiry[list[WorkerInfo]]:
    """Return an inquiry about the connected workers, cluster by cluster."""
    return Inquiry(lambda _, described: Workers(map(_read_worker, described)), detailed=WORKERS)


def objects() -> Inquiry[list[ObjectInfo]]:
    """Return an inquiry about the objects of this client, the largest first."""
    return Inquiry(lambda _, described: Objects(map(_read_object, described)), detailed=OBJECTS)


def restart() -> Inquiry[None]:
    """Return an inquiry that replaces all worker processes. The scheduler answers once it has notified all agents."""
    return Inquiry(lambda _response, _workers: None, restart=True)


def leave(names: Iterable[str]) -> Inquiry[None]:
    """Return an inquiry that makes the clusters of these workers leave. The agents of the clusters log the outcome."""
    return Inquiry(lambda _response, _workers: None, leave=",".join(names))


def cancel(tasks: Iterable[bytes | str]) -> Inquiry[None]:
    """Return an inquiry that cancels tasks of any client, given their ids, or their short ids in hex.

    Raises:
        ValueError: if an item is neither an id nor a short id.
    """
    return Inquiry(lambda _response, _workers: None, cancel_tasks=",".join(map(_short_id, tasks)))


def _short_id(task: object) -> str:
    if isinstance(task, bytes):
        return public_id(checked_task_id(task)).hex()
    if not (isinstance(task, str) and is_public_id(task)):
        raise ValueError(f"pass the short id of a task, which has {2 * PUBLIC_ID_BYTES} hex digits, not {shown(task)}")
    return task


def enough(address: str, n_workers: int) -> Inquiry[SchedulerInfo]:
    """Return an inquiry answered once `n_workers` workers are connected. Raise `ConfigError` for a bad number."""
    wanted = check_whole_number("n_workers", n_workers, 1, _MOST)
    return Inquiry(lambda response, _: _read_info(address, response), workers=wanted)


def wait(link: ClientLink, inquiry: Inquiry[T], timeout: float | None = None) -> T:
    """Send an inquiry, and wait for the answer in the calling thread. If the inquiry fails, its error is raised.

    Raises:
        TimeoutError: if the answer takes longer than `timeout` seconds.
    """
    link.inquire(inquiry)
    try:
        with task_context.current.wait(link, inquiry.done, timeout):
            return inquiry.result(timeout)
    except FutureTimeoutError:
        if inquiry.done():
            raise
        raise workers_timeout(link, inquiry, timeout) from None
    finally:
        if not inquiry.done():
            link.withdraw(inquiry)


def workers_timeout(link: ClientLink, inquiry: Inquiry[Any], timeout: float | None) -> TimeoutError:
    """Return the `TimeoutError` of an inquiry, with the number of connected workers if it is known."""
    assert timeout is not None, "else it waits on"
    if inquiry.found is None:
        return link.advice.silent_for(timeout)
    address, found, wanted = link.address, inquiry.found, inquiry.workers
    more = f"start more with: scaler_cluster {address} -n {wanted - found}"
    if address in starters.own_clusters:
        more = f"make the client with Client(n_workers={wanted}) for more"
    return TimeoutError(
        f"{found} of {wanted} workers are connected to the scheduler at {address} after {timeout:g} s; {more}"
    )


def wait_for_workers(link: ClientLink, n_workers: int, timeout: float | None) -> SchedulerInfo:
    """Wait until `n_workers` workers are connected. Raise `TimeoutError` after `timeout` seconds."""
    timeout = check_timeout(timeout)
    return wait(link, enough(link.address, n_workers), timeout)


def _read_info(address: str, sent: InfoResponse) -> SchedulerInfo:
    return SchedulerInfo(address, sent.workers, sent.clusters, sent.clients, sent.waiting_tasks)


def _read_worker(sent: SentWorker) -> WorkerInfo:
    counts, capabilities = (sent.cluster, sent.tasks, sent.blocked_tasks), dict(from_text(sent.capabilities))
    return WorkerInfo(sent.name, *counts, sent.python_version, sent.package_version, capabilities)


def _read_object(sent: SentObject) -> ObjectInfo:
    kind, place = KINDS[sent.kind], PLACES[sent.place]
    return ObjectInfo(sent.object, kind, sent.name, sent.size_bytes, place, sent.copies, sent.users)


def names_of(workers: list[WorkerInfo]) -> list[str]:
    """Return the names of workers. Raise `ConfigError` if two are the same, because a name must address one worker."""
    names = [worker.name for worker in workers]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two workers have the name {twice!r}, so neither can be addressed: give the workers of each cluster names "
            "of their own (scaler_cluster --worker-names), or none"
        )
    return names
