"""DialledSession: the dialling side's end of a session, which goes on from connection to connection, or begins anew.

Used by the client's connection and the agent's edge, which say in a hello whether they would go on. Must never: go on
after a message that could not be read, written or handled, because the same one would come again.
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
    """One session after the other.

    Args:
        incoming: of the messages that come.
        outgoing: of those that leave.
        counts: items written, by class (`Traffic.items`).
        on_heard: called with the items of each message that the scheduler has heard.
        window_bytes: how much of large items may be on its way.
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
        """of the present session; what is said before the first one begins never leaves"""
        self._may_go_on = False
        self._dials = 0
        """how many hellos there were"""
        self._begun = 0
        """which of them has begun the present session"""

    def _new_pipe(self) -> Pipe:
        return Pipe(*self._directions, window_bytes=self._window_bytes, counts=self._counts, on_heard=self._on_heard)

    def hello(self, item: Any, **said: Any) -> Message:
        """Return the message of a hello: with `dial`, and what it goes on with, out of the count of any session.

        Args:
            said: fields of it that differ from hello to hello.
        """
        self._dials += 1
        said["dial"] = self._dials
        if self._may_go_on:
            said |= {"resumes": GOES_ON, "heard": self.pipe.heard, "begun": self._begun}
        return encode_message(self._directions[1], [replace(item, **said)], counts=self._counts)

    def may_go_on(self, resumed: int) -> bool:
        """Return whether the session goes on, given `resumed` of the reply."""
        return bool(resumed) and self._may_go_on

    def spoil(self) -> None:
        """Note that it is not certain what was said or heard: the next connection begins anew."""
        self._may_go_on = False

    def begin(self) -> list[Any]:
        """Begin anew. Return the items of the last session that may not have arrived, in their order."""
        unheard = list(self.pipe.unheard())
        self.pipe = self._new_pipe()
        self._may_go_on = True
        self._begun = self._dials
        return unheard
