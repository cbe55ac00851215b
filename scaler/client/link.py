"""Link: a client's connection to the scheduler, and the thread that looks after it.

    user's threads --queue, one wake-up--> link thread --one message of columns--> scheduler
    futures, maps <-----------------------  link thread <----------------------------  scheduler

Written to by the client, futures, maps and references (any thread, by appending to a queue) and by the scheduler;
hands answers to the futures and maps. One thread at a time touches the socket: its own, or, while that sleeps and
nothing is open, one that submits. A connection that was cut, that the scheduler does not know, on which it stays silent
or says what cannot be read is replaced by a new one; then everything that is open is said again, because nobody knows
what was lost on the way.

Must never: run the user's code, block on anything but its own descriptors, or leave a future without an end.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeAlias

import cloudpickle

from scaler import surroundings
from scaler.client.connection import Connection
from scaler.client.future import Callbacks
from scaler.client.inbox import Inbox
from scaler.client.open_graphs import OpenGraph
from scaler.client.open_work import TRIES_MOST, MakeError, OpenTask, OpenWork, Receiver, Sink
from scaler.client.patience import Patience
from scaler.errors import DisconnectedError, ProtocolError
from scaler.ids import NO_ID, ClientId, ObjectId, SchedulerId, TaskId
from scaler.version import __version__
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEchos,
    ClientHello,
    ClientResting,
    ClientShutdownResponses,
    GoodbyeKind,
    TaskResults,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    HelloReplies,
    HelloReply,
    HelloRequests,
    ObjectInstruction,
    ObjectRequests,
    ObjectResponses,
)

LOGGER = logging.getLogger("scaler.client")

GOODBYE_SECONDS = 0.5
"""How long the last words to a scheduler that is there may take."""

Command: TypeAlias = Callable[[], None]


class Link:
    """The connection of one client. Its methods may be called from any thread, also by a garbage collection: no locks.

    Args:
        address: where the scheduler listens.
        client_id: the same on each connection.
        timeout_seconds: how long work waits for a scheduler that stays away.
        heartbeat_seconds: the time between two heartbeats.
        silence_seconds: how long a scheduler may be silent before a new connection is tried.
    """

    def __init__(
        self,
        address: str,
        client_id: ClientId,
        timeout_seconds: float,
        heartbeat_seconds: float,
        silence_seconds: float | None = None,
    ) -> None:
        self.address = address
        self.client_id = client_id
        self._timeout_seconds = timeout_seconds
        self.callbacks = Callbacks()
        self._closed_because = ""
        self._ending: MakeError | None = None
        self._is_foreign = False
        self._turn = threading.Lock()
        """whoever has it may touch the socket and the tables: the thread while it is awake, or a lone submit"""
        self._is_doubtful = False
        self._inbox: Inbox[OpenTask | Command] = Inbox(self._refuse)
        self._put = self._inbox.put
        self._work = OpenWork()
        self._handlers: dict[type, Callable[[Any], None]] = {
            HelloReplies: self._on_hello_replies,
            HelloRequests: self._on_hello_requests,
            TaskResults: self._work.on_results,
            ObjectResponses: self._on_objects,
            ObjectRequests: self._on_object_requests,
            ClientShutdownResponses: self._on_shutdown_responses,
            ClientHeartbeatEchos: _ignore,
        }
        self._connection = Connection(address, self._inbox.descriptor)
        self._is_welcome = False
        self._scheduler_id = SchedulerId(NO_ID)
        self._patience = Patience(time.monotonic(), timeout_seconds, heartbeat_seconds, silence_seconds)
        self.bad_message_count = 0
        self._heard = 0
        """how many items the scheduler has said on this connection"""
        self._wait = 0
        """the number of the wait, while the task that this client is in does nothing else; 0: it does"""
        self._is_wait_over: Callable[[], bool] = bool
        self._is_rest_said = False
        self._is_nested = address == surroundings.current.address
        if self._is_nested:
            surroundings.current.keep_while(self._work.is_waiting)
        _links.add(self)
        # Before the thread starts: a thread that is made by the first submit would be part of its cost.
        self._thread = threading.Thread(target=self._run, name="scaler-link", daemon=True)
        self._thread.start()

    # For every thread

    def submit(self, entry: OpenTask) -> None:
        """Send a task."""
        if self._closed_because:
            raise DisconnectedError(self._closed_because)
        if self._is_nested:
            surroundings.current.submitted(entry[0].task_id, self.cancel)
        if self._is_idle():
            with self._turn:
                if self._is_idle():
                    self._send_at_once(entry)
                    return
        self._put(entry)

    def submit_graph(self, graph: OpenGraph) -> None:
        """Send a graph."""
        self.check_open()
        if self._is_nested:
            for task_id in graph.sinks:
                surroundings.current.submitted(task_id, self.cancel)
        self._inbox.put(_Request(partial(self._work.add_graph, graph), graph))

    def _is_idle(self) -> bool:
        """Return whether the thread sleeps with nothing open: to wake it up would cost more than to do its work."""
        return self._inbox.is_asleep and self._is_welcome and not self._work.is_waiting()

    def _send_at_once(self, entry: OpenTask) -> None:
        """Do what the thread would do. It saves a switch of threads, the twentieth part of a lone round trip.

        After an interrupt nobody knows what was said: then the connection is given up, and everything is said again.
        """
        try:
            self._work.add(entry)
            self._patience.set_waiting(True, time.monotonic())
            self._send()
            if self._connection.has_message():
                self._inbox.rouse()  # sending has looked at the socket: its descriptor does not tell it again
        except BaseException:
            self._is_doubtful = True
            self._inbox.rouse()
            raise

    def check_open(self) -> None:
        """Raise `DisconnectedError` if nothing can be sent any more."""
        if self._closed_because:
            raise DisconnectedError(self._closed_because)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return bool(self._closed_because)

    def check_process(self) -> None:
        """Raise `DisconnectedError` in a process that was forked from the client's: no thread would ever end its
        futures.
        """
        if self._is_foreign:
            raise DisconnectedError(self._closed_because)

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def cancel(self, task_id: TaskId) -> None:
        self._inbox.put(partial(self._work.cancel, task_id))

    def abandon(self, sink: Sink) -> None:
        self._inbox.put(partial(self._work.abandon, sink))

    def hold(self, instruction: ObjectInstruction) -> None:
        self.check_open()
        self._inbox.put(partial(self._work.hold, instruction))

    def release(self, object_id: ObjectId) -> None:
        self._inbox.put(partial(self._work.release, object_id))

    def forget_result(self, object_id: ObjectId) -> None:
        self._inbox.put(partial(self._work.forget_result, object_id))

    def fetch(self, object_id: ObjectId, receiver: Receiver) -> None:
        """Ask for a large result. The receiver hears of it, or of the reason why not."""
        self._inbox.put(_Request(partial(self._work.request, object_id, receiver), receiver))

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Say that the process only waits, as `surroundings.Voice` has it."""
        if self._is_nested:
            self._inbox.put(partial(self._set_wait, wait, is_over))

    def _set_wait(self, wait: int, is_over: Callable[[], bool]) -> None:
        self._wait, self._is_wait_over = wait, is_over
        self._is_rest_said = False

    def clear(self) -> None:
        """Cancel everything and delete all objects; when this returns, all futures have ended."""
        self.check_open()
        reply: Future[None] = Future()
        self._inbox.put(_Request(partial(self._clear, reply), _Asker(reply)))
        reply.result()

    def _clear(self, reply: Future[None]) -> None:
        self._work.clear(CancelledError)
        reply.set_result(None)

    def shut_down(self) -> Future[None]:
        """Ask the scheduler to end; the future has its answer."""
        self.check_open()
        reply: Future[None] = Future()
        self._inbox.put(_Request(partial(self._work.shut_down, reply), _Asker(reply)))
        return reply

    def close(self, wait_seconds: float | None = None) -> None:
        """Leave: cancel what is open, say goodbye, end the thread. May be called any number of times.

        Args:
            wait_seconds: how long to wait for the end; 0 = not at all, None = as long as it takes.
        """
        if self._is_foreign:
            return
        self._closed_because = self._closed_because or "this client is disconnected; make a new one"
        self._ending = self._ending or CancelledError
        self._inbox.rouse()
        if wait_seconds != 0 and not self.is_own_thread():
            self._thread.join(wait_seconds)

    def _refuse(self, item: OpenTask | Command) -> None:
        """Fail what came after the end."""
        if isinstance(item, tuple):
            item[1].fail(self._ending or self._disconnected)
        elif isinstance(item, _Request):
            item.receiver.fail(self._disconnected)

    def _disconnected(self) -> BaseException:
        return DisconnectedError(self._closed_because)

    def leave_to_parent(self) -> None:
        """This is the copy in a forked process, where the thread does not exist: never touch what both share."""
        self._closed_because = "this client belongs to the process that this one was forked from; make a new one here"
        self._is_foreign = True
        self._inbox.leave_to_parent()

    # The thread

    def _run(self) -> None:
        with self._turn:
            try:
                self._open()
                while self._ending is None:
                    self._listen()
                    self._obey()
                    self._look_at_the_clock(time.monotonic())
                    self._send()
                    if self._wait and not self._is_rest_said:
                        self._say_rest()
                if self._is_welcome:
                    self._work.out.append(ClientDisconnect(GoodbyeKind.DISCONNECT))
                    self._send()
            finally:
                self._end()

    def _end(self) -> None:
        self._closed_because = self._closed_because or "the link to the scheduler failed, see the log; this is a bug"
        make_error = self._ending or self._disconnected
        self._obey()
        self._work.give_up(make_error, self._disconnected, tell=False)
        self._work.forget_everything()
        self._inbox.end()
        self.callbacks.close()
        self._connection.end(GOODBYE_SECONDS if self._is_welcome else 0)
        self._is_welcome = False

    def _listen(self) -> None:
        """Handle what the scheduler has said; if that is nothing, wait until there is something to do."""
        if self._receive():  # a look that finds nothing arms ZeroMQ's descriptor, which tells each thing only once
            return
        may_sleep = self._inbox.fall_asleep() and self._ending is None
        seconds = self._patience.seconds_to_next(time.monotonic()) if may_sleep else 0.0
        self._turn.release()
        ready = self._connection.wait(seconds)
        self._turn.acquire()
        self._inbox.wake_up(self._inbox.descriptor in ready)
        # Asked first and acted upon last: what arrived before the cut still counts.
        was_cut = self._connection.was_cut(ready)
        if was_cut or self._connection.has_arrived(ready):
            self._receive()
        if was_cut:
            self._lose("it was cut")
        elif self._is_doubtful:
            self._lose("a submit was interrupted")

    def _receive(self) -> bool:
        """Handle what has arrived. Returns whether there was anything."""
        has_received = False
        try:
            while (batches := self._connection.receive()) is not None:
                has_received = True
                self._on_heard(batches)
                for batch in batches:
                    self._heard += len(batch)
                    self._handlers[type(batch)](batch)
                self._is_rest_said = False
        except ProtocolError as error:
            self.bad_message_count += 1
            self._lose(f"what came is no message of a scheduler: {error}")  # nobody knows which answers were in it
            self._work.on_unreadable(partial(self._unreadable, str(error)))
            return True
        return has_received

    def _obey(self) -> None:
        """Do what other threads have queued."""
        take, add = self._inbox.take, self._work.add
        while (item := take()) is not None:
            if isinstance(item, tuple):
                add(item)
            else:
                item()

    def _send(self) -> None:
        work = self._work
        if not work.out:
            return
        if not self._is_welcome:
            work.drop_unsaid()
            return
        out, work.out = work.out, []
        self._connection.send(out)
        self._is_rest_said = False

    def _say_rest(self) -> None:
        """Everything is said, and what was heard has not ended the wait: it takes more of the scheduler's words."""
        if self._is_welcome and not self._is_wait_over():
            self._connection.send([ClientResting(self._wait, self._heard)])
            self._is_rest_said = True

    # Its connection

    def _open(self) -> None:
        try:
            self._connection.open()
        except OSError as error:
            self._closed_because = f"nobody can connect to {self.address}: {error}"
            self._ending = self._disconnected
            return
        self._patience.opened(time.monotonic())
        self._heard = 0
        hello = ClientHello(
            PROTOCOL_VERSION, __version__, platform.python_version(), cloudpickle.__version__, self.client_id
        )
        if self._is_nested:
            here = surroundings.current
            hello = dataclasses.replace(hello, nest_id=here.nest_id, processor=here.processor)
        self._connection.send([hello])

    def _lose(self, reason: str) -> None:
        """Give a connection up, and open the next one: at once the first time, else after a pause."""
        if not self._connection.is_open:
            return
        LOGGER.debug("lost the connection to %s: %s", self.address, reason)
        self._connection.close()
        self._is_welcome = self._is_doubtful = False
        self._patience.lost(time.monotonic())

    def _on_hello_replies(self, batch: HelloReplies) -> None:
        for reply in batch:
            if self._is_welcome:
                continue
            if not reply.accepted:
                self._on_refused(reply)
                return
            if self._scheduler_id not in (NO_ID, reply.scheduler_id):
                LOGGER.info("another scheduler answers at %s: it is told again what is open", self.address)
            self._scheduler_id = SchedulerId(reply.scheduler_id)
            self._is_welcome = True
            self._patience.welcomed(time.monotonic())
            self._work.say_again()

    def _on_refused(self, reply: HelloReply) -> None:
        self._closed_because = (
            f"the scheduler at {self.address} refused this client: {reply.reason or 'no reason given'}"
        )
        self._ending = self._disconnected

    def _on_hello_requests(self, batch: HelloRequests) -> None:
        self._lose(f"the scheduler asks for a new hello: {batch[0].reason if batch else ''}")

    def _on_objects(self, batch: ObjectResponses) -> None:
        for response in batch:
            self._work.on_object(response)

    def _on_object_requests(self, batch: ObjectRequests) -> None:
        for request in batch:
            self._work.on_object_request(request)

    def _on_shutdown_responses(self, batch: ClientShutdownResponses) -> None:
        for response in batch:
            self._work.on_shutdown_response(response)

    # Its clock

    def _on_heard(self, batches: list[Batch[Any]]) -> None:
        if self._is_welcome:
            self._patience.heard()
            if any(type(batch) is not HelloRequests for batch in batches):
                self._patience.proved()

    def _look_at_the_clock(self, now: float) -> None:
        patience = self._patience
        patience.set_waiting(self._work.is_waiting(), now)
        if now >= patience.gives_up_at():
            self._work.give_up(self._timed_out, self._timed_out, tell=self._scheduler_id != NO_ID)
            patience.set_waiting(False, now)
        if now >= patience.silent_at():
            self._lose("the scheduler is silent")
        if now >= patience.opens_at:
            self._open()
        if now >= patience.heartbeat_at:
            patience.heartbeat_sent(now)
            self._work.out.append(ClientHeartbeat(time.monotonic_ns()))

    def _unreadable(self, text: str) -> BaseException:
        return ProtocolError(
            f"{TRIES_MOST} times while this was open, what came from {self.address} could not be read, the last time "
            f"because of this: {text}; check that a scheduler of the same version listens there, and what is in between"
        )

    def _timed_out(self) -> BaseException:
        return TimeoutError(
            f"no scheduler answered at {self.address} for {self._timeout_seconds:g} seconds; check that one runs "
            f"there (scaler_scheduler {self.address}) and that this machine can reach it"
        )


class _Request:
    """A command that somebody waits for."""

    __slots__ = ("command", "receiver")

    def __init__(self, command: Command, receiver: Receiver | OpenGraph | _Asker) -> None:
        self.command = command
        self.receiver = receiver

    def __call__(self) -> None:
        self.command()


class _Asker:
    """Hears that it is too late to ask."""

    def __init__(self, reply: Future[None]) -> None:
        self._reply = reply

    def fail(self, make_error: MakeError) -> None:
        self._reply.set_exception(make_error())


def _ignore(_batch: Batch[Any]) -> None:
    """Hearing it was all."""


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _leave_links_to_parent() -> None:
    for link in list(_links):
        link.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_links_to_parent)
