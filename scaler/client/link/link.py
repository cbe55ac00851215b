"""ClientLink: the thread that holds a client's conversation with the scheduler, and queues the client's commands.

    user's threads --queue, one wake-up--> link thread --ClientProtocol--> scheduler
    futures, maps <-----------------------  link thread <-ClientProtocol--  scheduler

Any thread may append to the queue. One thread at a time uses the protocol: the link thread, or a thread that submits
while the link thread sleeps and few tasks are open. The link thread runs no user code, and ends every future.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

from scaler import task_context
from scaler.client.calls.entry import Entry, GraphCalls, MakeError, ResultReceiver, Sink
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link.callbacks import Callbacks
from scaler.client.link.connection import ClientConnection
from scaler.client.link.end_warnings import EndWarnings
from scaler.client.link.inbox import Inbox
from scaler.client.link.open_work import OpenWork
from scaler.client.link.protocol import ClientProtocol, make_hello
from scaler.client.link.requests import Answer, Inquiry, JobQuestion, OnOutput, OutputListener
from scaler.client.link.waiting import OnAnswer, advised
from scaler.client.outcome import client_ended
from scaler.durations import Durations
from scaler.endpoint import Endpoint
from scaler.errors import AuthenticationError, DisconnectedError
from scaler.ids import NO_ID, ClientId, ObjectId, TaskId
from scaler.jobs.names import check_job_name
from scaler.keys.key_file import CLIENT, WORKER
from scaler.peer.times import Patience
from scaler.task_context import TaskContext
from scaler.transport.opening import open_transport
from scaler.wire.messages.common import ObjectInstruction

T = TypeVar("T")

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


FEW_TASKS = 3
"""The most open tasks with which a user's thread that submits a task also sends it."""

_NO_TASK = TaskId(NO_ID)

HOUSEKEEPING_DELAY_SECONDS = 0.1
"""The longest postponement of housekeeping after the result of the only open task: see `ClientLink._fall_asleep`."""


