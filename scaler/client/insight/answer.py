"""Answer: what the scheduler says to a question of the user.

Made where a question is asked; taken by the link, which must not be held up. A thread waits for it with `result`, a
coroutine through `asyncio.wrap_future`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from scaler.client.calls.entry import MakeError
from scaler.client.link.requests import Inquiry, OnOutput
from scaler.client.link.waiting import Advice, OnAnswer
from scaler.ids import TaskId
from scaler.task_context import WaitReporter

T = TypeVar("T")


class Answer(Future[T]):
    """One answer, for whoever waits for it.

    Args:
        read: makes it from what the scheduler says.
    """

    def __init__(self, read: Callable[..., T]) -> None:
        super().__init__()
        self._read = read

    def take(self, *answer: Any) -> None:
        """It has come, maybe too late."""
        if not self.done():
            self.set_result(self._read(*answer))

    def fail(self, make_error: MakeError) -> None:
        """It will not come."""
        if not self.done():
            self.set_exception(make_error())


class AskedLink(WaitReporter, Protocol):
    """The part of a link that questions use."""

    advice: Advice

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None: ...

    def read_output(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None: ...

    def inquire(self, inquiry: Inquiry) -> None: ...

    def withdraw(self, inquiry: Inquiry) -> None: ...
