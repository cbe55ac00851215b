"""A made-up cluster as a scheduler would publish it: loaded, idle, without workers, with failures, with odd names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from scaler.monitor.model.model import Model, News
from scaler.wire.messages.monitor import (
    PROCESSOR_ROW,
    StateClient,
    StateEvent,
    StateFailure,
    StateJob,
    StateMove,
    StateObject,
    StateProcessors,
    StateTask,
    StateVerdict,
)
from tests.support.monitored import BUSY, NOON_US, agent, counts, durations, function, news, row, scheduler, waiting

SECOND_US = 1_000_000
EMPTY = bytes(8)
PRICE, LOAD, CALIBRATE = b"price...", b"load....", b"calibrat"
FAILURE, EXAMPLE = b"failure1", b"\xa4\x1c" + bytes(5) + b"1"
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/quant/pricing.py", line 71, in price
    raise ValueError("bad strike")
ValueError: bad strike"""
ODD_NAMES = (
    "日本語の名前",
    "w" * 300,
    "\x1b[2J\x1b]0;title\x07",
    "<img src=x onerror=alert(1)>",
    "\u202ereversed",
    "e\u0301te\u0301",
)


def idle_row(**fields: Any) -> bytes:
    return row(**({"cpu": 3, "sent": 0, "queued": 0, "flags": 1, "function": EMPTY, "running_ms": 0} | fields))


def agents(workers: int = 16, is_busy: bool = True) -> list[Any]:
    """Return agents of four workers each; the last worker is stuck when they are busy."""
    made = []
    for number in range(0, workers, 4):
        host = f"rome{7 + number // 4:02}"
        rows = []
        for place in range(number, min(number + 4, workers)):
            if not is_busy:
                rows.append(idle_row(rss=(380 + place) << 20))
            elif place == workers - 1:
                rows.append(row(cpu=0, sent=1, queued=0, rss=1945 << 20, function=PRICE, running_ms=190_000))
            else:
                values = {
                    "cpu": 999 - place % 100,
                    "suspended": 2 if place == 1 else 0,
                    "rss": (412 - 3 * (place % 100)) << 20,
                }
                rows.append(row(function=PRICE, running_ms=37, **values))
        cpu = 121 - number * 6 if is_busy else 1
        made.append(
            agent(
                *rows,
                host=host,
                agent=number.to_bytes(8, "big"),
                cpu_permille=max(0, cpu),
                lag_us=700 + number % 50 * 30,
            )
        )
    return made


def functions() -> list[Any]:
    return [
        function(
            "price",
            47_772,
            30,
            41_000,
            function=PRICE,
            success=9_000_000,
            failed=180,
            durations=durations(b16=99),
            waits_for="no room",
        ),
        function(
            "load",
            380,
            0,
            9_000,
            function=LOAD,
            success=120_000,
            durations=durations(b14=90, b21=10),
            waits_for="inputs",
        ),
        function(
            "calibrate", 30, 0, 1_200_000, function=CALIBRATE, failed=32, durations=durations(b20=8), waits_for="inputs"
        ),
        function("", 15, 0, 5_000, durations=durations(b13=7), function=b""),
    ]


def clients() -> list[StateClient]:
    return [
        StateClient(b"quant...", "quant@ws14", b"quant...", 0, 48_019, 47_989, 300, "alice"),
        StateClient(b"nightly.", "nightly", b"nightly.", 0, 201, 201, 1200, "batch"),
        StateClient(b"web-7...", "web-7", b"web-7...", 1, 7, 7, 14_000),
    ]


def failures() -> list[StateFailure]:
    seen = {"first_us": NOON_US - 3600 * SECOND_US, "last_us": NOON_US}
    return [
        StateFailure(
            FAILURE,
            "ValueError",
            "bad strike",
            PRICE,
            "price",
            180,
            task=EXAMPLE,
            worker="rome07:2",
            traceback=TRACEBACK,
            **seen,
        ),
        StateFailure(
            b"failure2",
            "WorkerDied",
            "lost 3 times",
            CALIBRATE,
            "calibrate",
            32,
            task=b"another.",
            worker="rome08:1",
            first_us=NOON_US - 60 * SECOND_US,
            last_us=NOON_US - 30 * SECOND_US,
        ),
    ]


