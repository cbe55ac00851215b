"""DialledSession: the session of the dialling side, which resumes on the next connection or starts again.

Used by the client's connection and the agent's edge. A session never resumes after a message that could not be read,
written or handled, because the same message would be sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scaler.wire.codec.codec import encode_message
from scaler.wire.messages.common import RESUMING
from scaler.wire.messages.directions import Direction
from scaler.wire.session.pipe import Message, Pipe
from scaler.wire.session.transfer import WINDOW_BYTES


class DialledSession:
    """The successive sessions of one peer.

    Args:
        counts: the numbers of items written, by class (`Traffic.items`).
        on_acknowledged: called with the items of each message that the scheduler has acknowledged.
        window_bytes: the most unacknowledged bytes of large items.
    """

    def __init__(
        self,
        incoming: Direction,
        outgoing: Direction,
        counts: defaultdict[type, int] | None = None,
        on_acknowledged: Callable[[Sequence[Any]], None] | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._window_bytes = window_bytes
        self._directions = incoming, outgoing
        self._counts = counts
        self._on_acknowledged = on_acknowledged
        self.pipe = self._new_pipe()
        """the pipe of the present session; items put before the first `begin` are never sent"""
        self._may_resume = False
        self._dials = 0
        self._session_dial = 0
        """the `dial` of the hello that started the present session"""

    def _new_pipe(self) -> Pipe:
        return Pipe(
            *self._directions,
            window_bytes=self._window_bytes,
            counts=self._counts,
            on_acknowledged=self._on_acknowledged,
        )

    def hello(self, item: Any, **last_sent: Any) -> Message:
        """Return the hello `item`, unnumbered, with its `dial` and, if it resumes the session, the state of the
        session.

        Args:
            last_sent: fields of the hello whose values change from one hello to the next.
        """
        self._dials += 1
        last_sent["dial"] = self._dials
        if self._may_resume:
            last_sent |= {"resumes": RESUMING, "heard": self.pipe.heard, "begun": self._session_dial}
        return encode_message(self._directions[1], [replace(item, **last_sent)], counts=self._counts)

    def may_resume(self, resumed: int) -> bool:
        """Return whether the session resumes, given the field `resumed` of the `HelloReply`."""
        return bool(resumed) and self._may_resume

    def spoil(self) -> None:
        """Start a new session on the next connection, because it is uncertain what was sent or received."""
        self._may_resume = False

    def begin(self) -> list[Any]:
        """Start a new session. Return the items of the previous session that may not have arrived, in order."""
        unacknowledged = list(self.pipe.unacknowledged())
        self.pipe = self._new_pipe()
        self._may_resume = True
        self._session_dial = self._dials
        return unacknowledged
