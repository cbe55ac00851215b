"""Notebook hint: warns if a notebook still keeps a client with a local cluster after a cell has started another
cluster.

A client calls `note` when its local cluster has started, in the thread of the user; IPython calls the check after that
cell. The hint keeps no client alive and does not import IPython.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Iterable
from typing import Any

logger = logging.getLogger("scaler.client")

_with_cluster: weakref.WeakKeyDictionary[object, weakref.finalize[..., Any]] = weakref.WeakKeyDictionary()


def note(client: object, finalizer: weakref.finalize[..., Any]) -> None:
    """Register a client that has a local cluster. After this cell, warn of older clients that only the outputs of cells
    keep alive.

    If the cell `client = Client()` runs again, the old client ends, unless the notebook has displayed it. `finalizer`
    is called when the client ends.
    """
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = find() if find is not None else None
    if shell is not None:
        before = weakref.WeakSet(_alive())

        def look(*_result: object) -> None:
            shell.events.unregister("post_run_cell", look)
            _warn(shell.user_ns, before)

        if before:
            shell.events.register("post_run_cell", look)
    _with_cluster[client] = finalizer


def _alive() -> list[object]:
    return [client for client, finalizer in list(_with_cluster.items()) if finalizer.alive]


def _warn(names: dict[str, Any], before: Iterable[object]) -> None:
    # By identity: values may be of any type, and compare in their own ways.
    older = {id(client) for client in _alive()} & set(map(id, before))
    used = {id(value) for name, value in names.items() if not name.startswith("_")}
    kept = [f"Out[{number}]" for number, value in names.get("Out", {}).items() if id(value) in older - used]
    if kept:
        logger.warning(
            "another local cluster has started, and the one of %s still runs, because the notebook keeps its client: "
            "call %s.disconnect() if you do not need it",
            " and ".join(kept),
            kept[-1],
        )
