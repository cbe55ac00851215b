"""NestedSession: the client inside a processor. It lives and ends with the process, and not by its signs of life.

Its tasks hold the interpreter for minutes, or the process is stopped while it waits: its silence means nothing. Its
agent knows when it is dead. So the agent's session ends it: when the agent says that the processor has ended, and with
itself. Then its tasks are cancelled: the children of a task die with its process.
"""

from __future__ import annotations

from scaler.actors.client_session import ClientSession
from scaler.actors.kit import handles
from scaler.actors.messages import EndNested


class NestedSession(ClientSession):
    """One client inside a task."""

    def _check_silence_in(self, seconds: float) -> None:
        """Its agent looks after it."""

    @handles(EndNested)
    def _end_nested(self, _end: EndNested) -> None:
        self.stop_now()
