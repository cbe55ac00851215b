"""Canceller: cancels what a client has left behind, a slice at a time.

Started by a client session that ends. Sends cancels to its tasks and graphs, and ends after the last one. Must never:
keep a client from coming back meanwhile, whose new session has tasks of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.actors.slices import NextSlice, Slices
from scaler.kit import Actor, ActorRef, handles


class Canceller(Actor):
    """The cancels of one session.

    Args:
        cancels: whom to say what, in this order.
    """

    def __init__(self, cancels: Sequence[tuple[ActorRef, Any]]) -> None:
        self._cancels = cancels
        self._slices = Slices(self)

    def on_start(self) -> None:
        self._slices.add(_say, self._cancels)
        self._end_if_done()

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._slices:
            self.stop_now()


def _say(cancel: tuple[ActorRef, Any]) -> None:
    ref, message = cancel
    ref.send(message)
