"""Starters: functions that start clusters, pages and recorders for a client. The client does not import their modules.

The package sets these functions before anything else is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

from scaler.endpoint import Endpoint


class LocalCluster(Protocol):
    """A scheduler with workers on this machine. `shutdown` ends both."""

    def get_address(self) -> str: ...

    def shutdown(self) -> None: ...


class LocalPage(Protocol):
    """The web page of a scheduler, served on this machine."""

    url: str

    def shutdown(self) -> None: ...


class Recording(Protocol):
    """A running recording of a scheduler's tasks. `stop` ends the recording and returns a text about it."""

    def stop(self) -> str: ...


LocalSettings: TypeAlias = Mapping[str, Any]
"""The settings of a local cluster that differ from the defaults, by name."""

import_client: Callable[[], object] | None = None
"""Imports the client for tasks that use a client; a worker itself needs none."""

local_cluster: Callable[[LocalSettings, bool], LocalCluster] | None = None
"""Starts the cluster of a client without an address. The second argument: whether the workers log what tasks write."""

thread_cluster: Callable[[LocalSettings], LocalCluster] | None = None
"""Starts the cluster of a client with `processes=False`."""

page: Callable[[Endpoint], LocalPage] | None = None
"""Starts the web page of a scheduler."""

recorder: Callable[[Endpoint, str], Recording] | None = None
"""Starts a recording, given the address of a scheduler and the path of a file."""

own_clusters: WeakValueDictionary[str, LocalCluster] = WeakValueDictionary()
"""The local clusters of this program, by the addresses of their schedulers."""
