"""ClientProtocol: the client's side of the protocol, on one connection after the other.

    Link --open work, the time--> ClientProtocol --hello, items, heartbeats--> scheduler
    OpenWork <------answers------ ClientProtocol <---------replies------------ scheduler

The link calls the protocol, from one thread at a time. The protocol has no threads or locks, and never blocks. A
`ConversationState` (`scaler/peer`) chooses its next action, as it does for agents. On a new connection the session
resumes. If the session cannot resume, a new one starts, in which all open work is submitted again.
"""

from __future__ import annotations

import getpass
import logging
import math
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any

import cloudpickle

from scaler.client.calls.entry import MakeError
from scaler.client.link.connection import ClientConnection
from scaler.client.link.open_work import OpenWork
from scaler.client.link.requests import OnOutput, OutputFollower, OutputListener, OutputQuery, Requests
from scaler.client.link.waiting import ConnectionAdvice, OnAnswer, TaskQuestions, TaskWatch
from scaler.client.outcome import not_sent
from scaler.errors import ProtocolError
from scaler.ids import NO_ID, ClientId, TaskId
from scaler.peer import states
from scaler.peer.conversation_state import TRIES_MOST, ConversationState
from scaler.peer.states import Action, Event
from scaler.peer.times import Patience
from scaler.task_context import TaskContext
from scaler.texts import printable
from scaler.version import __version__
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientHello,
    ClientResting,
    ClientShutdownResponse,
    ExplainResponse,
    GoodbyeKind,
    InfoResponse,
    JobResponse,
    ObjectDetails,
    OutputLine,
    OutputRequest,
    OutputResponse,
    TaskResult,
    WorkerDetails,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    RETURNING,
    HelloReply,
    HelloRequest,
    ObjectRequest,
    ObjectResponse,
)
from scaler.wire.session.pipe import Unwritable
from scaler.wire.session.too_large import NO_LIMIT

logger = logging.getLogger("scaler.client")

GOODBYE_SECONDS = 0.5
"""The longest time that an ending client waits until its goodbye is sent. It does not wait for an answer."""

QUESTION_WAIT_SECONDS = 1.0
"""For this time after the loss of a scheduler, questions about tasks wait for the next one; then the client answers."""

OUTPUTS_MOST = 1024
"""The most open requests for output. A further one replaces the oldest, which is never answered."""

_HELLO_REQUESTS = Batch[HelloRequest]


