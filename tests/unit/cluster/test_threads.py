"""ThreadCluster: it leaves no threads or descriptors, and its failure fails all open futures."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import scaler.cluster.threads as module
from scaler import Client
from scaler.client import lifetime
from scaler.cluster.threads import ThreadCluster
from scaler.config import ConfigError
from scaler.errors import WorkerDiedError
from tests.support.processes import open_descriptors, wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    cluster = ThreadCluster({"n_workers": 2})
    yield cluster
    cluster.shutdown()


def ask_around(client: Client) -> int:
    """Use a client in the task, which has a thread of its own."""
    return int(client.submit(pow, 2, 10).result())


def held() -> tuple[int, int, int]:
    return threading.active_count(), open_descriptors(), len(lifetime._shared_links)


def held_at_rest() -> tuple[int, int, int]:
    """Return what is held once it is stable: ZeroMQ closes descriptors a moment after their sockets."""
    seen: list[tuple[int, int, int]] = []

    def is_at_rest() -> bool:
        seen.append(held())
        return len(seen) > 5 and len({*seen[-5:]}) == 1

    wait_until(is_at_rest, "nothing is opened or closed any more", pause_seconds=0.02)
    return seen[-1]


def test_a_cluster_of_threads_leaves_no_thread_and_no_descriptor() -> None:
    for link, _ in [*lifetime._shared_links.values()]:
        link.close()  # of other tests: it would open and close descriptors while it looks for its scheduler

    def run() -> None:
        cluster = ThreadCluster({"n_workers": 2})
        with Client(cluster.get_address()) as client:
            assert client.submit(ask_around, client).result() == 1024
            assert client.submit(bytes, 1_000_000).result() == bytes(1_000_000)
        cluster.shutdown()
        cluster.shutdown()

    run()  # ZeroMQ keeps some descriptors for good
    signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    before = held_at_rest()
    run()
    wait_until(lambda: held() == before, f"as much as before: {before}")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == signals


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_cluster_of_threads_ends_although_a_forked_process_lives(cluster: ThreadCluster) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    names = {"scaler-scheduler", "scaler-agent"}
    assert names <= {thread.name for thread in threading.enumerate()}
    cluster.shutdown()
    assert not names & {thread.name for thread in threading.enumerate()}
    os.close(read)
    os.close(write)
    os.waitpid(pid, 0)


def test_shutdown_of_a_cluster_of_threads_does_not_wait_for_a_running_task(
    cluster: ThreadCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def wait(gate: str) -> None:
        wait_until(lambda: Path(gate).exists(), "the gate")

    client = Client(cluster.get_address())
    future = client.submit(wait, str(gate))
    wait_until(lambda: [each for each in threading.enumerate() if each.name.startswith("scaler-task")], "it runs")
    client.disconnect()
    cluster.shutdown()
    assert future.cancelled()
    gate.touch()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("scaler-task")], "it ends")


def test_a_cluster_of_threads_whose_engine_is_missing_is_an_error_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_arguments: object) -> int:
        raise ConfigError("there is no engine 'inline'")

    monkeypatch.setattr(module, "run_agent", refuse)
    before = threading.active_count()
    with pytest.raises(ConfigError, match="no engine"):
        ThreadCluster({"n_workers": 1})
    assert threading.active_count() <= before


def test_a_failure_of_the_agent_in_a_thread_fails_open_futures(monkeypatch: pytest.MonkeyPatch) -> None:
    may_fail = threading.Event()

    def fail(_config: object, _line: int, on_started: object) -> int:
        on_started()  # type: ignore[operator]
        may_fail.wait(20)
        return 70

    monkeypatch.setattr(module, "run_agent", fail)
    cluster = ThreadCluster({"n_workers": 1})
    with Client(cluster.get_address()) as client:
        future = client.submit(pow, 2, 3)
        may_fail.set()
        with pytest.raises(WorkerDiedError, match="failed"):
            future.result(20)
    cluster.shutdown()
