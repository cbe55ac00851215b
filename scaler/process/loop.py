"""Loop: an event loop that sleeps until a descriptor is ready, a timer is due or a signal arrives, and calls back.

Used by the shell, which each message wakes: this loop takes less processor time than asyncio
(`docs/decisions/0011-no-asyncio-on-the-hot-path.md`). The methods have the names of asyncio's, so that uvloop can
replace this loop. One thread runs the loop; only `call_soon_threadsafe` may be called from another thread.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import signal
import socket
import time
from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

logger = logging.getLogger(__name__)

Callback: TypeAlias = Callable[..., object]

_IN, _OUT = select.POLLIN, select.POLLOUT
_WHEN = attrgetter("when")


class Cancellable(Protocol):
    """The handle that `call_later` returns, with which the call can be cancelled."""

    def cancel(self) -> None: ...


class EventLoop(Protocol):
    """The methods of a loop that the shell needs: `Loop`, or a loop with asyncio's interface."""

    def run_forever(self) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def is_closed(self) -> bool: ...
    def time(self) -> float: ...
    def call_soon(self, callback: Callback, *args: Any) -> object: ...
    def call_soon_threadsafe(self, callback: Callback, *args: Any) -> object: ...
    def call_later(self, delay: float, callback: Callback, *args: Any) -> Cancellable: ...
    def call_at(self, when: float, callback: Callback, *args: Any) -> Cancellable: ...
    def add_reader(self, fd: int, callback: Callback) -> object: ...
    def remove_reader(self, fd: int) -> object: ...
    def add_writer(self, fd: int, callback: Callback) -> object: ...
    def remove_writer(self, fd: int) -> object: ...
    def add_signal_handler(self, sig: int, callback: Callback, *args: Any) -> object: ...
    def remove_signal_handler(self, sig: int) -> object: ...


