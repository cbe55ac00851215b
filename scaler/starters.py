"""Starters: what the package starts for a client, which imports neither scheduler nor worker nor viewer itself.

Set by the package before anything else is imported. Must never: import what is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

from scaler.endpoint import Endpoint


class LocalCluster(Protocol):
    """A scheduler with workers on this machine."""

    def get_address(self) -> str: ...

    def shutdown(self) -> None: ...


class LocalPage(Protocol):
    """A page that runs on this machine."""

    url: str

    def shutdown(self) -> None: ...


class Recording(Protocol):
    """A recording that has begun."""

    def stop(self) -> str: ...


LocalSettings: TypeAlias = Mapping[str, Any]
"""The settings of a local cluster that are not its defaults, by name."""

import_client: Callable[[], object] | None = None
"""Imports the client, which a worker does not import itself, for the tasks that have one."""

local_cluster: Callable[[LocalSettings, bool], LocalCluster] | None = None
"""Starts the cluster of a client without an address. Its workers log what tasks write, or do not."""

thread_cluster: Callable[[LocalSettings], LocalCluster] | None = None
"""Starts the cluster of a client with `processes=False`."""

page: Callable[[Endpoint], LocalPage] | None = None
"""Starts the page of a scheduler."""

recorder: Callable[[Endpoint, str], Recording] | None = None
"""Begins a recording, given the address of a scheduler and the path of a file."""

own_clusters: WeakValueDictionary[str, LocalCluster] = WeakValueDictionary()
"""The clusters that clients of this program have started, by the addresses of their schedulers."""
