"""The shell: the main loop of a process, on an event loop: our own (`loop.py`) or uvloop.

    receive what has arrived -> run the dispatcher, which flushes -> sleep until a frame, a timer or a signal

The edge of the process (`Edge`) owns the sockets; the shell only decides when to call it. ZeroMQ's descriptor is
edge-triggered: only an empty read re-arms it, and sending counts as a read. So a turn ends only after an empty read.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from scaler.config import ConfigError
from scaler.kit import Dispatcher
from scaler.process.loop import Cancellable, EventLoop, Loop
from scaler.process.wakeful_clock import WakefulClock

TURNS_PER_WAKE = 64
"""The maximum number of turns in a row before signals and other descriptors are handled."""

TURNS_SECONDS = 0.02
"""The longest time for which turns follow each other before signals and other descriptors are handled."""

STEP_SECONDS = 0.02
"""The pause between two steps of work that is not urgent."""
_OVER = object()


GARBAGE_THRESHOLDS = (100_000, 20, 50)
"""Thresholds with which the garbage collector rarely runs: short-lived tasks and actors leave little to find."""


def _is_main_thread() -> bool:
    """Return whether the shell runs in the main thread, and not in a thread of a user's program."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Edge(Protocol):
    """The sockets of a process: receives messages for actors, and sends the messages of actors."""

    def receive(self) -> bool:
        """Deliver arrived messages to actors. Return whether a limit was reached, or the edge has something to send."""

    def flush(self) -> object:
        """Send the messages of actors. Called several times in a turn, so that messages do not wait for its end."""


def new_event_loop(name: str) -> EventLoop:
    """Return an event loop: builtin or uvloop. Raises `ConfigError` if uvloop is not installed."""
    if name == "builtin":
        return Loop()
    try:
        import uvloop  # noqa: PLC0415 - an extra that need not be installed
    except ImportError:
        raise ConfigError("the event loop uvloop is not installed; try: pip install 'scaler[uvloop]'") from None
    loop: EventLoop = uvloop.new_event_loop()
    return loop


class Shell:
    """Runs a dispatcher and an edge on an event loop, builtin or uvloop, until `stop` is called."""

    def __init__(self, event_loop: str, clock: WakefulClock | None = None) -> None:
        self.loop = new_event_loop(event_loop)
        self._wakeful_clock = clock
        # Not a lambda: each message reads it.
        now = time.monotonic if clock is None else partial(getattr, clock, "now")
        self.dispatcher = Dispatcher(clock=now, wake=self._wake, on_escalation=self._escalated)
        self.exit_code = 0
        self.why = ""
        """the reason of the stop, if a setting of the user caused the stop; otherwise empty"""
        self._edge: Edge | None = None
        self._timer: Cancellable | None = None
        self._timer_deadline: float | None = None
        self._is_turn_scheduled = False
        self._signals: list[signal.Signals] = []

    def run(self, edge: Edge) -> int:
        """Run the dispatcher and the edge until `stop` is called.

        Returns:
            the exit code: 0, or the argument of `stop`; 70 after a failure that no supervisor can handle.
        """
        self._edge = edge
        self.loop.call_soon(self.turn)
        try:
            with _few_collections() if _is_main_thread() else contextlib.nullcontext():
                self.loop.run_forever()
        finally:
            self.dispatcher.close()
            self._remove_signal_handlers()
            self.loop.close()
        return self.exit_code

    def stop(self, exit_code: int = 0, why: str = "") -> None:
        """End `run` after the current turn. `why`: if a setting of the user is the reason, what is wrong with it; else
        empty.
        """
        self.exit_code = self.exit_code or exit_code
        self.why = self.why or why
        self.loop.stop()

    def watch(self, descriptor: int, on_readable: Callable[[], None] | None = None) -> None:
        """Call `on_readable` and run a turn whenever the descriptor is readable."""

        def readable() -> None:
            if on_readable is not None:
                on_readable()
            self.turn()

        self.loop.add_reader(descriptor, readable)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching the descriptor. Called before the descriptor is closed, also after the end of the loop."""
        if not self.loop.is_closed():
            self.loop.remove_reader(descriptor)
            self.loop.remove_writer(descriptor)

    def watch_writable(self, descriptor: int, on_writable: Callable[[], None]) -> None:
        """Call `on_writable` when the descriptor is writable. No turn follows, so `on_writable` must send nothing to
        actors.
        """
        self.loop.add_writer(descriptor, on_writable)

    def unwatch_writable(self, descriptor: int) -> None:
        self.loop.remove_writer(descriptor)

    def on_signals(self, handler: Callable[[str], None], *signals: signal.Signals) -> None:
        """Call `handler` in the loop with the name of each arriving signal. Ignored outside of the main thread."""
        for number in signals if _is_main_thread() else ():
            self.loop.add_signal_handler(number, self._signalled, handler, number.name)
            self._signals.append(number)

    def on_child_ended(self, handler: Callable[[], None]) -> None:
        """Call `handler` in the loop when a child process has ended. `on_signals` cannot do that with uvloop."""

        def ended(_number: int, _frame: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(handler)

        signal.signal(signal.SIGCHLD, ended)

    def run_in_steps(self, work: Iterator[object]) -> None:
        """Iterate over `work`, one step at a time. All other work of the process runs between two steps."""

        def step() -> None:
            if next(work, _OVER) is not _OVER:
                self.loop.call_later(STEP_SECONDS, step)

        self.loop.call_later(STEP_SECONDS, step)

    def _remove_signal_handlers(self) -> None:
        # Python would warn of signals that it cannot write to the pipe of a closed loop.
        for number in self._signals:
            self.loop.remove_signal_handler(number)

    def _signalled(self, handler: Callable[[str], None], name: str) -> None:
        handler(name)
        self.turn()

    def turn(self) -> None:
        """Receive messages, run the dispatcher and flush the edge, until nothing is left to do."""
        edge, dispatcher = self._edge, self.dispatcher
        if edge is None:
            return
        if self._wakeful_clock is not None:
            self._wakeful_clock.update()
        ends_at = time.monotonic() + TURNS_SECONDS
        for count in range(TURNS_PER_WAKE):
            may_be_more = edge.receive()
            if count and not may_be_more and not dispatcher.has_mail:
                break
            dispatcher.run(flush=edge.flush)
            if time.monotonic() >= ends_at:
                self._turn_soon()
                break
        else:
            self._turn_soon()
        self._set_timer()

    def _turn_soon(self) -> None:
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self.loop.call_soon(self._turn_again)

    def _turn_again(self) -> None:
        self._is_turn_scheduled = False
        self.turn()

    def _set_timer(self) -> None:
        deadline = self.dispatcher.next_deadline()
        if self._wakeful_clock is not None:
            self._wakeful_clock.sleep_until(deadline)
        if deadline == self._timer_deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_deadline = deadline
        self._timer = None
        if deadline is not None:
            now = time.monotonic() if self._wakeful_clock is None else self._wakeful_clock.now
            self._timer = self.loop.call_later(max(0.0, deadline - now), self._timer_due)

    def _timer_due(self) -> None:
        self._timer = self._timer_deadline = None
        self.turn()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the dispatcher refuses the mail itself
            self.loop.call_soon_threadsafe(self.turn)

    def _escalated(self, _error: BaseException) -> None:
        self.stop(exit_code=70)
