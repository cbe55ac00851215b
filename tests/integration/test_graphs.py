"""Graphs on real workers. One cluster for most tests; those that kill something have their own."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
import time
from concurrent.futures import CancelledError, as_completed, wait
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler import Client, ProcessorDiedError, SchedulerClusterCombo, Serializer
from tests.support.processes import command, free_address, scheduler, wait_until

MEGABYTE = 1 << 20


def inc(a: int) -> int:
    return a + 1


def add(a: int, b: int) -> int:
    return a + b


def fail(*_: Any) -> None:
    raise KeyError("this one")


def nap(seconds: float, *_: Any) -> float:
    time.sleep(seconds)
    return seconds


def touch_and_nap(folder: str, seconds: float, *_: Any) -> int:
    Path(folder, f"{os.getpid()}-{time.time_ns()}").touch()
    time.sleep(seconds)
    return 1


def tree(leaves: int) -> tuple[dict[str, Any], str]:
    """A graph that adds up 1 to `leaves`, and the key of the sum: call i adds up the calls 2 i and 2 i + 1."""
    graph: dict[str, Any] = {f"x{i}": (add, f"x{2 * i}", f"x{2 * i + 1}") for i in range(1, leaves)}
    for i in range(leaves):
        graph[f"v{i}"] = i
        graph[f"x{leaves + i}"] = (inc, f"v{i}")
    return graph, "x1"


def test_a_tree_of_thousands_of_calls(client: Client) -> None:
    graph, top = tree(3000)
    assert client.get(graph, [top]) == {top: 3000 * 3001 // 2}


def test_a_chain_of_thousands_of_calls(client: Client) -> None:
    count = 3000
    graph: dict[str, Any] = {"0": 0, **{str(n): (inc, str(n - 1)) for n in range(1, count)}}
    assert client.get(graph, [str(count - 1)]) == {str(count - 1): count - 1}


def test_one_call_with_thousands_of_arguments(client: Client) -> None:
    graph: dict[str, Any] = {str(n): (inc, n) for n in range(3000)}
    graph["all"] = (lambda *values: sum(values), *graph)
    assert client.get(graph, ["all", "7"]) == {"all": 3000 * 3001 // 2, "7": 8}


def test_every_kind_of_value(client: Client) -> None:
    reference = client.send_object([1, 2, 3], name="numbers")
    graph = {
        "none": None, "call": inc, "reference": reference, "data": (1, 2), "sum": (sum, "reference"),
        "same": (lambda x: x, "none"), "apply": (lambda f, x: f(x), "call", 5), "twice": (add, "sum", "sum"),
        "literals": (lambda *values: values, 1, None, b"x", reference), "text": "text", "upper": (str.upper, "text"),
    }  # fmt: skip
    assert client.get(graph, list(graph)) == {
        "none": None, "call": inc, "reference": [1, 2, 3], "data": (1, 2), "sum": 6, "same": None, "apply": 6,
        "twice": 12, "literals": (1, None, b"x", [1, 2, 3]), "text": "text", "upper": "TEXT",
    }  # fmt: skip


def test_only_what_is_needed_runs(client: Client, tmp_path: Path) -> None:
    graph = {"a": (touch_and_nap, str(tmp_path), 0), "b": (inc, "a")}
    with pytest.raises(KeyError):  # a text is a key, so a path is data
        client.get(graph, ["b"])
    graph = {"path": str(tmp_path), "a": (touch_and_nap, "path", 0), "b": (inc, "a"), "c": (touch_and_nap, "path", 0)}
    assert client.get(graph, ["b"]) == {"b": 2}
    assert len(list(tmp_path.iterdir())) == 1


def test_large_intermediate_results(client: Client) -> None:
    graph = {
        "a": (os.urandom, 5 * MEGABYTE), "b": (bytes.__add__, "a", "a"), "length": (len, "b"),
        "same": (lambda a, b: a + a == b, "a", "b"), "short": (lambda a: bytes(a[:10]), "a"),
    }  # fmt: skip
    values = client.get(graph, ["length", "same", "short", "a"])
    assert values["length"] == 10 * MEGABYTE
    assert values["same"] is True
    assert values["a"][:10] == values["short"]


def test_a_failed_node_fails_all_that_need_it_and_no_others(client: Client) -> None:
    graph = {"a": 1, "b": (fail, "a"), "c": (inc, "b"), "d": (add, "c", "a"), "e": (nap, 0.2), "f": (add, "e", 1)}
    futures = client.get(graph, ["d", "b", "f", "c"], block=False)
    for key in "dbc":
        error = futures[key].exception(30)
        assert isinstance(error, KeyError)
        assert error.args == ("this one",)
        assert "in fail" in str(error.__cause__)
        blamed = f"task b, which task {key} needs:" if key != "b" else "task b:"
        assert f"\n{blamed}\n" in str(error.__cause__)
    assert futures["f"].result(30) == 1.2
    with pytest.raises(KeyError, match="this one"):
        client.get(graph, ["f", "d"])


def test_cancelling_one_future_ends_all_and_frees_the_workers(client: Client, tmp_path: Path) -> None:
    graph: dict[str, Any] = {
        "path": str(tmp_path), "a": (touch_and_nap, "path", 100), "b": (touch_and_nap, "path", 100),
        "c": (add, "a", "b"), "d": (inc, "c"), "e": (nap, 100),
    }  # fmt: skip
    futures = client.get(graph, ["a", "b", "c", "d"], block=False)
    waiting = threading.Thread(target=lambda: list(as_completed(futures.values(), timeout=60)), daemon=True)
    waiting.start()
    wait_until(lambda: all(future._waiters for future in futures.values()), "the thread waits for all of them")
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both workers are busy")
    assert futures["c"].cancel()
    done, open_ones = wait(futures.values(), timeout=60)
    assert not open_ones
    assert all(future.cancelled() for future in done)
    waiting.join(60)
    assert not waiting.is_alive()
    start = time.monotonic()
    assert client.map(inc, [(n,) for n in range(50)]) == list(range(1, 51))
    assert time.monotonic() - start < 50


def test_disconnect_with_an_open_graph_does_not_hang(address: str) -> None:
    client = Client(address)
    futures = client.get(
        {"a": (nap, 100), "b": (inc, "a"), "c": (fail,), "d": (add, "c", "b")}, ["b", "d"], block=False
    )
    assert isinstance(futures["d"].exception(30), KeyError)
    start = time.monotonic()
    client.disconnect()
    assert time.monotonic() - start < 30, "the graph takes 100 s"
    with pytest.raises(
        CancelledError,
        match=r"^task b: its graph was cancelled, because its client has ended: wait for the future first$",
    ):
        futures["b"].result(5)


class Reversed(Serializer):
    def serialize(self, obj: Any) -> bytes:
        return bytes(reversed(cloudpickle.dumps(obj)))

    def deserialize(self, payload: bytes) -> Any:
        return pickle.loads(bytes(reversed(payload)))


def test_a_serializer_of_the_users_own(address: str) -> None:
    with Client(address, serializer=Reversed()) as client:
        graph = {"a": 1, "big": bytes(100_000), "b": (inc, "a"), "c": (add, "b", "b"), "n": (len, "big")}
        assert client.get(graph, ["c", "n", "a"]) == {"c": 4, "n": 100_000, "a": 1}


def test_a_node_that_kills_its_processor_fails_what_needs_it_only(client: Client) -> None:
    graph = {"dead": (os._exit, 3), "a": (lambda x: x, "dead"), "b": (inc, 1), "c": (add, "b", 1)}
    futures = client.get(graph, ["dead", "a", "c"], block=False)
    assert futures["c"].result(30) == 3
    for key, failed_input_reason in (("dead", ""), ("a", ", which task a needs")):
        with pytest.raises(ProcessorDiedError, match=rf"^task dead{failed_input_reason}: the processor .*exit code 3"):
            futures[key].result(30)


def test_several_threads_at_once(client: Client) -> None:
    graph, top = tree(100)
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(client.get(graph, [top])[top])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [5050] * 6


def combine(*values: Any) -> Any:
    """Something that depends on every argument and is now and then large; some combinations raise."""
    number = sum(len(value) if isinstance(value, bytes) else value for value in values)
    if number % 11 == 10:
        raise ValueError(number)
    return bytes(number % 1000 * 97) if number % 5 == 4 else number


def evaluate(graph: dict[str, Any], key: str, known: dict[str, Any]) -> Any:
    """What a key of a graph should be: a value, or the exception of the first one that it needs."""
    if key not in known:
        value = graph[key]
        if not isinstance(value, tuple):
            known[key] = value
            return value
        arguments = [evaluate(graph, part, known) if isinstance(part, str) else part for part in value[1:]]
        failures = {str(part) for part in arguments if isinstance(part, Exception)}
        try:
            known[key] = ValueError("|".join(sorted(failures))) if failures else value[0](*arguments)
        except ValueError as error:
            known[key] = error
    return known[key]


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_give_what_one_process_gives(client: Client, seed: int) -> None:
    chance = random.Random(seed)
    graph: dict[str, Any] = {"0": 1, "1": 2}
    for number in range(2, 150):
        needs = [str(chance.randrange(max(0, number - 20), number)) for _ in range(chance.randint(0, 3))]
        graph[str(number)] = (combine, *needs, *(chance.randrange(20) for _ in range(chance.randint(1, 2))))
    keys = chance.sample(list(graph), 40)
    known: dict[str, Any] = {}
    for key, future in client.get(graph, keys, block=False).items():
        expected, error = evaluate(graph, key, known), future.exception(30)
        if isinstance(expected, ValueError):
            assert str(error) in str(expected).split("|")  # of several that failed, the first one
        else:
            assert error is None
            assert future.result(30) == expected


def test_a_graph_inside_a_task_that_is_a_node_of_a_graph() -> None:
    def inner(client: Client, number: int) -> int:
        return int(client.get({"a": number, "b": (inc, "a"), "c": (add, "b", "b")}, ["c"])["c"])

    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        graph = {"client": client, "x": (inner, "client", 4), "y": (inner, "client", "x"), "z": (add, "x", "y")}
        assert client.get(graph, ["z"]) == {"z": 10 + 22}


@pytest.mark.more
@pytest.mark.faults
def test_an_agent_that_is_killed_in_the_middle_costs_no_result(tmp_path: Path) -> None:
    graph: dict[str, Any] = {"path": str(tmp_path), "big": (os.urandom, MEGABYTE)}
    graph.update({f"n{i}": (touch_and_nap, "path", 0.3, "big") for i in range(8)})
    graph["all"] = (lambda *values: sum(values), *(f"n{i}" for i in range(8)))
    graph["length"] = (len, "big")
    with scheduler() as (address, _), command("cluster", address, "-n", "2") as first, Client(address) as client:
        futures = client.get(graph, ["all", "length"], block=False)
        wait_until(lambda: len(list(tmp_path.iterdir())) >= 3, "some nodes have run")
        os.kill(first.pid, signal.SIGKILL)
        with command("cluster", address, "-n", "2"):
            assert futures["all"].result(60) == 8
            assert futures["length"].result(60) == MEGABYTE


@pytest.mark.more
@pytest.mark.faults
def test_the_next_scheduler_at_the_address_gets_the_open_graph() -> None:
    address = free_address()
    graph: dict[str, Any] = {f"n{i}": (nap, 0.3, i) for i in range(6)}
    graph["all"] = (lambda *values: len(values), *(f"n{i}" for i in range(6)))
    with scheduler(address) as (_, first), command("cluster", address, "-n", "2"), Client(address) as client:
        futures = client.get(graph, ["n0", "all"], block=False)
        assert futures["n0"].result(30) == 0.3
        os.kill(first.pid, signal.SIGKILL)
        first.end()
        with scheduler(address):
            assert futures["all"].result(60) == 6
