"""Arrival: a large result on its way to a future that has asked for it.

Made by a future, ended by the link's thread. Must never: unpickle anything.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from scaler.client.calls.entry import MakeError, Receiver
from scaler.client.insight.answer import AskedLink
from scaler.client.link.callbacks import Callbacks
from scaler.client.link.loose_ends import LooseEnds
from scaler.client.link.questions import OnAnswer
from scaler.client.results.outcome import missing_result
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import TaskResult


class FutureLink(AskedLink, Protocol):
    """The part of the link that a future uses."""

    callbacks: Callbacks
    loose_ends: LooseEnds

    @property
    def concern(self) -> str: ...

    def is_own_thread(self) -> bool: ...

    def check_process(self) -> None: ...

    def cancel(self, task_id: TaskId) -> None: ...

    def cancel_waiting(self, task_id: TaskId, on_answer: OnAnswer) -> None: ...

    def fetch(self, object_id: ObjectId, receiver: Receiver, keep: bool = False) -> None: ...

    def forget_result(self, object_id: ObjectId) -> None: ...


class Arrival(Future[Frames]):
    """A large result on its way. If it was lost, its task runs again, and may end in another way.

    Attributes:
        refusal: the result of that run if it has no value.
    """

    def __init__(self, link: FutureLink) -> None:
        super().__init__()
        self.refusal: TaskResult | None = None
        self._link = link

    def deliver(self, result: TaskResult) -> None:
        self.set_result([result.payload])

    def refuse(self, result: TaskResult) -> None:
        self.refusal = result
        self.set_result(())

    def store(self, result: TaskResult) -> None:
        self._link.fetch(ObjectId(result.task_id), self)

    def notify(self) -> None:
        """The threads that wait were woken one by one."""

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:  # noqa: ARG002
        if frames is None:
            self.set_exception(missing_result())
        else:
            self.set_result(frames)

    def fail(self, make_error: MakeError) -> None:
        self.set_exception(make_error())
