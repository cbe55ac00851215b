"""ClientLink: the base class of both clients' links: holds the connection and the open work, and queues commands.

Methods only queue commands, because another thread may be changing the open work. The subclasses `LinkThread` and
`AsyncLink` run the commands.
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
from scaler.client.calls.entry import Entry, GraphCalls, MakeError, Sink
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
"""The most functions for which a client remembers how long a row takes. It remembers the functions that ran last."""


class Request:
    """A queued command, with the receiver of its reply."""

    __slots__ = ("command", "receiver")

    def __init__(self, command: Command, receiver: Sink | GraphCalls | Answer[Any]) -> None:
        self.command = command
        self.receiver = receiver

    def __call__(self) -> None:
        self.command()


WANTED_SECONDS, WANTED_SECONDS_MOST = 0.25, 4.0
"""The first and the longest pause, in seconds, between two reports that a user waits for a result."""


class ClientLink:
    """Queues the commands of one client to its scheduler. Thread-safe, except methods that say otherwise; finalizers
    may call it, too.

    Args:
        client_id: the id of the client, the same on each connection.
        advice: the call with which users wait for the futures of this client.
        label: a name shown to people, for a client that runs no tasks.
        name: the name of the program, shown to people; if empty, its script and process id.
        wake_descriptors: descriptors that are readable when another thread wants to end a wait.
    """

    _put: Callable[[Command], None]
    """queues a command, which runs unless the link ends first"""
    submit: Callable[[Entry], None]
    fail: Callable[[MakeError], None]
    """fails all open work, whose results will never arrive"""

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
        """the reason why nothing can be sent any longer; empty while the link is open"""
        self.is_nested = self.address == task_context.current.address
        self.endpoint = task_context.with_agent_settings(endpoint) if self.is_nested else endpoint
        self.end_warnings = EndWarnings(advice, self.is_nested)
        self.limit = ValueLimit(self.address)
        self._work = OpenWork(self.limit)
        self._work.advised = partial(advised, address=self.address)
        self.durations = Durations(math.inf, FUNCTIONS_REMEMBERED)
        transport = open_transport(self.endpoint, WORKER if self.is_nested else CLIENT)
        self._connection = ClientConnection(transport, *wake_descriptors)
        hello = make_hello(client_id, task_context.current if self.is_nested else TaskContext(), label, name)
        self._protocol = ClientProtocol(hello, self._connection, patience, self._work)
        self.advice = self._protocol.advice
        links.add(self)

    @property
    def rows_most(self) -> int:
        """The most rows of a map that may travel as one task."""
        return self._work.rows_most

    @property
    def concern(self) -> str:
        """The reason why no task of this client progresses, as a sentence; empty if none is known."""
        return self._protocol.watch.concern

    def check_open(self) -> None:
        """Raise `DisconnectedError` if the link is closed."""
        if self.closed_because:
            raise self._disconnected()

    def _disconnected(self) -> BaseException:
        return (AuthenticationError if self._protocol.is_locked_out else DisconnectedError)(self.closed_because)

    def cancel(self, task_id: TaskId) -> None:
        """Cancel a task, or the whole graph of a node."""
        self._put(partial(self._work.cancel, task_id))

    def forget_result(self, object_id: ObjectId) -> None:
        """Delete a large result whose future was garbage-collected."""
        self._put(partial(self._work.forget_result, object_id))

    def store_object(self, instruction: ObjectInstruction) -> None:
        """Store an object."""
        self.check_open()
        self._put(partial(self._work.store_object, instruction))

    def release(self, object_id: ObjectId) -> None:
        """Delete an object."""
        self._put(partial(self._work.release, object_id))

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Report to the scheduler that the process does nothing but wait. See `task_context.WaitReporter`."""
        if self.is_nested:
            self._put(partial(self._protocol.set_wait, wait, is_over))

    def inquire(self, inquiry: Inquiry[Any]) -> None:
        """Send an inquiry. The inquiry receives the answers or an error, in the thread in which commands run."""
        self.check_open()
        if inquiry.workers and self.is_nested:
            task_context.current.check_prepared()
        self._put(Request(partial(self._work.inquire, inquiry), inquiry))

    def withdraw(self, inquiry: Inquiry[Any]) -> None:
        """Forget an inquiry, whose answer is no longer wanted, and notify the scheduler."""
        self._put(partial(self._work.withdraw, inquiry))

    def ask_job(self, question: JobQuestion) -> None:
        """Send a request about a job. The link completes `question` with an answer or an error."""
        self.check_open()
        self._put(Request(partial(self._work.jobs.add, question, question.item), question))

    def attend_job(self, name: str) -> None:
        """Keep a job running until `leave_job` was called as often as this method. Raises like `check_job_name`."""
        check_job_name(name)
        self._put(partial(self._work.attended.update, (name,)))

    def leave_job(self, name: str) -> None:
        """Undo one `attend_job` call; the last call notifies the scheduler, without waiting for an answer."""
        self._put(partial(self._work.leave_job, name))

    def shut_down(self) -> Future[None]:
        """Request the scheduler to shut down. Return a future that ends with the scheduler's answer."""
        self.check_open()
        reply: Answer[None] = Answer(lambda: None)
        self._put(Request(partial(self._work.shut_down, reply), reply))
        return reply

    def mark_wanted(self, task_id: TaskId) -> None:
        """Report to the scheduler that a user waits for the result of a task. Ignored if the task is not open."""
        self._put(partial(self._protocol.mark_wanted, task_id))

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        """Request the reason why an open task waits. If no answer arrives, `on_answer` is never called."""
        self._put(partial(self._protocol.ask, task_id, on_answer))

    def read_output(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None:
        """Request the output of a task, or only its latest progress report. The answer is empty if the client ends."""
        self.check_open()
        self._put(partial(self._protocol.ask_output, task_id, on_output, report))

    def follow_output(self, stream: OutputListener) -> None:
        """From now on, pass each line that tasks of this client write to `stream`."""
        self._put(partial(self._protocol.follow_output, stream))

    def leave_to_parent(self) -> None:
        """Close the link in a forked process, without touching the parent's socket."""
        self.closed_because = "this client belongs to the parent of this forked process; make a new one here"


links: weakref.WeakSet[ClientLink] = weakref.WeakSet()


def fail_links(address: str, make_error: MakeError) -> int:
    """Fail all open work of this process's links to the scheduler `address`. Return the number of these links."""
    found = [link for link in list(links) if link.address == address]
    for link in found:
        link.fail(make_error)
    return len(found)


def _leave_links_to_parent() -> None:
    for link in list(links):
        link.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_links_to_parent)
