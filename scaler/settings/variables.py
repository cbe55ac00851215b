"""Variables: warns of environment variables that look like settings of Scaler and are not.

Called when settings are read. Unknown variables are not refused, since the same environment may serve a later version.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Iterable

from scaler.endpoint import TCP, Endpoint
from scaler.settings import PROCESSES
from scaler.texts import did_you_mean

logger = logging.getLogger(__name__)

PREFIX = "SCALER_"

MARK_OF_PROCESSORS = "SCALER_PROCESSOR"
"""The environment variable that marks worker processes. They log no warning, because the cluster's own process does."""

NO_SETTINGS = (MARK_OF_PROCESSORS, "SCALER_GRAPH_BACKEND", "SCALER_KEY_FOLDER", "SCALER_SHARED_MEMORY")
"""The environment variables that this package uses and that are not settings."""

_OF_KUBERNETES = re.compile(r"\w+_SERVICE_(HOST|PORT)\w*|\w+_PORT(_\d+_(TCP|UDP)\w*)?")
"""Matches variables that Kubernetes sets in each pod for a service whose name begins with `scaler`."""


@functools.cache
def warn_of_unknown_variables() -> None:
    """Log which environment variables are ignored, once per process."""
    ignored = [] if MARK_OF_PROCESSORS in os.environ else unknown(os.environ)
    if ignored:
        logger.warning(
            "these environment variables are not settings, and are ignored: %s", ", ".join(map(_with_similar, ignored))
        )


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that begin like settings of Scaler but are not settings."""
    known = {*_known(), *NO_SETTINGS}
    return [
        name for name in names if name.startswith(PREFIX) and name not in known and not _OF_KUBERNETES.fullmatch(name)
    ]


def is_of_kubernetes(name: str, value: str) -> bool:
    """Return whether Kubernetes has set the variable: a service named `scaler` makes SCALER_PORT an address."""
    return name.endswith("_PORT") and Endpoint.parse(value).scheme == TCP


def _known() -> set[str]:
    return {row.variable for kind in PROCESSES for row in kind.rows()}


def _with_similar(name: str) -> str:
    return name + did_you_mean(name, sorted(_known()), 0.8, " (did you mean {}?)")
