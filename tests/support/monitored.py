"""Made-up items of the monitor stream, and a socket that publishes them as a scheduler does."""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from typing import Any

import zmq

from scaler.monitor.model.model import News
from scaler.wire.codec.codec import decode, encode_message
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR
from scaler.wire.messages.monitor import (
    HAS_TASK,
    INITIALIZED,
    WORKER_ROW,
    StateAgent,
    StateCount,
    StateFunction,
    StateHead,
    StateScheduler,
    StateWaiting,
)

SCHEDULER = b"schedule"
NOON_US = 1_795_000_000_000_000
QUEUE_SIZE = 1000
BUSY = INITIALIZED | HAS_TASK
FUNCTION = b"function"
NAMES = ("ended", "sent", "received")


def head(time_us: int = NOON_US, scheduler: bytes = SCHEDULER, **fields: int) -> StateHead:
    return StateHead(scheduler, time_us, **fields)


def news(topic: str, *items: Any, missed: int = 0, **fields: Any) -> News:
    """Return one message, as the codec decodes it."""
    first = head(**fields)
    header, _ = encode_message(SCHEDULER_TO_MONITOR, [first, *items], number=1)
    batches = decode(SCHEDULER_TO_MONITOR, header, ())
    return News(topic, batches[0][0], batches[1:], missed)


def decoded(*items: Any) -> list[Any]:
    """Return the items of one message as a viewer decodes them."""
    return [each for batch in news("", *items).batches for each in batch]


def counts(**groups: dict[str, int]) -> list[StateCount]:
    """Return the counts of items: `counts(ended={"success": 3}, sent={"RunTask": 2})`."""
    return [
        StateCount(NAMES.index(group), name, amount)
        for group, amounts in groups.items()
        for name, amount in amounts.items()
    ]


def waiting(
    waiting: int, reason: str = "no room", asks: str = "", running: int = 0, places: int = 1, mean_us: int = 0
) -> StateWaiting:
    """Return a group of waiting and running tasks; `mean_us` is the mean duration of a run, 0 if it is not known."""
    tasks = waiting + running
    sentence = f"it is waiting for {asks or reason}"
    return StateWaiting(
        asks, reason, sentence, waiting, running, places, tasks * mean_us, 0 if mean_us or not places else tasks
    )


def scheduler(**fields: Any) -> StateScheduler:
    usual = {"address": "tcp://127.0.0.1:2345", "workers": 1, "agents": 1, "queue_size": QUEUE_SIZE}
    return StateScheduler(**(usual | fields))


def row(
    cpu: int = 999,
    sent: int = 2,
    queued: int = 1,
    suspended: int = 0,
    flags: int = BUSY,
    rss: int = 400 << 20,
    function: bytes = FUNCTION,
    running_ms: int = 500,
    ended: int = 10,
) -> bytes:
    return WORKER_ROW.pack(cpu, sent, queued, suspended, flags, rss, function, running_ms, ended)


def agent(*rows: bytes, names: str | None = None, host: str = "rome07", **fields: Any) -> StateAgent:
    name = fields.pop("agent", b"agent")
    usual: dict[str, Any] = {
        "pid": 4711,
        "cpu_permille": 121,
        "rss_bytes": 98 << 20,
        "free_bytes": 9 << 30,
        "lag_us": 700,
        "seen_ms": 100,
    }
    names = ",".join(f"{host}:{number}" for number in range(len(rows))) if names is None else names
    return StateAgent(name, host, worker_names=names, workers=b"".join(rows), **(usual | fields))


def durations(**buckets: int) -> bytes:
    """Return the numbers of runs by bucket: `durations(b16=95, b20=5)`."""
    amounts = [0] * 32
    for bucket, amount in buckets.items():
        amounts[int(bucket[1:])] = amount
    return struct.pack("<32I", *amounts)


def function(
    name: str = "price", waiting: int = 0, running: int = 0, mean_us: int = 0, durations: bytes = b"", **fields: Any
) -> StateFunction:
    """Return the item of a function; by default, its shortest and longest run are at the limits of their buckets."""
    identity = fields.pop("function", FUNCTION)
    counts = struct.unpack("<32I", durations) if durations else ()
    used, runs = [number for number, count in enumerate(counts) if count] or [0], sum(counts)
    usual = {"runs": runs, "run_us": runs * mean_us, "least_us": 1 << used[0] >> 1, "most_us": 1 << used[-1]}
    return StateFunction(identity, name, waiting, running, durations=durations, **(usual | fields))


class Publisher:
    """The scheduler's side of the stream, listening at an address; `scheduler` is the short id of this run."""

    def __init__(self, address: str, scheduler: bytes = b"") -> None:
        self.scheduler = scheduler or os.urandom(8)
        self._numbers: Counter[str] = Counter()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(address)
        self.topics: Counter[str] = Counter()
        """The number of subscriptions of each topic."""

    def await_topic(self, topic: str, seconds: float = 60) -> None:
        """Wait for a subscription of the topic."""
        ends_at = time.monotonic() + seconds
        while not self.topics[topic]:
            assert self._socket.poll(int((ends_at - time.monotonic()) * 1000)), f"no subscription of {topic}"
            self.look()

    def look(self) -> None:
        """Count the subscriptions that have arrived."""
        while self._socket.poll(0):
            subscription = self._socket.recv()
            self.topics[subscription[1:].decode()] += 1 if subscription[0] else -1

    def say(self, topic: str, *items: Any, time_us: int | None = None, **fields: int) -> None:
        self._numbers[topic] += 1
        now_us = time.time_ns() // 1000 if time_us is None else time_us
        first = head(now_us, self.scheduler, **fields)
        header, _ = encode_message(SCHEDULER_TO_MONITOR, [first, *items], number=self._numbers[topic])
        self._socket.send_multipart([topic.encode(), header])

    def send_raw(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def skip(self, topic: str, messages: int) -> None:
        """Skip the numbers of messages, as if these had been lost."""
        self._numbers[topic] += messages

    def close(self) -> None:
        self._socket.close()
        self._context.term()