def events() -> list[StateEvent]:
    return [
        StateEvent(NOON_US - 90 * SECOND_US, "came", "rome08", "4 workers"),
        StateEvent(NOON_US - 30 * SECOND_US, "cut", "rome09", "its connection was lost"),
        StateEvent(NOON_US - 20 * SECOND_US, "back", "rome09", ""),
    ]


def processors() -> list[StateProcessors]:
    packed = PROCESSOR_ROW.pack(4801, 0, BUSY, 999, 37, 412 << 20, 500 << 20, EXAMPLE, PRICE)
    return [StateProcessors(bytes(8), packed + PROCESSOR_ROW.pack(4802, 0, 1, 0, 0, 40 << 20, 41 << 20, EMPTY, EMPTY))]


def task() -> list[Any]:
    began = NOON_US - SECOND_US
    return [
        StateTask(
            EXAMPLE,
            "price(17)",
            PRICE,
            "price",
            b"quant...",
            b"",
            "failed",
            "rome07:2",
            1,
            began,
            began,
            NOON_US,
            41_000,
            40_000,
            9 << 20,
            "bad strike",
            "quant",
            "prices.py 4711, quant@ws14",
        ),
        StateMove(EXAMPLE, began, "assigned", "running", "rome07:2", 1, ""),
        StateMove(EXAMPLE, NOON_US, "raised", "failed", "rome07:2", 1, "ValueError: bad strike"),
    ]


def loaded_scheduler(second: int = 0) -> list[Any]:
    """Return the scheduler's own items, at 385 tasks a second."""
    done = 9_120_377 - 385 * (60 - second)
    state = scheduler(
        waiting=48_197,
        running=30,
        workers=16,
        agents=4,
        clients=3,
        cpu_permille=41,
        rss_bytes=222_717_542,
        free_bytes=9_770_000_000,
        lag_us=200,
        lag_most_us=300,
        objects=1_204,
        object_bytes=2_040_109_465,
    )
    ended = {"success": done, "failed": 150 if second < 40 else 212, "canceled": 40}
    sent = {"RunTask": done + 282, "TaskResult": done + 252, "ResultsRead": 41_022, "WorkerHeartbeatEcho": 2_210}
    sent |= {"RunCancel": 40, "ObjectResponse": 1_000, "HelloReply": 19, "ObjectInstruction": 188}
    received = {"Task": done + 48_479, "RunResult": done + 213, "WorkerHeartbeat": 2_212, "ClientHeartbeat": 604}
    received |= {"TaskCancel": 40, "ClientHello": 3, "WorkerHello": 4, "ObjectInstruction": 24}
    figures = counts(ended=ended, sent=sent, received=received)
    groups = waiting(47_787, running=30, places=16, mean_us=41_000), waiting(410, "inputs", places=0)
    verdict = StateVerdict("workers", f"47,787 wait: {groups[0].sentence}", left_us=122_531_062)
    return [state, *figures, *groups, verdict]


JOB = b"prices23"


def jobs(second: int) -> list[StateJob]:
    """Return jobs of an hour: a running one, a stopped one, and one whose rows are not all submitted."""
    why = "5 of 9 ended rows failed; max_failures is 4"
    made = NOON_US - 3600 * SECOND_US
    return [
        StateJob(JOB, "prices-23", "alice", "prices.py", "price", "open", "", 1, 10**6, 400_000 + 385 * second, 3, 8192,
                 30, 48 << 20, made, NOON_US, "row 3: ValueError: bad strike\nrow 9: ValueError: bad strike"),
        StateJob(b"nightly.", "nightly", "batch", "nightly.py", "load", "open", "", 0, 4096, 0, 0, 0, 0, 1 << 20, made),
        StateJob(b"q3......", "q3 report", "alice", "q3.py", "sum", "stopped", why, 1, 10, 4, 5, 0, 0, 1 << 16, made,
                 made, "row 0: OSError: no such file"),
    ]  # fmt: skip


