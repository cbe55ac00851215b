"""ClientLink: what the links of both clients have in common: the connection, the open work, and what is asked of these two.

Called by clients, futures and references. `LinkThread` and `AsyncLink` say in which thread a command is obeyed, and
when. Must never: touch the open work itself, which another thread may be changing.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from scaler import task_context
from scaler.client.calls.entry import Entry, GraphEntry, MakeError, Sink
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link.connection import ClientConnection
from scaler.client.link.end_warnings import EndWarnings
from scaler.client.link.open_work import OpenWork
from scaler.client.link.protocol import ClientProtocol, make_hello
from scaler.client.link.requests import Answer, Inquiry, JobQuestion, OnOutput, OutputListener
from scaler.client.link.waiting import OnAnswer, advised
from scaler.durations import Durations
from scaler.endpoint import Endpoint
from scaler.errors import AuthenticationError, DisconnectedError
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.jobs.names import check_job_name
from scaler.keys.key_file import CLIENT, WORKER
from scaler.peer.times import Patience
from scaler.task_context import TaskContext
from scaler.transport.opening import open_transport
from scaler.wire.messages.common import ObjectInstruction

Command: TypeAlias = Callable[[], None]

FUNCTIONS_REMEMBERED = 1024
"""Of how many functions it is known how long rows take; the latest ones."""


class Request:
    """A command with a reply."""

    __slots__ = ("command", "receiver")

    def __init__(self, command: Command, receiver: Sink | GraphEntry | Answer[Any]) -> None:
        self.command = command
        self.receiver = receiver

    def __call__(self) -> None:
        self.command()


WANTED_SECONDS, WANTED_SECONDS_MOST = 0.25, 4.0
"""Who waits for a result says so to the scheduler after so long, and again after twice the time, at most so long. That
changes something only where memory and disk for values are full."""


class ClientLink:
    """The connection of one client. What says nothing else may be called from any thread, also by a garbage collection.

    Args:
        endpoint: where the scheduler listens.
        client_id: the same on each connection.
        patience: how long to wait for what.
        advice: what the client calls to wait for its futures.
        label: of a client that runs no tasks, for people who watch.
        name: of the program, for people who watch; empty: its script and process id.
        wake_descriptors: readable when another thread wants to end a wait.
    """

    _put: Callable[[Command], None]
    """has a command obeyed soon, if the link does not end before"""
    submit: Callable[[Entry], None]
    """sends a task"""
    fail: Callable[[MakeError], None]
    """fails all open work for good, because its results will never come"""

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: ClientId,
        patience: Patience,
        advice: str,
        label: str = "",
        wake_descriptors: tuple[int, ...] = (),
        name: str = "",
    ) -> None:
        self.address = endpoint.address
        self.client_id = client_id
        self.closed_because = ""
        """why nothing can be sent any more; empty while it can"""
        self.is_nested = self.address == task_context.current.address
        self.endpoint = task_context.as_of_agent(endpoint) if self.is_nested else endpoint
        self.loose_ends = EndWarnings(advice, self.is_nested)
        self.limit = ValueLimit(self.address)
        self._work = OpenWork(self.limit)
        self._work.advised = partial(advised, address=self.address)
        self.durations = Durations(math.inf, FUNCTIONS_REMEMBERED)
        """how long the rows of maps took"""
        transport = open_transport(self.endpoint, WORKER if self.is_nested else CLIENT)
        self._connection = ClientConnection(transport, *wake_descriptors)
        hello = make_hello(client_id, task_context.current if self.is_nested else TaskContext(), label, name)
        self._protocol = ClientProtocol(hello, self._connection, patience, self._work)
        self.advice = self._protocol.advice
        links.add(self)

    @property
    def rows_most(self) -> int:
        """How many rows of a map may travel as one task."""
        return self._work.rows_most

    @property
    def concern(self) -> str:
        """The reason why nothing of this client makes progress, as a sentence; empty if no such reason is known."""
        return self._protocol.watch.concern

    def check_open(self) -> None:
        """Raise `DisconnectedError` if nothing can be sent any more."""
        if self.closed_because:
            raise self._disconnected()

    def _disconnected(self) -> BaseException:
        return (AuthenticationError if self._protocol.is_locked_out else DisconnectedError)(self.closed_because)

    def cancel(self, task_id: TaskId) -> None:
        """Cancel a task, or its whole graph."""
        self._put(partial(self._work.cancel, task_id))

    def forget_result(self, object_id: ObjectId) -> None:
        """Delete a large result whose future is gone."""
        self._put(partial(self._work.forget_result, object_id))

    def hold(self, instruction: ObjectInstruction) -> None:
        """Store an object."""
        self.check_open()
        self._put(partial(self._work.hold, instruction))

    def release(self, object_id: ObjectId) -> None:
        """Delete an object."""
        self._put(partial(self._work.release, object_id))

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Tell the scheduler that the process only waits, see `task_context.WaitReporter`."""
        if self.is_nested:
            self._put(partial(self._protocol.set_wait, wait, is_over))

    def inquire(self, inquiry: Inquiry[Any]) -> None:
        """Ask who is there. The inquiry gets answers or an error, where commands are obeyed, as all that follow."""
        self.check_open()
        if inquiry.workers and self.is_nested:
            task_context.current.check_prepared()
        self._put(Request(partial(self._work.inquire, inquiry), inquiry))

    def withdraw(self, inquiry: Inquiry[Any]) -> None:
        """Want no answer to an inquiry any more."""
        self._put(partial(self._work.withdraw, inquiry))

    def ask_job(self, question: JobQuestion) -> None:
        """Send a request about a job. It is completed with an answer or an error."""
        self.check_open()
        self._put(Request(partial(self._work.jobs.add, question, question.item), question))

    def attend_job(self, name: str) -> None:
        """Keep a job running until `leave_job` is called as often. Raises as `check_job_name`."""
        check_job_name(name)
        self._put(partial(self._work.attended.update, (name,)))

    def leave_job(self, name: str) -> None:
        """Withdraw one `attend_job` call. The last one is reported to the scheduler, without waiting for an answer."""
        self._put(partial(self._work.leave_job, name))

    def shut_down(self) -> Future[None]:
        """Ask the scheduler to end; the future has its answer."""
        self.check_open()
        reply: Answer[None] = Answer(lambda: None)
        self._put(Request(partial(self._work.shut_down, reply), reply))
        return reply

    def want(self, task_id: TaskId) -> None:
        """Tell the scheduler that somebody waits for the result of a task, if that is open."""
        self._put(partial(self._protocol.want, task_id))

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        """Ask what an open task waits for. The answer may not come."""
        self._put(partial(self._protocol.ask, task_id, on_answer))

    def read_output(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None:
        """Ask what a task has written, or only what it has reported last. If the client ends, the answer is nothing."""
        self.check_open()
        self._put(partial(self._protocol.ask_output, task_id, on_output, report))

    def follow_output(self, stream: OutputListener) -> None:
        """Have each line that any task writes from now on go to `stream`."""
        self._put(partial(self._protocol.follow_output, stream))

    def leave_to_parent(self) -> None:
        """In a forked process, where nothing obeys: never touch the parent's socket."""
        self.closed_because = "this client belongs to the process that this one was forked from; make a new one here"


links: weakref.WeakSet[ClientLink] = weakref.WeakSet()
"""all of this process"""


def fail_links(address: str, make_error: MakeError) -> int:
    """Fail all open work at the scheduler at `address`, for the clients of this process. Return how many there are."""
    found = [link for link in list(links) if link.address == address]
    for link in found:
        link.fail(make_error)
    return len(found)


def _leave_links_to_parent() -> None:
    for link in list(links):
        link.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_links_to_parent)
