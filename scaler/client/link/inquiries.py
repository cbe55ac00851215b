"""Inquiries: what a client has asked the scheduler about who is there, until it has the answers.

Used by the open work only. An inquiry is said again on a new connection: its answer may have been lost. Must never:
block.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Protocol

from scaler.client.calls.entry import MakeError
from scaler.wire.messages.client import InfoRequest, InfoResponse, WorkerInfo

NUMBERS = 2**32
"""A number travels as 32 bits."""


class Inquiry(Protocol):
    """Receives the answers to one request. Called by the link's thread: must not block."""

    detailed: bool
    workers: int
    restart: bool
    leave: str

    def hear(self, response: InfoResponse, workers: list[WorkerInfo]) -> bool:
        """Take an answer. Return whether it was the last one."""

    def fail(self, make_error: MakeError) -> None:
        """There will be no further answer."""


class Inquiries:
    """The open inquiries of a client, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Inquiry] = {}
        """only to be looked at"""
        self._described: dict[int, list[WorkerInfo]] = {}
        self._numbers = count(1)

    def ask(self, inquiry: Inquiry) -> InfoRequest:
        """Add an inquiry. Return what asks for it."""
        number = next(self._numbers) % NUMBERS
        self.by_number[number] = inquiry
        return _request(number, inquiry)

    def withdraw(self, inquiry: Inquiry) -> list[InfoRequest]:
        """Forget an inquiry. Return what has the scheduler forget it."""
        numbers = [number for number, known in self.by_number.items() if known is inquiry]
        for number in numbers:
            self._forget(number)
        return [InfoRequest(number) for number in numbers]

    def all_again(self) -> Iterable[InfoRequest]:
        """Return the requests of all that are open."""
        self._described.clear()
        return [_request(number, inquiry) for number, inquiry in self.by_number.items()]

    def on_worker(self, info: WorkerInfo) -> None:
        if info.number in self.by_number:
            self._described.setdefault(info.number, []).append(info)

    def on_response(self, response: InfoResponse) -> None:
        inquiry = self.by_number.get(response.number)
        if inquiry is not None and inquiry.hear(response, self._described.pop(response.number, [])):
            self._forget(response.number)

    def _forget(self, number: int) -> None:
        del self.by_number[number]
        self._described.pop(number, None)

    def fail(self, make_error: MakeError) -> None:
        """Fail all."""
        inquiries, self.by_number = self.by_number, {}
        self._described.clear()
        for inquiry in inquiries.values():
            inquiry.fail(make_error)


def _request(number: int, inquiry: Inquiry) -> InfoRequest:
    return InfoRequest(number, inquiry.detailed, inquiry.workers, inquiry.restart, inquiry.leave)
