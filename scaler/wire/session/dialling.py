"""DialledSession: the session of the dialling side, which resumes on the next connection or starts again.

Used by the client's connection and the agent's edge. A session never resumes after a message that could not be read,
written or handled: the same message would be sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scaler.wire.codec.codec import encode_message
from scaler.wire.messages.common import GOES_ON
from scaler.wire.messages.directions import Direction
from scaler.wire.session.pipe import Message, Pipe
from scaler.wire.session.transfer import WINDOW_BYTES


class DialledSession:
    """The successive sessions of one peer.

    Args:
        incoming: the direction of received messages.
        outgoing: the direction of sent messages.
        counts: items written, by class (`Traffic.items`).
        on_heard: called with the items of each message that the scheduler has acknowledged.
        window_bytes: the most unacknowledged bytes of large items.
    """

    def __init__(
        self,
        incoming: Direction,
        outgoing: Direction,
        counts: defaultdict[type, int] | None = None,
        on_heard: Callable[[Sequence[Any]], None] | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._window_bytes = window_bytes
        self._directions = incoming, outgoing
        self._counts = counts
        self._on_heard = on_heard
        self.pipe = self._new_pipe()
        """the pipe of the present session; items put before the first `begin` are never sent"""
        self._may_go_on = False
        self._dials = 0
        """the number of hellos so far"""
        self._begun = 0
        """the number of the hello that started the present session"""

    def _new_pipe(self) -> Pipe:
        return Pipe(*self._directions, window_bytes=self._window_bytes, counts=self._counts, on_heard=self._on_heard)

    def hello(self, item: Any, **said: Any) -> Message:
        """Return an unnumbered message with a hello, completed with `dial` and, if the session may resume, its state.

        Args:
            said: fields that differ from hello to hello.
        """
        self._dials += 1
        said["dial"] = self._dials
        if self._may_go_on:
            said |= {"resumes": GOES_ON, "heard": self.pipe.heard, "begun": self._begun}
        return encode_message(self._directions[1], [replace(item, **said)], counts=self._counts)

    def may_go_on(self, resumed: int) -> bool:
        """Return whether the session resumes, given `resumed` of the reply."""
        return bool(resumed) and self._may_go_on

    def spoil(self) -> None:
        """Start a new session on the next connection, because it is uncertain what was sent or received."""
        self._may_go_on = False

    def begin(self) -> list[Any]:
        """Start a new session. Return the items of the last one that may not have arrived, in order."""
        unheard = list(self.pipe.unheard())
        self.pipe = self._new_pipe()
        self._may_go_on = True
        self._begun = self._dials
        return unheard
