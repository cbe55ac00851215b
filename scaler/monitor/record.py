"""Record: receives the monitor stream for some seconds and writes a trace of the tasks.

`scaler_top --trace` calls `record`. `Client.trace` runs this module as a separate process, so that it does not slow
down the user's program. After a signal, the tasks received so far are still written.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from scaler.config import ConfigError
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.trace import Trace
from scaler.process.interpreter import unblock_signals

LOOK_SECONDS = 0.2
LAST_SECONDS = 1.3
"""The longest wait, after a signal, for the message with the last tasks. The scheduler sends one each second."""
GRAPHS_SECONDS = 3.0
"""The longest further wait, after a signal, while nodes of known graphs are missing."""
STARTED = "the recording has started"


def record(
    subscriber: Subscriber,
    seconds: float,
    first_seconds: float,
    on_started: Callable[[], None] = lambda: None,
    lifeline: int | None = None,
) -> Trace:
    """Record until a SIGINT or SIGTERM, or for `seconds` after the first message. Return the recorded tasks.

    Args:
        first_seconds: the longest wait for the first message. Without a message, the trace is empty.
        on_started: called after the first message.
        lifeline: a descriptor that becomes readable when the requesting program ends, which ends the recording.
    """
    lifelines = () if lifeline is None else (lifeline,)
    trace = Trace()
    has_started = False
    ends_at = time.monotonic() + first_seconds
    with _ended_by_signals() as ended:
        while (left := min(ends_at, ended[0] + trace.awaits_nodes * GRAPHS_SECONDS) - time.monotonic()) > 0:
            subscriber.set_topics(trace.topics)
            if subscriber.wait(min(LOOK_SECONDS, left), *lifelines) or (subscriber.problem and not has_started):
                break
            for news in subscriber.receive():
                trace.take(news)
                if not has_started and news.topic == "tasks":
                    has_started, ends_at = True, time.monotonic() + seconds
                    on_started()
    return trace


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[list[float]]:
    """Yield a list with the end time of the recording, which SIGINT and SIGTERM set; only in the main thread."""
    ended = [float("inf")]

    def end(*_signal: object) -> None:
        ended[0] = min(ended[0], time.monotonic() + LAST_SECONDS)

    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before: dict[int, Any] = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def summary_of(trace: Trace, path: str) -> str:
    """Return a sentence about a trace that was written."""
    rest = f"; {trace.left_out:,} more tasks were left out" if trace.left_out else ""
    return f"{len(trace):,} tasks are in {path}{rest}. Open it at https://ui.perfetto.dev or chrome://tracing."


def main(arguments: list[str]) -> str | int:
    """Record until a signal, or the end of standard input. Return the exit status.

    Args:
        arguments: address, file, longest time in seconds, key file or an empty text, and the uids of `trust_users`.
    """
    unblock_signals()
    address, path, seconds, key_file, *uids = arguments
    try:
        subscriber = Subscriber(address, key_file=key_file, trust_users=tuple(map(int, uids)))
    except ConfigError as error:
        return str(error)
    try:
        trace = record(subscriber, float(seconds), float(seconds), _print_started, sys.stdin.fileno())
        trace.write(path)
    except OSError as error:
        return f"the trace cannot be written: {error}"
    finally:
        subscriber.close()
    sys.stdout.write(f"{summary_of(trace, path)}\n")
    return 0


def _print_started() -> None:
    sys.stdout.write(f"{STARTED}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
