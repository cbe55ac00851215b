"""Notebook hint: says that a notebook still keeps a client with a local cluster, when another one starts.

Called by clients when their local cluster has started, in the thread of the user. Must never: keep a client alive, or
import IPython.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger("scaler.client")

_with_cluster: weakref.WeakKeyDictionary[object, weakref.finalize[..., Any]] = weakref.WeakKeyDictionary()


def note(client: object, finalizer: weakref.finalize[..., Any]) -> None:
    """Remember a client that has a local cluster, until `finalizer` was called; say which others a notebook keeps.

    A cell that is run again, `client = Client()`, makes another client. Nothing refers to the one before it, and so it
    ends; but where it was shown, the notebook's list of outputs does.
    """
    kept = [f"Out[{number}]" for number, value in _outputs().items() if _has_cluster(value)]
    _with_cluster[client] = finalizer
    if kept:
        logger.warning(
            "another local cluster started, and the one of %s is still there, because the notebook keeps that client: "
            "end it with %s.disconnect() if it is not needed",
            " and ".join(kept),
            kept[-1],
        )


def _has_cluster(value: object) -> bool:
    # By identity: outputs may be of any type, and compare in their own ways.
    return any(client is value and finalizer.alive for client, finalizer in list(_with_cluster.items()))


def _outputs() -> Mapping[int, object]:
    """Return what IPython keeps of the outputs of cells; empty outside of it."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = find() if find is not None else None
    outputs = shell.user_ns.get("Out", {}) if shell is not None else {}
    return outputs if isinstance(outputs, dict) else {}
