"""Request: a command for the link's thread that has a reply.

Made by the link for the threads of the user. Whoever waits for the reply hears of it also if the command comes too
late. Must never: wait.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from scaler.client.calls.entry import GraphEntry, MakeError, Sink
from scaler.client.link.inquiries import Inquiry


class Request:
    """A command with a reply."""

    __slots__ = ("command", "receiver")

    def __init__(self, command: Callable[[], None], receiver: Sink | GraphEntry | Inquiry | Reply) -> None:
        self.command = command
        self.receiver = receiver

    def __call__(self) -> None:
        self.command()


class Reply(Future[None]):
    """The reply to a command, or the error that it came too late."""

    def fail(self, make_error: MakeError) -> None:
        self.set_exception(make_error())
