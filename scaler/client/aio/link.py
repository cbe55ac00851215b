"""AsyncLink: holds a client's session with the scheduler in an event loop, without a thread.

    futures, maps --calls--> AsyncLink --ClientProtocol--> scheduler
    futures, maps <--------- AsyncLink <-ClientProtocol--  scheduler

It acts in turns, each a short callback of the loop: it reads one message, takes some calls, and does and sends what is
due. All methods are for the thread of the loop, except those that a garbage collection may call. It runs no user code,
does not block, and ends each future.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from functools import partial

from scaler import task_context
from scaler.client.calls.entry import Entry, GraphCalls, MakeError, ResultReceiver
from scaler.client.link.link import ClientLink, Command
from scaler.client.outcome import client_ended
from scaler.endpoint import Endpoint
from scaler.ids import ClientId, ObjectId
from scaler.peer.times import Patience

COMMANDS_A_TURN = 128
"""More wait for the next turn, so that the loop is never held up for long."""


class AsyncLink(ClientLink):
    """The connection of one client.

    Args:
        timeout_seconds: how long open work waits for a missing scheduler.
        heartbeat_seconds: the time between two heartbeats.
        name: of the program, for people who watch; empty: its script and process id.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: ClientId,
        timeout_seconds: float,
        heartbeat_seconds: float,
        loop: asyncio.AbstractEventLoop,
        name: str = "",
    ) -> None:
        self.loop = loop
        self._thread = threading.get_ident()
        self._ending: MakeError = self._disconnected
        self._watched: dict[int, int] = {}
        """our own copies of the descriptors of the connection: these are closed before anybody hears of it"""
        self._watched_dial = 0
        self._ready: set[int] = set()
        self._commands: deque[Command] = deque()
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        patience = Patience(heartbeat_seconds, timeout_seconds)
        super().__init__(endpoint, client_id, patience, "await or asyncio.wait(futures)", name=name)
        if self.is_nested:
            task_context.current.keep_while(self._work.is_waiting, self.abandon)
        self._turn_soon()

    # Calls

    def is_own_thread(self) -> bool:
        """Return whether this is called in the thread of the loop."""
        return threading.get_ident() == self._thread

    def submit(self, entry: Entry) -> None:
        """Send a task."""
        if self.closed_because:
            entry[1].fail(self._ending)
            return
        if self.is_nested:
            task_context.current.submitted(entry[0].task_id, self.cancel)
        self._put(partial(self._work.add, entry))

    def submit_rows(self, take: Callable[[], Iterable[Entry]]) -> None:
        """Send the tasks that `take` gives when the link comes to it."""
        self._put(partial(self._work.add_rows, take))

    def submit_graph(self, graph: GraphCalls) -> None:
        """Send a graph."""
        if self.closed_because:
            graph.fail(self._ending)
            return
        if self.is_nested:
            for task_id in graph.sinks:
                task_context.current.submitted(task_id, self.cancel)
        self._put(partial(self._work.add_graph, graph))

    def fetch(self, object_id: ObjectId, receiver: ResultReceiver, keep: bool = False) -> None:
        """Ask for a large result."""
        if self.closed_because:
            receiver.fail(self._ending)
            return
        self._work.large.request(object_id, receiver, keep)
        self._turn_soon()

    def clear(self) -> None:
        """Cancel everything and delete all objects."""
        self.check_open()
        self._run_commands(len(self._commands))
        self._work.clear(CancelledError)
        self._turn_soon()

    # Turns

    def _put(self, command: Command) -> None:
        if self.closed_because:
            return
        self._commands.append(command)
        self._turn_soon()

    def _turn_soon(self) -> None:
        if self._is_turn_due:
            return
        self._is_turn_due = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            if self.is_own_thread():
                self.loop.call_soon(self._turn)
            else:
                self.loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self.closed_because:
            return
        try:
            self._act()
        except BaseException:  # raised again: first, each future must end
            self._end("the link to the scheduler failed, see the log; this is a bug")
            raise

    def _act(self) -> None:
        protocol = self._protocol
        ready, self._ready = self._ready, set()
        protocol.handle_ready(ready)
        self._run_commands(COMMANDS_A_TURN)
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

    def _run_commands(self, most: int) -> None:
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
        if not self.closed_because:
            self._run_commands(len(self._commands))
            self._ending = client_ended
            self.end_warnings.cancelled = self._work.count_wanted()
            self._protocol.send_goodbye()
            self._end("this client is disconnected; make a new one")
        self.end_warnings.log_warnings()

    def fail(self, make_error: MakeError) -> None:
        """Fail all open work for good, because its results will never come. For any thread."""
        if not self.is_own_thread():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.fail, make_error)
        elif not self.closed_because:
            self._ending = make_error
            self._protocol.send_goodbye()
            self._end(str(make_error()))

    def close(self) -> None:
        """Close the connection; that may wait for what is still to be sent. For any thread, after `leave`."""
        self._protocol.end()

    def abandon(self) -> None:
        """Leave and close. For any thread: in that of the loop, while it runs, and here if it does not."""
        if not self.is_own_thread() and self.loop.is_running():
            self.loop.call_soon_threadsafe(self.abandon)
            return
        self.leave()
        self.close()

    def _end(self, reason: str) -> None:
        self.closed_because = reason
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        try:
            self._run_commands(len(self._commands))
        finally:  # even if this raises, each future must end
            self._work.give_up(self._ending, self._disconnected, tell=False)
            self._work.forget_everything()
