"""Tracing: the recording of a trace while a block of the user's program runs.

Called by the client. Must never: import a viewer; `scaler.starters` has what begins a recording.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from scaler import starters
from scaler.config import ConfigError
from scaler.endpoint import Endpoint

logger = logging.getLogger("scaler.client")


@contextlib.contextmanager
def tracing(endpoint: Endpoint, path: str | os.PathLike[str]) -> Iterator[None]:
    """Record what the scheduler there does until the block ends, and write it."""
    if starters.recorder is None or endpoint.is_in_process:
        raise ConfigError("a trace needs a scheduler in a process of its own: leave processes=False out")
    recording = starters.recorder(endpoint, str(Path(path).absolute()))
    try:
        yield
    finally:
        logger.info("%s", recording.stop())
