"""Functions that are called by name, with JSON as values, where a Python cluster serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import (
    AsyncClient,
    Client,
    Cluster,
    ConfigError,
    DeserializeObjectError,
    NoWorkerError,
    RerunError,
    SchedulerClusterCombo,
    SerializeObjectError,
)

WAIT_SECONDS = 60
SERVED = {"hypot": "math:hypot", "sorted": "builtins:sorted", "missing": "no_such_module:nothing"}


def echo(*args: Any, **kwargs: Any) -> Any:
    return [list(args), kwargs]


def fail() -> None:
    raise LookupError("not there")


def no_json() -> object:
    return {1, 2}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    own = {"echo": echo, "fail": fail, "no_json": no_json}
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo:
        serving = Cluster(combo.get_address(), n_workers=2, functions={**SERVED, **own}, logging_level="WARNING")
        serving.start()
        yield combo.get_address()
        serving.shutdown()


def test_values_are_json_in_both_directions(client: Client) -> None:
    client.wait_for_workers(3, WAIT_SECONDS)
    assert client.call("hypot", 3, 4).result(WAIT_SECONDS) == 5.0
    assert client.call("sorted", ["b", "a"], reverse=True).result(WAIT_SECONDS) == ["b", "a"]
    values = [None, True, -1, 2.5, "größe \N{SNOWMAN}", [[]], {"k": {}}]
    assert client.call("echo", *values, name="x").result(WAIT_SECONDS) == [values, {"name": "x"}]
    assert client.call("echo", (1, 2), key={3: 4}).result(WAIT_SECONDS) == [[[1, 2]], {"key": {"3": 4}}]


def test_calls_by_name_take_and_return_large_values(client: Client) -> None:
    text = "x" * 3_000_000
    assert client.call("echo", text, part=text[:20_000]).result(WAIT_SECONDS) == [[text], {"part": text[:20_000]}]


def test_only_workers_that_serve_a_function_get_its_calls(client: Client) -> None:
    serving = {worker.name for worker in client.workers() if "call:hypot" in worker.capabilities}
    assert len(serving) == 2
    calls = [client.call("hypot", number, 0) for number in range(50)]
    assert [call.result(WAIT_SECONDS) for call in calls] == [float(number) for number in range(50)]
    nobody = client.options(no_worker_timeout=0.2).call("unknown")
    with pytest.raises(NoWorkerError, match="serves the function unknown by name"):
        nobody.result(WAIT_SECONDS)


def test_calls_fail_as_tasks_do(client: Client) -> None:
    failed = client.call("fail")
    with pytest.raises(LookupError, match="not there"):
        failed.result(WAIT_SECONDS)
    with pytest.raises(RerunError, match="task fail cannot run here: it calls the function 'fail' by name"):
        failed.rerun()
    with pytest.raises(SerializeObjectError, match="set"):
        client.call("no_json").result(WAIT_SECONDS)
    with pytest.raises(TypeError):
        client.call("hypot", "three", 4).result(WAIT_SECONDS)
    with pytest.raises(DeserializeObjectError, match="no_such_module"):
        client.call("missing").result(WAIT_SECONDS)


def test_values_that_json_cannot_represent_are_refused_at_once(client: Client) -> None:
    for value in ({1, 2}, b"bytes", float("nan"), object()):
        with pytest.raises(SerializeObjectError, match="echo: argument 1"):
            client.call("echo", value)
    with pytest.raises(TypeError, match="pass the value itself"):
        client.call("echo", client.call("hypot", 1, 1))
    with pytest.raises(TypeError, match="pass the value itself"):
        client.call("echo", key=client.send_object(1))
    for name in ("", "a,b", "a=b", 5):
        with pytest.raises(ConfigError):
            client.call(name)  # type: ignore[arg-type]


def test_calls_by_name_take_options(client: Client) -> None:
    future = client.options(name="mine", priority=3, profiling=True).call("hypot", 3, 4)
    assert future.result(WAIT_SECONDS) == 5.0
    assert "mine" in repr(future)
    with pytest.raises(ConfigError, match=r"client\.call"):
        client.options(capabilities={"call:hypot": 0})


def test_asyncio_calls_by_name(address: str) -> None:
    async def main() -> list[Any]:
        async with AsyncClient(address) as client:
            calls = [client.call("hypot", 3, 4), client.options(name="n").call("echo", 1, two=2)]
            return [await call for call in calls]

    assert asyncio.run(main()) == [5.0, [[1], {"two": 2}]]


def test_threads_of_this_process_serve_functions_by_name() -> None:
    combo = SchedulerClusterCombo(n_workers=1, engine="inline", functions={"echo": echo}, logging_level="WARNING")
    with combo, Client(combo.get_address()) as client:
        assert client.call("echo", 1, two=2).result(WAIT_SECONDS) == [[1], {"two": 2}]


def test_bad_functions_are_refused() -> None:
    for functions in ({"a,b": "m:f"}, {"a": "no function"}, ["a"], ["a=m:f", "a=m:g"], {"a": 5}):
        with pytest.raises(ConfigError):
            Cluster("tcp://127.0.0.1:1", functions=functions)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="engines"):
        Cluster("tcp://127.0.0.1:1", functions={"a": "m:f"}, engine="dask://127.0.0.1:1")
