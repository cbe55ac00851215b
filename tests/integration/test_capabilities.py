"""Tasks that ask for what machines have, with real processes: what they take is given back however they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from scaler import Client, Cluster, NoWorkerError, ProcessorDiedError, SchedulerClusterCombo
from scaler.wire.messages.vocabulary import NOT_ABLE
from tests.support.processes import wait_until

POLL_SECONDS = 0.05
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    has = {"gpu": 2, "memory": "8G"}
    with SchedulerClusterCombo(n_workers=3, capabilities=has, crash_limit=1, logging_level="WARNING") as combo:
        yield combo.get_address()


def span(seconds: float) -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def hold(mark: Path, gate: Path) -> None:
    mark.touch()
    while not gate.exists():
        time.sleep(POLL_SECONDS)


def most_at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(began <= moment < ended for began, ended in spans) for moment, _ in spans)


def test_as_many_tasks_run_at_once_as_resources_allow(client: Client) -> None:
    client.wait_for_workers(3, WAIT_SECONDS)
    assert [worker.capabilities for worker in client.workers()] == [{"gpu": 2, "memory": 8 * 2**30}] * 3
    asking = client.options(capabilities={"gpu": 1, "memory": "1G"})
    spans = asking.map(span, [(0.05,) for _ in range(8)])
    assert most_at_once(spans) <= 2
    both = client.options(capabilities={"gpu": 2}).map(span, [(0.02,) for _ in range(3)])
    assert most_at_once(both) == 1
    nodes = {"a": (span, 0.02), "b": (span, 0.02), "c": (span, 0.02)}
    assert most_at_once(list(client.options(capabilities={"gpu": 2}).get(nodes, ["a", "b", "c"]).values())) == 1


@pytest.mark.parametrize("end", ["success", "failure", "cancel", "time limit", "crash"])
def test_resources_of_a_task_are_free_again_however_it_ended(client: Client, tmp_path: Path, end: str) -> None:
    mark, gate = tmp_path / "mark", tmp_path / "gate"
    asking = client.options(capabilities={"gpu": 2}, timeout=3.0 if end == "time limit" else None)
    task = {"failure": fail, "crash": crash}.get(end, hold)
    first = asking.submit(task, mark, gate)
    wait_until(mark.exists, "it runs")
    following = client.options(capabilities={"gpu": 1}).submit(span, 0)
    if end == "cancel":
        first.cancel()
    elif end != "time limit":
        gate.touch()
    error = {
        "failure": ValueError, "cancel": CancelledError, "time limit": TimeoutError, "crash": ProcessorDiedError,
    }.get(end)  # fmt: skip
    if error is None:
        first.result(WAIT_SECONDS)
    else:
        with pytest.raises(error):
            first.result(WAIT_SECONDS)
    following.result(WAIT_SECONDS)


def fail(mark: Path, gate: Path) -> None:
    hold(mark, gate)
    raise ValueError("it fails")


def crash(mark: Path, gate: Path) -> None:
    hold(mark, gate)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_waits_for_its_own_lends_what_it_took(client: Client) -> None:
    def parent(client: Client, depth: int) -> int:
        if not depth:
            return 0
        child = client.options(capabilities={"gpu": 2}).submit(parent, client, depth - 1)
        return int(child.result()) + 1

    assert client.options(capabilities={"gpu": 2}).submit(parent, client, 3).result(WAIT_SECONDS) == 3


def test_a_task_that_no_worker_can_take_blocks_no_other_and_runs_when_a_worker_joins(
    client: Client, address: str
) -> None:
    stuck = [client.options(capabilities={"tpu": 1}).submit(span, 0) for _ in range(20)]
    assert len(client.map(span, [(0,) for _ in range(20)])) == 20
    assert len(client.options(capabilities={"gpu": 1}).map(span, [(0,) for _ in range(5)])) == 5
    story = stuck[0].story()
    assert story.waits_for == NOT_ABLE
    assert "it asks for tpu=1" in story.sentence
    assert "--capabilities tpu=1" in stuck[0].explain()
    cluster = Cluster(address, n_workers=1, capabilities=["tpu"], logging_level="WARNING")
    cluster.start()
    try:
        for future in stuck:
            future.result(WAIT_SECONDS)
    finally:
        cluster.terminate()
        cluster.join()


def test_a_task_that_will_not_wait_fails_and_names_the_missing_resource(client: Client) -> None:
    asking = client.options(capabilities={"gpu": 3}, no_worker_timeout=0.2)
    with pytest.raises(NoWorkerError, match=r"asks for gpu=3.*the most on one machine: gpu=2"):
        asking.submit(span, 0).result(WAIT_SECONDS)
    with pytest.raises(NoWorkerError, match="gpu=3"):
        asking.get({"a": (span, 0)}, ["a"])


def test_the_python_version_of_a_worker_is_a_capability_without_a_setting(client: Client) -> None:
    client.wait_for_workers(3, WAIT_SECONDS)
    minor = ".".join(client.workers()[0].python_version.split(".")[:2])
    spans = client.options(capabilities={f"python{minor}": 1}).map(span, [(0,) for _ in range(5)])
    assert len(spans) == 5
    with pytest.raises(NoWorkerError, match=r"python2\.7"):
        client.options(capabilities={"python2.7": 0}, no_worker_timeout=0.1).submit(span, 0).result(WAIT_SECONDS)


def seen(mark: Path, gate: Path) -> tuple[str | None, int]:
    hold(mark, gate)
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()


def test_a_task_sees_its_gpus_and_no_two_see_the_same(client: Client, tmp_path: Path) -> None:
    marks, gate, on_gpu = [tmp_path / name for name in "ab"], tmp_path / "gate", client.options(capabilities={"gpu": 1})
    both = [on_gpu.submit(seen, mark, gate) for mark in marks]
    wait_until(lambda: all(mark.exists() for mark in marks), "both run at the same time")
    gate.touch()
    one, other = (future.result(WAIT_SECONDS) for future in both)
    assert {one[0], other[0]} == {"0", "1"}
    assert client.options(capabilities={"gpu": 2}).submit(seen, marks[0], gate).result(WAIT_SECONDS)[0] == "0,1"
    assert client.submit(seen, marks[0], gate).result(WAIT_SECONDS)[0] is None


@pytest.mark.more
def test_a_process_that_used_a_gpu_runs_no_tasks_with_other_gpus(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    combo = SchedulerClusterCombo(n_workers=1, capabilities={"gpu": 2}, logging_level="WARNING")
    with combo, Client(combo.get_address()) as client:
        asking = [client.options(capabilities={"gpu": gpus}) for gpus in (1, 0, 1, 2, 1)]
        seen_by = [each.submit(seen, gate, gate).result(WAIT_SECONDS) for each in asking]
    devices, processes = zip(*seen_by, strict=True)
    assert devices == ("0", None, "0", "0,1", "0")
    assert processes[0] == processes[1] == processes[2]
    assert len(set(processes[2:])) == 3
