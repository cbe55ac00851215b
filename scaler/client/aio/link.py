"""AsyncLink: holds a client's conversation with the scheduler in an event loop, without a thread.

    futures, maps --calls--> AsyncLink --ClientProtocol--> scheduler
    futures, maps <--------- AsyncLink <-ClientProtocol--  scheduler

It acts in turns, each a short callback of the loop: it reads one message, takes some calls, and does and sends what is
due. All methods are for the thread of the loop, except those that a garbage collection may call.

Must never: run user code, block, or leave a future without an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import TypeAlias

from scaler import task_context
from scaler.client.calls.entry import Entry, GraphEntry, MakeError, Receiver, ShutdownReply
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link.connection import Connection
from scaler.client.link.loose_ends import LooseEnds
from scaler.client.link.open_work import OpenWork
from scaler.client.link.protocol import ClientProtocol, make_hello
from scaler.client.link.requests import Inquiry, OnOutput, Stream
from scaler.client.link.waiting import OnAnswer
from scaler.client.outcome import client_ended
from scaler.endpoint import Endpoint
from scaler.errors import DisconnectedError
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.peer.times import Patience
from scaler.task_context import TaskContext
from scaler.transport.zeromq import open_transport
from scaler.wire.messages.common import ObjectInstruction

Command: TypeAlias = Callable[[], None]

COMMANDS_A_TURN = 128
"""More wait for the next turn, so that the loop is never held up for long."""


class AsyncLink:
    """The connection of one client.

    Args:
        endpoint: where the scheduler listens.
        client_id: the same on each connection.
        timeout_seconds: how long open work waits for a missing scheduler.
        heartbeat_seconds: the time between two heartbeats.
        loop: runs in this thread.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: ClientId,
        timeout_seconds: float,
        heartbeat_seconds: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.endpoint = endpoint
        self.address = endpoint.address
        self.client_id = client_id
        self.loop = loop
        self.is_nested = self.address == task_context.current.address
        self.loose_ends = LooseEnds("await or asyncio.wait(futures)", self.is_nested)
        self._thread = threading.get_ident()
        self._closed_because = ""
        self._ending: MakeError = self._disconnected
        self.limit = ValueLimit(self.address)
        self._work = OpenWork(self.limit)
        self._connection = Connection(open_transport(endpoint))
        self._protocol = ClientProtocol(
            make_hello(client_id, task_context.current if self.is_nested else TaskContext()),
            self._connection,
            Patience(heartbeat_seconds, timeout_seconds),
            self._work,
        )
        self.advice = self._protocol.advice
        self._watched: dict[int, int] = {}
        """our own copies of the descriptors of the connection: these are closed before anybody hears of it"""
        self._watched_dial = 0
        self._ready: set[int] = set()
        self._commands: deque[Command] = deque()
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        if self.is_nested:
            task_context.current.keep_while(self._work.is_waiting, self.abandon)
        _links.add(self)
        self._turn_soon()

    # Calls

    def check_open(self) -> None:
        """Raise `DisconnectedError` if nothing can be sent any more."""
        if self._closed_because:
            raise DisconnectedError(self._closed_because)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return bool(self._closed_because)

    def submit(self, entry: Entry) -> None:
        """Send a task."""
        if self._closed_because:
            entry[1].fail(self._ending)
            return
        if self.is_nested:
            task_context.current.submitted(entry[0].task_id, self.cancel)
        self._put(partial(self._work.add, entry))

    def submit_graph(self, graph: GraphEntry) -> None:
        """Send a graph."""
        if self._closed_because:
            graph.fail(self._ending)
            return
        if self.is_nested:
            for task_id in graph.sinks:
                task_context.current.submitted(task_id, self.cancel)
        self._put(partial(self._work.add_graph, graph))

    def cancel(self, task_id: TaskId) -> None:
        """Cancel a task, or its whole graph. For all threads."""
        self._put(partial(self._work.cancel, task_id))

    def fetch(self, object_id: ObjectId, receiver: Receiver, keep: bool = False) -> None:
        """Ask for a large result."""
        self._work.large.request(object_id, receiver, keep)
        self._turn_soon()

    def forget_result(self, object_id: ObjectId) -> None:
        """Delete a large result whose future is gone. For all threads."""
        self._put(partial(self._work.forget_result, object_id))

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        """Ask what an open task waits for. The answer comes in the loop, if one comes."""
        self._put(partial(self._protocol.ask, task_id, on_answer))

    def read_output(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None:
        """Ask what a task has written, or only what it has reported last. The answer comes in the loop, with nothing if
        the client ends.
        """
        self.check_open()
        self._put(partial(self._protocol.ask_output, task_id, on_output, report))

    def follow_output(self, stream: Stream) -> None:
        """Have each line that any task writes from now on go to `stream`."""
        self._put(partial(self._protocol.follow_output, stream))

    def inquire(self, inquiry: Inquiry) -> None:
        """Ask who is there. The inquiry gets answers or an error, in the loop."""
        self.check_open()
        self._put(partial(self._work.inquire, inquiry))

    def withdraw(self, inquiry: Inquiry) -> None:
        self._put(partial(self._work.withdraw, inquiry))

    def hold(self, instruction: ObjectInstruction) -> None:
        """Store an object."""
        self._put(partial(self._work.hold, instruction))

    def release(self, object_id: ObjectId) -> None:
        """Delete an object. For all threads."""
        self._put(partial(self._work.release, object_id))

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Tell the scheduler that the process only waits, see `task_context.WaitReporter`. For all threads."""
        if self.is_nested:
            self._put(partial(self._protocol.set_wait, wait, is_over))

    def clear(self) -> None:
        """Cancel everything and delete all objects."""
        self.check_open()
        self._obey(len(self._commands))
        self._work.clear(CancelledError)
        self._turn_soon()

    def shut_down(self, reply: ShutdownReply) -> None:
        """Ask the scheduler to end."""
        self.check_open()
        self._put(partial(self._work.shut_down, reply))

    # Turns

    def _put(self, command: Command) -> None:
        if self._closed_because:
            return
        self._commands.append(command)
        self._turn_soon()

    def _turn_soon(self) -> None:
        if self._is_turn_due:
            return
        self._is_turn_due = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            if threading.get_ident() == self._thread:
                self.loop.call_soon(self._turn)
            else:
                self.loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self._closed_because:
            return
        try:
            self._act()
        except BaseException:  # raised again: first, each future must end
            self._end("the link to the scheduler failed, see the log; this is a bug")
            raise

    def _act(self) -> None:
        protocol = self._protocol
        ready, self._ready = self._ready, set()
        protocol.hear(ready)
        self._obey(COMMANDS_A_TURN)
        protocol.act(time.monotonic())
        if protocol.ended_because:
            self._end(protocol.ended_because)
            return
        self._watch()
        if self._connection.has_message():  # ZeroMQ's descriptor is edge-triggered: only an empty read re-arms it
            self._ready.update(self._connection.descriptors[:1])
            self._turn_soon()
        elif self._commands:
            self._turn_soon()
        else:
            self._wake_in(protocol.seconds_to_next(time.monotonic()))

    def _obey(self, most: int) -> None:
        for _ in range(min(most, len(self._commands))):
            self._commands.popleft()()

    def _wake_in(self, seconds: float) -> None:
        at = self.loop.time() + seconds
        timer = self._timer
        if timer is not None and not timer.cancelled() and self.loop.time() < timer.when() <= at:
            return
        if timer is not None:
            timer.cancel()
        self._timer = self.loop.call_at(at, self._turn_soon)

    def _watch(self) -> None:
        """Watch the descriptors of the present connection."""
        if self._connection.dial_count == self._watched_dial and len(self._watched) == len(
            self._connection.descriptors
        ):
            return
        self._unwatch()
        self._watched_dial = self._connection.dial_count
        for descriptor in self._connection.descriptors:
            watched = self._watched[descriptor] = os.dup(descriptor)
            self.loop.add_reader(watched, self._is_ready, descriptor)
            self._is_ready(descriptor)  # it may have become readable before

    def _unwatch(self) -> None:
        watched, self._watched = self._watched, {}
        self._ready.clear()
        for descriptor in watched.values():
            if not self.loop.is_closed():
                self.loop.remove_reader(descriptor)
            os.close(descriptor)

    def _is_ready(self, descriptor: int) -> None:
        self._ready.add(descriptor)
        self._turn_soon()

    # The end

    def leave(self) -> None:
        """Cancel what is open, and say goodbye. `close` must follow. Any number of times."""
        if not self._closed_because:
            self._obey(len(self._commands))
            self._ending = client_ended
            self.loose_ends.cancelled = self._work.count_wanted()
            self._protocol.send_goodbye()
            self._end("this client is disconnected; make a new one")
        self.loose_ends.say()

    def close(self) -> None:
        """Close the connection; that may wait for what is still to be sent. For any thread, after `leave`."""
        self._protocol.end()

    def abandon(self) -> None:
        """Leave and close. For any thread: in that of the loop, while it runs, and here if it does not."""
        if threading.get_ident() != self._thread and self.loop.is_running():
            self.loop.call_soon_threadsafe(self.abandon)
            return
        self.leave()
        self.close()

    def _end(self, reason: str) -> None:
        self._closed_because = reason
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        try:
            self._obey(len(self._commands))
        finally:  # even if this raises, each future must end
            self._work.give_up(self._ending, self._disconnected, tell=False)
            self._work.forget_everything()

    def _disconnected(self) -> BaseException:
        return DisconnectedError(self._closed_because)

    def leave_to_parent(self) -> None:
        """In a forked process, where its loop does not run: never touch the parent's socket."""
        self._closed_because = "this client belongs to the process that this one was forked from; make a new one here"


_links: weakref.WeakSet[AsyncLink] = weakref.WeakSet()


def _leave_links_to_parent() -> None:
    for link in list(_links):
        link.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_links_to_parent)
