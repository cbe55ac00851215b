"""The client program of a storm: submits tasks of several kinds, checks each result, and notes what came when.

It is run as a program of its own, so that it can be stopped, killed and cut off like any other. Its one argument is a
JSON object (`Orders`). Each task notes its begin and its end, and the program each call and each result, as lines of
files that are only ever appended to. A line on its standard input says that there were enough faults: one that goes on
with its work until then ends when that is done. The end of that input says that the faults are over: from then on, a
task is hung when nothing has arrived for `patience_seconds`.
"""

from __future__ import annotations

import json
import os
import queue
import random
import sys
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from scaler import Client

NESTED_CHILDREN = 5
MAP_TASKS = 25
TASKS_WITH_ONE_OBJECT = 40
MODULUS = 1_000_003
SLOWEST = 2.0
"""The longest of the sleeps of plain tasks, as a multiple of their mean."""


# ------------------------------------------------------------------------------------------- what runs on the workers


def note(path: str, *words: Any) -> None:
    """Append a line at once; lines of all processes stay whole."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(descriptor)


def begin(runs: str, ident: str) -> str:
    attempt = uuid.uuid4().hex[:12]
    note(runs, "B", ident, attempt, os.getpid(), os.environ["STORM_LIFE"], time.monotonic())
    return attempt


def end(runs: str, ident: str, attempt: str) -> None:
    note(runs, "E", ident, attempt, time.monotonic())


def plain(runs: str, ident: str, seconds: float) -> str:
    attempt = begin(runs, ident)
    time.sleep(seconds)
    end(runs, ident, attempt)
    return ident


def large(runs: str, ident: str, seconds: float, number: int, size: int) -> bytes:
    attempt = begin(runs, ident)
    time.sleep(seconds)
    end(runs, ident, attempt)
    return bytes([number % 256]) * size


def look_up(runs: str, ident: str, seconds: float, table: bytes, place: int) -> tuple[str, int]:
    attempt = begin(runs, ident)
    time.sleep(seconds)
    end(runs, ident, attempt)
    return ident, table[place % len(table)]


def node(runs: str, ident: str, seconds: float, number: int, *inputs: int) -> int:
    attempt = begin(runs, ident)
    time.sleep(seconds)
    end(runs, ident, attempt)
    return (number + sum(inputs)) % MODULUS


def parent(runs: str, ident: str, seconds: float) -> tuple[str, int]:
    attempt = begin(runs, ident)
    with Client() as client:
        names = [f"{ident}.{attempt}.{k}" for k in range(NESTED_CHILDREN)]
        futures = [client.submit(plain, runs, name, seconds) for name in names]
        matches = sum(future.result() == name for future, name in zip(futures, names, strict=True))
    end(runs, ident, attempt)
    return ident, matches


def poison(runs: str, ident: str) -> None:
    begin(runs, ident)
    os.kill(os.getpid(), 9)


def hog(runs: str, ident: str, size: int) -> int:
    attempt = begin(runs, ident)
    data = bytearray(size)
    end(runs, ident, attempt)
    return len(data)


# ----------------------------------------------------------------------------------------------what runs in the client


@dataclass
class Orders:
    """What the program does; `seconds` and `tasks` end each kind of work, whatever is first.

    If it `goes_on`, not before there were enough faults.
    """

    name: str
    address: str
    runs: str
    notes: str
    kinds: list[str]
    tasks: dict[str, int]
    seconds: float | None
    goes_on: bool
    mean_seconds: float
    size: int
    graph_tasks: int
    window: int
    seed: int
    patience_seconds: float
    heartbeat_seconds: float
    timeout_seconds: float


Check = Callable[[Any], bool]
Call = tuple[str, "Future[Any]", Check]
"""A name, the future, and whether a result is right."""


class Calls:
    """Makes calls of each kind, each with a name and with what its result must be."""

    def __init__(self, client: Client, orders: Orders, kind: str) -> None:
        self._client = client
        self._orders = orders
        self._random = random.Random(f"{orders.seed} {orders.name} {kind}")  # of this kind's thread alone
        self._table: tuple[bytes, Any] = (b"", None)

    def _seconds(self) -> float:
        return self._random.uniform(0, SLOWEST) * self._orders.mean_seconds

    def _name(self, kind: str, number: int) -> str:
        return f"{self._orders.name}/{kind}{number}"

    def plain(self, number: int) -> Iterator[Call]:
        name = self._name("plain", number)
        yield name, self._client.submit(plain, self._orders.runs, name, self._seconds()), name.__eq__

    def large(self, number: int) -> Iterator[Call]:
        name, size = self._name("large", number), self._orders.size
        future = self._client.submit(large, self._orders.runs, name, self._seconds(), number, size)
        yield name, future, lambda value: value == bytes([number % 256]) * size

    def objects(self, number: int) -> Iterator[Call]:
        if number % TASKS_WITH_ONE_OBJECT == 0:
            data = self._random.randbytes(self._orders.size)
            self._table = data, self._client.send_object(data)
        name, place = self._name("objects", number), number * 7919
        data, reference = self._table
        future = self._client.submit(look_up, self._orders.runs, name, self._seconds(), reference, place)
        yield name, future, (name, data[place % len(data)]).__eq__

    def graph(self, number: int) -> Iterator[Call]:
        graph: dict[str, Any] = {}
        values: dict[str, int] = {}
        for k in range(self._orders.graph_tasks):
            inputs = [f"n{each}" for each in self._random.sample(range(k), min(k, self._random.randint(1, 3)))]
            name = self._name("graph", number) + f".{k}"
            graph |= {f"runs{k}": self._orders.runs, f"name{k}": name, f"seconds{k}": self._seconds(), f"number{k}": k}
            graph[f"n{k}"] = (node, f"runs{k}", f"name{k}", f"seconds{k}", f"number{k}", *inputs)
            values[f"n{k}"] = (k + sum(values[each] for each in inputs)) % MODULUS
        keys = list(values)
        for key, future in self._client.get(graph, keys, block=False).items():
            yield self._name("graph", number) + f".{key[1:]}", future, values[key].__eq__

    def nested(self, number: int) -> Iterator[Call]:
        name = self._name("nested", number)
        future = self._client.submit(parent, self._orders.runs, name, self._seconds())
        yield name, future, (name, NESTED_CHILDREN).__eq__

    def poison(self, number: int) -> Iterator[Call]:
        name = self._name("poison", number)
        yield name, self._client.submit(poison, self._orders.runs, name), lambda _value: False

    def hogs(self, number: int) -> Iterator[Call]:
        name = self._name("hogs", number)
        yield name, self._client.submit(hog, self._orders.runs, name, 1 << 36), lambda _value: False

    def map(self, number: int) -> Iterator[Call]:
        names = [f"{self._name('map', number)}.{k}" for k in range(MAP_TASKS)]
        futures: list[Future[Any]] = [Future() for _ in names]
        yield from zip(names, futures, [name.__eq__ for name in names], strict=True)
        calls = [(self._orders.runs, name, self._seconds()) for name in names]
        try:
            results = self._client.map(plain, calls)
        except Exception as error:  # noqa: BLE001 - it belongs to all
            for future in futures:
                future.set_exception(error)
            return
        for future, result in zip(futures, results, strict=True):
            future.set_result(result)


SIZES = {"nested": 1 + NESTED_CHILDREN, "map": MAP_TASKS}
"""How many tasks one call of a kind makes; graphs have a size of their own, and the others make one."""


class Program:
    """Makes calls of all kinds at once, each kind in a thread, and takes their results."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._client = Client(
            orders.address,
            timeout_seconds=orders.timeout_seconds,
            heartbeat_interval_seconds=orders.heartbeat_seconds,
        )
        self._changed = threading.Condition()
        self._open: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._last = time.monotonic()
        self._enough = threading.Event()
        if not orders.goes_on:
            self._enough.set()
        self._calm = threading.Event()
        self._to_read: queue.SimpleQueue[tuple[Call, str]] = queue.SimpleQueue()

    def run(self) -> int:
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._hear, daemon=True).start()
        threads = [threading.Thread(target=self._make, args=(kind,), daemon=True) for kind in self._orders.kinds]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or self._names:
            with self._changed:
                self._changed.wait(0.1)
                if self._calm.is_set() and time.monotonic() - self._last > self._orders.patience_seconds:
                    break
        for name in sorted(self._names):
            note(self._orders.notes, "H", name, time.monotonic())
        if self._names:
            return 3
        goodbye = threading.Thread(target=self._client.disconnect, daemon=True)
        goodbye.start()
        goodbye.join(self._orders.patience_seconds)
        return 4 if goodbye.is_alive() else 0

    def _hear(self) -> None:
        sys.stdin.readline()
        self._enough.set()
        sys.stdin.read()
        self._news()
        self._calm.set()

    def _make(self, kind: str) -> None:
        try:
            self._make_all(kind)
        except BaseException:  # noqa: BLE001 - of any thread
            traceback.print_exc()
            os._exit(5)  # this program is at fault

    def _make_all(self, kind: str) -> None:
        make = getattr(Calls(self._client, self._orders, kind), kind)
        started = time.monotonic()
        number = made = 0
        while not self._enough.is_set() or made < self._orders.tasks[kind]:
            seconds = time.monotonic() - started
            if self._orders.seconds is not None and seconds > self._orders.seconds and self._enough.is_set():
                return
            with self._changed:
                self._changed.wait_for(lambda: self._open[kind] < self._orders.window)
            for call in make(number):
                self._watch(call, kind)
            number += 1
            made += self._orders.graph_tasks if kind == "graph" else SIZES.get(kind, 1)

    def _watch(self, call: Call, kind: str) -> None:
        """Large results are read by a thread, in order and so some time after they are done; all others at once."""
        name, future, _ = call
        note(self._orders.notes, "S", name, time.monotonic())
        with self._changed:
            self._open[kind] += 1
            self._names[name] = kind
        if kind == "large":
            self._to_read.put((call, kind))
        else:
            future.add_done_callback(lambda _future: self._take(call, kind))

    def _read(self) -> None:
        while True:
            self._take(*self._to_read.get())

    def _take(self, call: Call, kind: str) -> None:
        name, future, is_right = call
        try:
            outcome = "ok" if is_right(future.result()) else "wrong"
        except BaseException as error:  # noqa: BLE001 - also a CancelledError
            outcome = f"{type(error).__name__} {str(error)[:300]!r}"
        now = time.monotonic()
        with self._changed:
            is_first = self._names.pop(name, None) is not None
            self._open[kind] -= is_first
        note(self._orders.notes, "D" if is_first else "T", name, now, outcome)
        self._news()

    def _news(self) -> None:
        with self._changed:
            self._last = time.monotonic()
            self._changed.notify_all()


if __name__ == "__main__":
    # Threads that wait for results that never come may not keep the program.
    code = Program(Orders(**json.loads(sys.argv[1]))).run()
    sys.stdout.flush()
    if code:
        os._exit(code)
