"""Tracing: the recording of a trace while a block of the user's program runs.

Called by the client. It imports no viewer: `scaler.starters` has the function that starts a recording.
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
    """Record the events of the scheduler until the block ends, and write the events to `path`."""
    if starters.recorder is None or endpoint.is_in_process:
        raise ConfigError("a trace needs a scheduler in a process of its own: leave processes=False out")
    recording = starters.recorder(endpoint, str(Path(path).absolute()))
    try:
        yield
    finally:
        logger.info("%s", recording.stop())
