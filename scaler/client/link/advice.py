"""Advice: what to check when no scheduler answers.

Used by the protocol, and by whoever waits for an answer, in errors and warnings.
"""

from __future__ import annotations

import logging
from functools import partial

from scaler.endpoint import Endpoint
from scaler.transport.lookup import Lookup

logger = logging.getLogger("scaler.client")


class Advice:
    """What a client says of a scheduler that does not answer.

    Args:
        address: where it should be.
        timeout_seconds: how long open work waits for it.
        is_nested: whether this is a client in a task: its agent has found the scheduler.
    """

    def __init__(self, address: str, timeout_seconds: float, is_nested: bool = False) -> None:
        self.address = address
        self._timeout_seconds = timeout_seconds
        self._lookup = Lookup("" if is_nested else address, partial(logger.warning, "%s. The client keeps trying"))

    def find_out(self) -> None:
        """Have the host name looked up."""
        self._lookup.begin()

    def what_to_check(self) -> str:
        """Return what may be the reason that no scheduler answers, as the end of a sentence."""
        if self._lookup.problem:
            return self._lookup.problem
        runs = f"check that one runs there (scaler_scheduler {self.address})"
        endpoint = Endpoint.parse(self.address)
        if endpoint.file is not None:
            gone = "" if endpoint.file.parent.is_dir() else f"; there is no folder {endpoint.file.parent}"
            return f"{runs}, on this machine{gone}"
        name = f" knows the name {endpoint.host!r} and" if endpoint.has_name else ""
        return f"{runs} and that this machine{name} can reach it"

    def timed_out(self) -> TimeoutError:
        """Return the error of what has waited for long enough."""
        return self.silent_for(self._timeout_seconds)

    def silent_for(self, seconds: float) -> TimeoutError:
        """Return the error of what has waited for so long."""
        return TimeoutError(f"no scheduler answered at {self.address} for {seconds:g} seconds; {self.what_to_check()}")

    def nobody(self) -> str:
        """Return what a task waits for, as a sentence."""
        return (
            f"no scheduler answers at {self.address}; {self.what_to_check()}; what waits fails when there was no "
            f"answer for {self._timeout_seconds:g} seconds"
        )
