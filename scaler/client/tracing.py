"""Tracing: the recording of a trace while a block of the user's program runs.

Called by the client. Must never: import a viewer; the package sets `start_recorder`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from scaler.config import ConfigError
from scaler.endpoint import Endpoint

logger = logging.getLogger("scaler.client")


class Recording(Protocol):
    """A recording that has begun."""

    def stop(self) -> str: ...


start_recorder: Callable[[str, str], Recording] | None = None
"""Begins a recording, given the address of a scheduler and the path of a file. Set by the package."""


@contextlib.contextmanager
def tracing(address: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Record what the scheduler at `address` does until the block ends, and write it."""
    if start_recorder is None or Endpoint.parse(address).is_in_process:
        raise ConfigError("a trace needs a scheduler in a process of its own: leave processes=False out")
    recording = start_recorder(address, str(Path(path).absolute()))
    try:
        yield
    finally:
        logger.info("%s", recording.stop())