class ClientLink:
    """The connection of one client, held by a thread. Methods may be called from any thread, including finalizers,
    unless they say otherwise.

    Args:
        client_id: the id of the client, the same on each connection.
        timeout_seconds: how long open work waits for a missing scheduler.
        heartbeat_seconds: the time between two heartbeats.
        silence_seconds: how long a scheduler may be silent before a new connection is tried.
        label: a name shown to people, for a client that runs no tasks.
        name: the name of the program, shown to people; if empty, its script and process id.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: ClientId,
        timeout_seconds: float,
        heartbeat_seconds: float,
        silence_seconds: float | None = None,
        label: str = "",
        name: str = "",
    ) -> None:
        self.address = endpoint.address
        self.client_id = client_id
        self.closed_because = ""
        """the reason why nothing can be sent any longer; empty while the link is open"""
        self.is_nested = self.address == task_context.current.address
        self.endpoint = task_context.with_agent_settings(endpoint) if self.is_nested else endpoint
        self.end_warnings = EndWarnings("future.result() or concurrent.futures.wait(futures)", self.is_nested)
        self.limit = ValueLimit(self.address)
        self.durations = Durations(math.inf, FUNCTIONS_REMEMBERED)
        self.callbacks = Callbacks()
        self._is_detached = False
        """whether `close` was called without waiting for the end of the thread"""
        self._ending: MakeError | None = None
        self._is_forked = False
        self._turn = threading.Lock()
        """the lock of the socket and the tables; its holder is the link thread while awake, or a thread that submits"""
        self._housekeeping_at = math.inf
        """when the postponed housekeeping is due; infinite if none is postponed"""
        self._was_interrupted = False
        """whether an interrupt hit a user's thread that sent work; it is unknown then which items were sent"""
        self._work = OpenWork(self.limit)
        self._work.advised = partial(advised, address=self.address)
        transport = open_transport(self.endpoint, WORKER if self.is_nested else CLIENT)  # raises if a key is unreadable
        self._inbox: Inbox[Entry | Command] = Inbox(self._refuse)
        self._put = self._inbox.put
        self._connection = ClientConnection(transport, self._inbox.descriptor)
        hello = make_hello(client_id, task_context.current if self.is_nested else TaskContext(), label, name)
        patience = Patience(heartbeat_seconds, timeout_seconds, silence_seconds)
        self._protocol = ClientProtocol(hello, self._connection, patience, self._work)
        self.advice = self._protocol.advice
        self._thread = threading.Thread(target=self._run, name="scaler-link", daemon=True)
        self._start()

    def _start(self) -> None:
        """Start the thread now, so that the first submit does not pay for it."""
        links.add(self)
        if self.is_nested:
            task_context.current.keep_while(self._is_needed, partial(self.close, 0))
        self._thread.start()

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

    def submit(self, entry: Entry) -> None:
        """Submit a task."""
        if self.closed_because:
            raise self._disconnected()
        if self.is_nested:
            task_context.current.submitted(entry[0].task_id, self.cancel)
        if self._inbox.is_asleep and not self._turn.locked():
            with self._turn:
                if self._try_send(self._work.add, entry):
                    return
        self._put(entry)

    def submit_rows(self, take: Callable[[], Iterable[Entry]], sink: Sink) -> None:
        """Submit the tasks of a map. `take` returns the tasks; it is called in the thread that sends them.

        If this client is in a task, the submitted tasks are cancelled when that task ends.
        """
        self.check_open()
        if self.is_nested:
            task_context.current.submitted(_NO_TASK, lambda _task_id: self.abandon(sink))
        if self._inbox.is_asleep and not self._turn.locked():
            with self._turn:
                if self._try_send(self._work.add_rows, take):
                    return
        self._put(Request(partial(self._work.add_rows, take), sink))

    def submit_graph(self, graph: GraphCalls) -> None:
        """Submit a graph."""
        self.check_open()
        if self.is_nested:
            for task_id in graph.sinks:
                task_context.current.submitted(task_id, self.cancel)
        self._put(Request(partial(self._work.add_graph, graph), graph))

    def _is_needed(self) -> bool:
        """Return whether work may be open. True also while the link's thread is awake: it may take queued work."""
        return not self._inbox.is_asleep or self._work.is_waiting()

    def _try_send(self, add: Callable[[T], None], what: T) -> bool:
        """Send work in this thread, if the link's thread sleeps and few tasks are open. Return whether work was sent.

        This saves a thread switch, which takes a twentieth of the round trip of a single task. If an interrupt arrives
        meanwhile, it is unknown which items were sent: the connection is replaced, and all open work is sent again.
        """
        if not (self._inbox.is_asleep and self._protocol.is_accepted) or self._work.is_waiting(FEW_TASKS):
            return False
        try:
            add(what)
            if self._protocol.send_at_once():
                self._inbox.rouse()  # sending has read the socket's state, so its descriptor will not fire again
        except BaseException:  # raised again: an interrupt may come anywhere here
            self._was_interrupted = True
            self._inbox.rouse()
            raise
        return True

    def check_process(self) -> None:
        """Raise `DisconnectedError` in a forked process, where no thread would end the futures of this client."""
        if self._is_forked:
            raise self._disconnected()

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def cancel_waiting(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        """Cancel a task as `ClientProtocol.cancel_waiting` does. `on_answer` is called in the link's thread."""
        self._put(partial(self._protocol.cancel_waiting, task_id, on_answer))

    def abandon(self, sink: Sink) -> None:
        self._put(partial(self._work.abandon, sink))

    def fetch(self, object_id: ObjectId, receiver: ResultReceiver, keep: bool = False) -> None:
        """Request a large result. With `keep`, the scheduler keeps the result until its future is garbage-collected."""
        self._put(Request(partial(self._work.large.request, object_id, receiver, keep), receiver))

    def read_oldest_report(self, on_output: OnOutput) -> None:
        """Request the latest progress report of this client's oldest open task. Do nothing if no task is open."""
        self._put(partial(self._protocol.ask_oldest_report, on_output))

    def clear(self) -> None:
        """Cancel all tasks and delete all objects. When this returns, all futures have ended."""
        self.check_open()
        reply: Answer[None] = Answer(partial(self._work.clear, CancelledError))
        self._put(Request(reply.take, reply))
        reply.result()

    def close(self, wait_seconds: float | None = None) -> None:
        """Leave the scheduler: cancel open tasks, send a goodbye, and end the thread. May be called repeatedly.

        Args:
            wait_seconds: how long to wait for the end of the thread; 0: do not wait, None: wait without limit.
        """
        if self._is_forked:
            return
        self.closed_because = self.closed_because or "this client is disconnected; make a new one"
        self._ending = self._ending or client_ended
        self._is_detached = self._is_detached or wait_seconds == 0 or self.is_own_thread()
        self._inbox.rouse()
        if not self._is_detached:
            self._thread.join(wait_seconds)
            self.end_warnings.log_warnings()

    def fail(self, make_error: MakeError) -> None:
        """End the link, and fail all open work with the error that `make_error` makes."""
        self.closed_because = self.closed_because or str(make_error())
        self._ending = self._ending or make_error
        self._inbox.rouse()

    def _refuse(self, item: Entry | Command) -> None:
        """Fail an item that was put into the inbox after the end of the link."""
        if isinstance(item, tuple):
            item[1].fail(self._ending or self._disconnected)
        elif isinstance(item, Request):
            item.receiver.fail(self._disconnected)

    def leave_to_parent(self) -> None:
        """Close the link in a forked process, which has no link thread, without touching the parent's socket."""
        self.closed_because = "this client belongs to the parent of this forked process; make a new one here"
        self._is_forked = True
        self._inbox.leave_to_parent()

    # The thread

    def _run(self) -> None:
        protocol = self._protocol
        with self._turn:
            try:
                protocol.act(time.monotonic())
                while self._ending is None and not protocol.ended_because:
                    seconds = self._fall_asleep()
                    self._wake_up(self._connection.wait(seconds))
                protocol.send_goodbye()
            finally:
                self._end()

    def _end(self) -> None:
        if not self.closed_because:
            bug = "the link to the scheduler failed, see the log; this is a bug"
            self.closed_because = self._protocol.ended_because or bug
        try:
            self._run_commands()
        finally:  # even if this raises, each future must end
            if self._ending is client_ended:
                self.end_warnings.cancelled = self._work.count_wanted()
            self._work.give_up(self._ending or self._disconnected, self._disconnected, tell=False)
            self._work.forget_everything()
            self._inbox.end()
            self.callbacks.close()
            self._protocol.end()
            if self._is_detached:
                self.end_warnings.log_warnings()

    def _fall_asleep(self) -> float:
        """Do all pending work, and release the turn. Return the seconds until further work is due.

        If no work is open, housekeeping is postponed, because until this thread sleeps, the user's thread cannot take
        the interpreter's lock. Even the read that would find the socket empty is postponed. If the user's thread then
        submits and sends a task itself, it also does that read.
        """
        inbox = self._inbox
        seconds = 0.0
        if not (self._connection.is_drained or self._work.is_waiting() or inbox.has_items):
            now = time.monotonic()
            self._housekeeping_at = min(self._housekeeping_at, now + HOUSEKEEPING_DELAY_SECONDS)
            seconds = self._housekeeping_at - now
        if seconds <= 0:
            self._housekeeping_at = math.inf
            self._act()
            seconds = self._protocol.seconds_to_next(time.monotonic())
        may_sleep = inbox.fall_asleep() and self._ending is None and not self._protocol.ended_because
        self._turn.release()
        return seconds if may_sleep else 0.0

    def _wake_up(self, ready: Container[int]) -> None:
        """Take the turn, and handle the next message, if any. `ready` is the result of `ClientConnection.wait`."""
        self._turn.acquire()
        self._inbox.wake_up(self._inbox.descriptor in ready)
        self._protocol.handle_ready(ready)
        if self._was_interrupted:
            self._was_interrupted = False
            self._protocol.drop_connection("a submit was interrupted")

    def _act(self) -> None:
        """Handle all messages, run the commands of other threads, take the actions that are due, and send items."""
        connection, protocol = self._connection, self._protocol
        is_new = True
        if not connection.is_drained:
            protocol.receive()
        while is_new:
            if self._inbox.has_items:
                self._run_commands()
            protocol.act(time.monotonic())
            # ZeroMQ's descriptor is edge-triggered: only an empty read re-arms it.
            is_new = not connection.is_drained and protocol.receive()

    def _run_commands(self) -> None:
        """Run the commands that other threads have queued. A series of plain tasks is added in one step."""
        take, work = self._inbox.take, self._work
        row: list[Entry] = []
        while (item := take()) is not None:
            if isinstance(item, tuple) and not (item[3] or item[0].inputs):
                row.append(item)
                continue
            if row:
                work.add_all(row)
                row = []
            if isinstance(item, tuple):
                work.add(item)
            else:
                item()
        if row:
            work.add_all(row)


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