class Poller(Protocol):
    """Waits until descriptors are ready: `select.epoll`, or `Poll`."""

    def register(self, fd: int, eventmask: int, /) -> object: ...
    def modify(self, fd: int, eventmask: int, /) -> object: ...
    def unregister(self, fd: int, /) -> object: ...
    def poll(self, timeout: float, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class Poll:
    """A poller for systems without epoll: `select.poll` with time-outs in seconds."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register, self.modify = self._poll.register, self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout: float, /) -> list[tuple[int, int]]:
        return self._poll.poll(math.ceil(timeout * 1000) if timeout >= 0 else None)

    def close(self) -> None:
        """Do nothing: `select.poll` has no descriptor."""


def new_poller() -> Poller:
    """Return the best poller of this system."""
    return select.epoll() if hasattr(select, "epoll") else Poll()


class LoopTimer:
    """A callback and the time at which the loop calls the callback."""

    __slots__ = ("_args", "_callback", "_timers", "when")

    def __init__(self, timers: list[LoopTimer], when: float, callback: Callback, args: tuple[Any, ...]) -> None:
        self._timers = timers
        self.when = when
        self._callback = callback
        self._args = args

    def cancel(self) -> None:
        """Cancel the call. May be called at any time."""
        with contextlib.suppress(ValueError):
            self._timers.remove(self)

    def run(self) -> None:
        _call(self._callback, self._args)


class Loop:
    """An event loop for a few timers, not for thousands. `poller`: None means the best poller of this system."""

    def __init__(self, poller: Poller | None = None) -> None:
        self._poller = new_poller() if poller is None else poller
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._soon: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._timers: list[LoopTimer] = []
        self._is_stopping = self._is_closed = False
        self._signals: set[int] = set()
        self.time = time.monotonic
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self.add_reader(self._woken.fileno(), self._wake_up)

    def run_forever(self) -> None:
        """Run until `stop` is called. If `stop` was called before, run the callbacks that are due and return."""
        is_last = False
        while not is_last:
            is_last = self._is_stopping
            self._sleep_and_call()
            is_last = is_last or self._is_stopping
        self._is_stopping = False

    def _sleep_and_call(self) -> None:
        soon, timers = self._soon, self._timers
        seconds = -1.0  # without a limit
        if soon or self._is_stopping:
            seconds = 0.0
        elif timers:
            seconds = max(0.0, timers[0].when - time.monotonic())
        for descriptor, events in self._poller.poll(seconds):
            if events & ~_OUT and (reader := self._readers.get(descriptor)) is not None:
                _call(reader, ())
            if events & ~_IN and (writer := self._writers.get(descriptor)) is not None:
                _call(writer, ())
        if timers:
            now = time.monotonic()
            while timers and timers[0].when <= now:
                timers.pop(0).run()
        for _ in range(len(soon)):  # callbacks that these add run in the next round
            _call(*soon.popleft())

    def stop(self) -> None:
        """End `run_forever` after all callbacks that are due now."""
        self._is_stopping = True

    def close(self) -> None:
        """Close the loop. May be called more than once."""
        if self._is_closed:
            return
        self._is_closed = True
        for number in tuple(self._signals):
            self.remove_signal_handler(number)
        self._soon.clear()
        self._timers.clear()
        self._poller.close()
        self._woken.close()
        self._waker.close()

    def is_closed(self) -> bool:
        return self._is_closed

    # Callbacks

    def call_soon(self, callback: Callback, *args: Any) -> None:
        """Call `callback` after all callbacks that are due now."""
        self._soon.append((callback, args))

    def call_soon_threadsafe(self, callback: Callback, *args: Any) -> None:
        """Call `callback` after all due callbacks; safe from any thread or signal handler. Raises after `close`."""
        if self._is_closed:
            raise RuntimeError("the loop is closed")
        self._soon.append((callback, args))
        # An error: the buffer is full, so the loop wakes up anyway; or the loop was closed meanwhile.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def call_later(self, delay: float, callback: Callback, *args: Any) -> LoopTimer:
        """Call `callback` after `delay` seconds."""
        return self.call_at(time.monotonic() + delay, callback, *args)

    def call_at(self, when: float, callback: Callback, *args: Any) -> LoopTimer:
        """Call `callback` at the time `when` of `time.monotonic`."""
        timer = LoopTimer(self._timers, when, callback, args)
        insort(self._timers, timer, key=_WHEN)
        return timer

    # Descriptors

    def add_reader(self, fd: int, callback: Callback) -> None:
        """Call `callback` whenever the descriptor is readable, or broken."""
        self._readers[fd] = self._registered(fd, callback, _IN)

    def add_writer(self, fd: int, callback: Callback) -> None:
        """Call `callback` whenever the descriptor is writable, or broken."""
        self._writers[fd] = self._registered(fd, callback, _OUT)

    def _registered(self, fd: int, callback: Callback, event: int) -> Callback:
        events = self._events(fd)
        if not events:
            self._poller.register(fd, event)
        elif not events & event:
            self._poller.modify(fd, events | event)
        return callback

    def remove_reader(self, fd: int) -> None:
        """Stop watching the descriptor for reading. Ignored if the descriptor is not watched."""
        if self._readers.pop(fd, None) is not None:
            self._unregister(fd)

    def remove_writer(self, fd: int) -> None:
        """Stop watching the descriptor for writing. Ignored if the descriptor is not watched."""
        if self._writers.pop(fd, None) is not None:
            self._unregister(fd)

    def _unregister(self, fd: int) -> None:
        events = self._events(fd)
        if events:
            self._poller.modify(fd, events)
        else:
            self._poller.unregister(fd)

    def _events(self, fd: int) -> int:
        return (_IN if fd in self._readers else 0) | (_OUT if fd in self._writers else 0)

    # Signals

    def add_signal_handler(self, sig: int, callback: Callback, *args: Any) -> None:
        """Call `callback` in the loop after the signal has arrived. Allowed only in the main thread."""

        def on_signal(_number: int, _frame: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.call_soon_threadsafe(callback, *args)

        # The system writes to the waker, too: a signal may arrive between Python's check for signals and the sleep.
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(sig, on_signal)
        signal.siginterrupt(sig, False)
        self._signals.add(sig)

    def remove_signal_handler(self, sig: int) -> None:
        """Restore Python's default handling of the signal."""
        self._signals.discard(sig)
        signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
        if not self._signals:
            signal.set_wakeup_fd(-1)

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(self._woken.recv(4096)) == 4096:
                pass


def _call(callback: Callback, args: tuple[Any, ...]) -> None:
    try:
        callback(*args)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        logger.exception("a callback of the loop failed: %r", callback)