TABLE = b"table..."


def objects() -> list[StateObject]:
    """Return the objects that take most of the memory: a value, results, and one that was lost with its agent."""
    return [
        StateObject(TABLE, "spot prices", bytes([1]) * 8, 3 << 30, copies=4, users=47_787, place=1, owner="alice"),
        StateObject(b"result.1", "price", bytes([1]) * 8, 100_000_128, users=1, kind=3, place=2, owner="alice"),
        StateObject(b"result.2", "price", bytes([2]) * 8, 90_000_128, kind=3, place=3),
        StateObject(b"argument", "", bytes([2]) * 8, 5 << 20, users=1, kind=2, owner="batch"),
        StateObject(b"function", "price", b"", 2_112, copies=4, users=12, kind=1),
    ]


@cache
def _loaded(workers: int) -> tuple[News, ...]:
    minute = [
        news("scheduler", *loaded_scheduler(second), time_us=NOON_US - (60 - second) * SECOND_US)
        for second in range(61)
    ]
    others = {
        "functions": functions(),
        "workers": agents(workers),
        "clients": clients(),
        "failures": failures(),
        "events": events(),
    }
    states = [news(topic, *items, shown=len(items), total=len(items)) for topic, items in others.items()]
    times = (NOON_US - 10 * SECOND_US, NOON_US)
    kept = [news("jobs", *jobs(10 * number), time_us=at) for number, at in enumerate(times)]
    return (*minute, *states, *kept)


def loaded(workers: int = 16) -> Iterator[News]:
    """Iterate over the news of a minute under load."""
    return iter(_loaded(workers))


def idle() -> Iterator[News]:
    for second in range(5):
        state = scheduler(workers=16, agents=4, cpu_permille=2)
        items = (
            state,
            *counts(ended={"success": 1000}),
            StateVerdict("idle", "all tasks that were submitted have ended"),
        )
        yield news("scheduler", *items, time_us=NOON_US - (4 - second) * SECOND_US)
    yield news("workers", *agents(is_busy=False))


def without_workers() -> Iterator[News]:
    verdict = StateVerdict("no workers", "start scaler_cluster tcp://127.0.0.1:2345")
    items = scheduler(workers=0, agents=0, waiting=500, clients=1), waiting(500, "no worker", places=0), verdict
    yield news("scheduler", *items)
    yield news("workers")
    yield news("clients", clients()[0])


def restarted() -> Iterator[News]:
    yield from loaded()
    later = NOON_US + 5 * SECOND_US
    fields: dict[str, Any] = {"scheduler": b"another!", "time_us": later}
    yield news("scheduler", scheduler(workers=9, agents=3, running=9), *counts(ended={"success": 3}), **fields)
    yield news("workers", *agents(9), **fields)


def odd_names() -> Iterator[News]:
    rows = [row(function=PRICE) for _ in ODD_NAMES]
    state = scheduler(workers=len(rows), running=9, clients=len(rows))
    yield news("scheduler", state, StateVerdict("workers", "all workers are busy: more workers would help"))
    yield news("workers", agent(*rows, names=",".join(ODD_NAMES)))
    yield news(
        "clients", *[StateClient(bytes([number + 1]) * 8, name, open=7) for number, name in enumerate(ODD_NAMES)]
    )
    yield news(
        "functions", *[function(name, 5, function=bytes([number + 1]) * 8) for number, name in enumerate(ODD_NAMES)]
    )
    yield news(
        "failures",
        *[StateFailure(bytes([number + 1]) * 8, name, name, times=1) for number, name in enumerate(ODD_NAMES)],
    )


def model_of(*parts: Iterator[News], now: float = 100.0) -> Model:
    model = Model()
    for part in parts:
        for each in part:
            model.take(each, now)
    return model