class ClientProtocol:
    """Holds the conversation of one client with the schedulers at its address.

    Args:
        hello: the first item of each connection.
        work: the open work, whose queued items the protocol sends.
    """

    _account = 0
    """the number of the client's account at the last scheduler"""

    def __init__(self, hello: ClientHello, connection: ClientConnection, patience: Patience, work: OpenWork) -> None:
        self._hello = hello
        self._connection = connection
        self.advice = ConnectionAdvice(
            connection.endpoint, patience.timeout_seconds, is_nested=hello.agent_token != NO_ID
        )
        self._conversation = ConversationState(patience, work.is_waiting)
        self._work = work
        self._questions = TaskQuestions(work, connection.endpoint, self.advice.no_scheduler)
        self._outputs: Requests[OutputLine, OutputResponse] = Requests(work.queue)
        self.watch = TaskWatch(work, self.ask, is_off=hello.agent_token != NO_ID)
        self.is_accepted = False
        """whether the scheduler has accepted the hello of the current connection"""
        self._no_scheduler_since = time.monotonic()
        """when the client lost its last scheduler; before it has found any scheduler, when it started"""
        self.ended_because = ""
        """the reason why the client no longer connects; empty while it still connects"""
        self.is_locked_out = False
        """whether the scheduler refuses the client because it has no valid key"""
        self._acknowledged = 0
        """the number of this client's last message that the scheduler had received when it accepted the client"""
        self._wait = 0
        """the number of the current wait, if this client is in a task that does nothing but wait; otherwise 0"""
        self._is_wait_over: Callable[[], bool] = bool
        self._is_wait_reported = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            Batch[HelloReply]: self._on_hello_replies,
            Batch[HelloRequest]: self._on_hello_requests,
            Batch[TaskResult]: work.on_results,
            Batch[ObjectResponse]: work.large.on_objects,
            Batch[ObjectRequest]: work.on_object_requests,
            Batch[ClientShutdownResponse]: work.on_shutdown_responses,
            Batch[ClientHeartbeatEcho]: self._on_echos,
            Batch[ExplainResponse]: self._questions.on_answers,
            Batch[OutputLine]: self._outputs.on_rows,
            Batch[OutputResponse]: self._outputs.on_responses,
            Batch[WorkerDetails]: work.inquiries.on_rows,
            Batch[ObjectDetails]: work.inquiries.on_rows,
            Batch[InfoResponse]: work.inquiries.on_responses,
            Batch[JobResponse]: work.jobs.on_responses,
        }
        self._actions = self._made_actions()

    def _made_actions(self) -> dict[Action, Callable[[], None]]:
        return {
            states.OPEN: self._open,
            states.HELLO: self._send_hello,
            states.RESUME: self._resume_session,
            states.START_OVER: self._start_over,
            states.HEARTBEAT: self._send_heartbeat,
            states.CLOSE: self._hang_up,
            states.SEEK: self._seek,
            states.EXPIRE: self._expire,
            states.GIVE_UP: self._hang_up,  # the open work counts its own tries
            states.GOODBYE: self._send_goodbye,
            states.END: self._end,
        }

    # The conversation

    def drop_connection(self, reason: str) -> None:
        """Replace the connection, if any, and start a new session. Called when it is unknown which items were sent."""
        self._connection.session.spoil()
        self._handle_event(states.CONNECTION_LOST, reason)

    def send_goodbye(self) -> None:
        """Send the queued items and a goodbye, if a scheduler is connected."""
        if not self.ended_because:
            self._handle_event(states.LEAVE)

    def end(self) -> None:
        """Close the connection for good."""
        self._connection.end(GOODBYE_SECONDS if self.is_accepted else 0)
        self.is_accepted = False
        self._outputs.fail(CancelledError)  # the error does not matter: the requests receive no lines

    def _handle_event(self, event: Event, reason: str = "") -> None:
        action = self._conversation.happened(event, time.monotonic())
        if action is not states.NOTHING:
            if reason:
                logger.debug("%s: %s", self._connection.endpoint, reason)
            self._actions[action]()

    # Its actions

    def _open(self) -> None:
        try:
            self._connection.open()
        except OSError as error:
            self._refused(f"cannot connect to {self._connection.endpoint}: {error}", is_certain=True)
            return
        self.advice.start_lookup()
        self._handle_event(states.OPENED)

    def _send_hello(self) -> None:
        resumes = RETURNING if self._conversation.scheduler_id != NO_ID else 0
        self._connection.send_hello(self._hello, resumes=resumes, account=self._account)

    def _resume_session(self) -> None:
        self._on_welcome()
        self._connection.resume(self._acknowledged)
        self._questions.resend()

    def _start_over(self) -> None:
        self._on_welcome()
        session, in_transit = self._connection.session, None
        if self._conversation.has_other_scheduler:
            in_transit = session.pipe.on_their_way()
            endpoint = self._connection.endpoint
            logger.info("another scheduler answers at %s; the client resubmits all open work", endpoint)
        self._work.start_over(session.begin(), in_transit)
        self._questions.resend()
        self._outputs.resend()

    def _on_welcome(self) -> None:
        self.is_accepted = True
        self._connection.close_aside()
        self._is_wait_reported = False

    def _send_heartbeat(self) -> None:
        has_unsent = self._work.out or self._connection.session.pipe.has_pending
        self._connection.send_unnumbered(ClientHeartbeat(time.monotonic_ns(), int(bool(has_unsent))))

    def _hang_up(self) -> None:
        self._connection.close()
        self._on_no_scheduler()

    def _seek(self) -> None:
        self._connection.set_aside()
        self._on_no_scheduler()

    def _on_no_scheduler(self) -> None:
        if self.is_accepted:
            self.is_accepted = False
            self._no_scheduler_since = time.monotonic()

    def _expire(self) -> None:
        self._work.give_up(self.advice.timed_out, self.advice.timed_out, tell=self._conversation.scheduler_id != NO_ID)
        self.watch.forget()

    def _send_goodbye(self) -> None:
        self._work.out.append(ClientDisconnect(GoodbyeKind.DISCONNECT))
        self.send()

    def _end(self) -> None:
        """Do nothing: the client will not connect again, and the link closes the connection."""

    # Sending

    def send(self) -> None:
        """Send the queued items. Without a connection the items wait, because the session may resume."""
        if not self.is_accepted:
            return
        work, pipe = self._work, self._connection.session.pipe
        if work.out:
            pipe.put_all(work.out)
            work.out = []
            self._is_wait_reported = False
        elif not pipe.is_ready:
            return
        try:
            unwritable = self._connection.flush()
        except ProtocolError as error:
            self._handle_event(states.UNREADABLE, f"items for it cannot be written: {error}")
            what = "the client could not write its messages"
            check = "the memory of this machine, and that no argument changes while it is sent"
            self._on_unreadable(
                partial(self._unreadable_error, what, str(error), check)
            )  # any open call may be the cause
        else:
            if unwritable:
                self._drop(unwritable)

    def _drop(self, unwritable: Sequence[Unwritable]) -> None:
        """Fail the calls and requests whose items cannot be encoded. Send the items that these failures queue."""
        for item, error in unwritable:
            if type(item) is OutputRequest:
                self._outputs.drop(item.number, partial(not_sent, error))
            else:
                self._work.on_unwritable(item, partial(not_sent, error))
        self.send()

    def _on_unreadable(self, make_error: MakeError) -> None:
        self._work.on_unreadable(make_error)
        self._outputs.on_unreadable(make_error)

    def send_at_once(self) -> bool:
        """Send the queued items in the caller's thread, while the link's thread sleeps.

        Return whether the link's thread must wake up, because a message has arrived or a wait must be reported.
        """
        self._conversation.started_waiting(time.monotonic())
        self.send()
        return self._connection.has_message() or self._wait > 0

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        """Request the reason why a task waits."""
        self.send()  # so that the pipe knows what is in transit
        lane = self._connection.session.pipe if self.is_accepted else None
        self._questions.ask(
            task_id, on_answer, lane, time.monotonic() - self._no_scheduler_since < QUESTION_WAIT_SECONDS
        )

    def mark_wanted(self, task_id: TaskId) -> None:
        """Report to the scheduler that a user waits for a result. Do nothing if the task is not open or not sent."""
        request = self._work.request_about(task_id)
        if self.is_accepted and request is not None and task_id not in self._work.window.waiting:
            self._work.out.append(replace(request, wanted=1))

    def cancel_waiting(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        """Cancel a task unless it has started. Call `on_answer` when the scheduler may have handled the cancel."""
        self.send()  # so that the pipe knows what is in transit
        if self.is_accepted:
            self._work.cancel_waiting(task_id, self._connection.session.pipe)
        self.ask(task_id, on_answer)

    def set_wait(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Report that the process does nothing but wait, until `is_over()` is true. See `task_context.WaitReporter`."""
        self._wait, self._is_wait_over = wait, is_over
        self._is_wait_reported = False

    def _report_wait(self) -> None:
        """Report that the process only waits, if it still does, and if no report was made since an item was sent or
        received.
        """
        if not self._is_wait_reported and self.is_accepted and not self._is_wait_over():
            pipe = self._connection.session.pipe
            pipe.put(ClientResting(self._wait, pipe.heard))
            self.send()
            self._is_wait_reported = True

    # Receiving

    def handle_ready(self, ready: Container[int]) -> None:
        """Handle one arrived message. After a loss of the connection, handle all arrived messages first, then the loss.

        `ready` is the result of `ClientConnection.wait`.
        """
        # Checked first but acted upon last: messages that arrived before the cut still count.
        has_arrived, was_cut = self._connection.look(ready)
        if has_arrived or was_cut:
            self.receive(math.inf if was_cut else 1)
        if was_cut and self._connection.refusal:
            is_certain = self._connection.is_refused_by_scheduler
            self._refused(self._connection.refusal, is_certain=is_certain, is_locked_out=True)
        elif was_cut:
            self._handle_event(states.CONNECTION_LOST, "the connection was cut")

    def _refused(self, reason: str, *, is_certain: bool, is_locked_out: bool = False) -> None:
        action = self._conversation.refused(is_certain, time.monotonic())
        if self._conversation.state is states.ENDED:
            self.ended_because, self.is_locked_out = reason, is_locked_out
        else:
            self.advice.warn_of_stranger(reason)
        self._actions[action]()

    def receive(self, most: float = math.inf) -> bool:
        """Handle at most `most` arrived messages. Return whether any message was handled."""
        count = 0
        try:
            while count < most and (batches := self._connection.receive()) is not None:
                count += 1
                if self.is_accepted and not (batches and type(batches[0]) is _HELLO_REQUESTS):
                    self._conversation.heard()
                for batch in batches:
                    self._handlers[type(batch)](batch)
                    self._is_wait_reported = False
        except ProtocolError as error:
            self._on_garbage(error)
            return True
        return count > 0

    def _on_garbage(self, error: ProtocolError) -> None:
        """Handle bytes that are no message: from another program, or a damaged answer to any of the open work."""
        is_stranger = not self.is_accepted and self._conversation.scheduler_id != NO_ID
        self._handle_event(states.UNREADABLE, f"received bytes that are not a message of a scheduler: {error}")
        if is_stranger:
            self.advice.warn_of_stranger(f"it sends bytes that are not a message of a scheduler: {error}")
            return
        what = f"the client could not read messages from {self._connection.endpoint}"
        check = "that a scheduler of the same version listens there, and any proxy in between"
        self._on_unreadable(partial(self._unreadable_error, what, str(error), check))

    def _on_hello_replies(self, batch: Batch[HelloReply]) -> None:
        reply = batch[0]
        if self.is_accepted:
            return
        if reply.accepted:
            self.advice.stranger_reason = ""
            is_resumed = self._connection.session.may_resume(reply.resumed)
            self._acknowledged = reply.heard
            self._work.window.resize(reply.window_tasks, reply.window_bytes)
            self._work.limit.n_bytes = reply.value_bytes or NO_LIMIT
            self._account = reply.account
            self._work.rows_most = reply.rows or 1
            dead_after_seconds = reply.timeout_milliseconds / 1000
            action = self._conversation.welcomed(reply.scheduler_id, is_resumed, time.monotonic(), dead_after_seconds)
            if action is not states.NOTHING:
                self._actions[action]()
            return
        endpoint = self._connection.endpoint
        reason = reply.reason or "no reason given"
        is_last_one = reply.scheduler_id == self._conversation.scheduler_id
        self._refused(f"the scheduler at {endpoint} refused this client: {reason}", is_certain=is_last_one)

    def _on_hello_requests(self, batch: Batch[HelloRequest]) -> None:
        self._handle_event(states.HELLO_REQUESTED, f"the scheduler asks for a new hello: {batch[0].reason}")

    def _on_echos(self, batch: Batch[ClientHeartbeatEcho]) -> None:
        if batch[-1].value_bytes:  # else it only probes the connection
            self._work.limit.n_bytes = batch[-1].value_bytes

    # Requests

    def ask_output(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None:
        """Request the output of a task, or with `report` only its latest progress report."""
        requests = self._outputs
        requests.add(OutputQuery(on_output), lambda number: OutputRequest(number, task_id, report))
        if len(requests.open) > OUTPUTS_MOST:
            oldest = (number for number, known in requests.open.items() if isinstance(known[1], OutputQuery))
            del requests.open[next(oldest)]

    def ask_oldest_report(self, on_output: OnOutput) -> None:
        """Request the latest progress report of the oldest open task."""
        oldest = self._work.oldest()
        if oldest is not None:
            self.ask_output(oldest, on_output, report=True)

    def follow_output(self, stream: OutputListener) -> None:
        """Request all output that tasks write from now on."""
        follower = OutputFollower(stream)
        self._outputs.add(follower, lambda number: OutputRequest(number, TaskId(NO_ID)), follower)

    # The clock

    def seconds_to_next(self, now: float) -> float:
        """Return the seconds until `act` has something to do."""
        return max(0.0, min(self._conversation.next_at, self.watch.next_at) - now)

    def act(self, now: float) -> None:
        """Take the actions that are due, such as sending a heartbeat or reconnecting. Then send the queued items."""
        while (action := self._conversation.look(now)) is not states.NOTHING:
            self._actions[action]()
        if now >= self.watch.look_at:
            self.watch.look(now)
        self.send()
        if self._wait:
            self._report_wait()

    def _unreadable_error(self, what: str, reason: str, check: str) -> BaseException:
        return ProtocolError(
            f"{what}, {TRIES_MOST} times while this call was open; the last error: {reason}; check {check}"
        )


NAME_CHARACTERS = 64
"""The most characters in the name of a client."""


def make_hello(client_id: ClientId, nest: TaskContext, label: str = "", name: str = "") -> ClientHello:
    """Return the hello of a client.

    Args:
        nest: the context of the task that the client is in; an empty context outside tasks of this scheduler.
        label: a label for a client that submits no tasks, shown before its user and host. A client with a label may
            have any Python version.
        name: the name of the program, shown to people; if empty, its script and process id.
    """
    versions = (PROTOCOL_VERSION, __version__, platform.python_version(), "" if label else cloudpickle.__version__)
    program = name or _program(is_nested=nest.agent_token != NO_ID)
    full_label = f"{label} {_LABEL}" if label else f"{program}, {_LABEL}"
    return ClientHello(*versions, client_id, nest.agent_token, nest.processor, label=full_label)


def _program(is_nested: bool) -> str:
    """Return the name of the running script, with the process id. Inside a task, "a task" replaces the name."""
    if is_nested:
        return f"a task in process {os.getpid()}"
    script = sys.argv[0] if sys.argv else ""  # an embedded interpreter may have none
    name = {"": "python", "-": "python", "-c": "python -c", "-m": "python -m"}.get(script) or os.path.basename(script)  # noqa: PTH119
    if name in ("ipykernel_launcher.py", "colab_kernel_launcher.py"):
        name = "notebook"
    return f"{printable(name, NAME_CHARACTERS)} {os.getpid()}"


def _label() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


_LABEL = _label()
"""the user and host of this process, computed once, so that a forked processor need not look up the user again"""
