"""Lifetime: what begins with a client and ends with it: its link, and its cluster if it has one of its own.

Asked by the client. Links that several clients of this process share end with the program. Must never: wait for a
scheduler at the end of the program for longer than a moment, or end in a forked process what belongs to its parent.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from scaler.client.link.thread import LinkThread
from scaler.config import ConfigError, check_address
from scaler.errors import DisconnectedError
from scaler.ids import ClientId, random_id

Seconds: TypeAlias = tuple[float, float]
"""The time-out of a client and the time between two heartbeats."""

EXIT_SECONDS = 2.0
"""How long the end of the program waits for a client that nobody disconnected."""


class LocalCluster(Protocol):
    """A scheduler with workers on this machine."""

    def get_address(self) -> str: ...

    def shutdown(self) -> None: ...


start_local_cluster: Callable[[], LocalCluster] | None = None
"""Starts the cluster of a client without an address. Set by the package: a client knows no scheduler and no worker."""

start_thread_cluster: Callable[[], LocalCluster] | None = None
"""Starts the cluster of a client that wants no further processes."""

_lock = threading.RLock()
"""held to share a link and to end it; a garbage collection may end others in the middle of that"""
_ended: set[str] = set()
"""The addresses of schedulers of this process that have ended. A task that goes on all the same finds none."""
_shared_links: dict[tuple[str, Seconds], tuple[LinkThread, weakref.finalize[..., Any]]] = {}
"""the links of the clients that travelled here, and what ends them with the program; those that differ in the
serializer only have the same"""


def start_cluster(has_processes: bool) -> LocalCluster:
    """Start the cluster of a client that was given no address.

    Raises:
        ConfigError: if it is not known how.
    """
    start = start_local_cluster if has_processes else start_thread_cluster
    if start is None:
        raise ConfigError("a client needs an address: give it one, or set SCALER_ADDRESS")
    return start()


def new_link(address: str, seconds: Seconds) -> LinkThread:
    """Return a link to the scheduler at `address`.

    Raises:
        ConfigError: if that is no address.
    """
    return LinkThread(check_address(address), ClientId(random_id()), *seconds)


def shared_link(address: str, seconds: Seconds) -> LinkThread:
    """Return the link of this process to the scheduler at `address`.

    Raises:
        DisconnectedError: if that was a scheduler of this process, which has ended.
    """
    with _lock:
        if address in _ended:
            raise DisconnectedError("the client that this task belongs to is disconnected")
        link, _ = _shared_links.get((address, seconds), (None, None))
        if link is None or link.is_closed:
            link = new_link(address, seconds)
            end = ends_with(link, link)  # at the end of the program: it lives as long
            _shared_links[address, seconds] = link, end
        return link


def end_shared_links(address: str) -> None:
    """End the links that are shared here to a scheduler of this process, which ends."""
    with _lock:
        _ended.add(address)
        ended = [_shared_links.pop(key) for key in list(_shared_links) if key[0] == address]
    for link, end in ended:
        end.detach()
        link.close(EXIT_SECONDS)


def ends_with(owner: Any, link: LinkThread, cluster: LocalCluster | None = None) -> weakref.finalize[..., Any]:
    """Have `link` and `cluster` end when `owner` was collected, or the program ends, or what this returns is called."""
    return weakref.finalize(owner, _end, link, cluster, os.getpid())


def _end(link: LinkThread, cluster: LocalCluster | None, owner_pid: int) -> None:
    if os.getpid() != owner_pid:  # a fork
        return
    if cluster is None:
        link.close(0 if threading.current_thread() is not threading.main_thread() else EXIT_SECONDS)
        return
    link.close(EXIT_SECONDS)
    cluster.shutdown()
