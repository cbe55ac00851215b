"""Tasks that use the client that was passed to them."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler import Client, Cluster, SchedulerClusterCombo, Serializer
from scaler.errors import TaskFailedError
from tests.support.processes import wait_until


def increment(value: int) -> int:
    return value + 1


def parent(client: Client, value: int) -> int:
    result: int = client.submit(increment, value).result()
    return result + 1


def parent_without_argument(value: int) -> int:
    result: int = Client().submit(increment, value).result()
    return result + 1


def identities(client: Client) -> tuple[int, set[bytes]]:
    """The process, and the clients in it, made in every way."""
    with client, Client() as own, Client(os.environ["SCALER_ADDRESS"], heartbeat_interval_seconds=2) as other:
        return os.getpid(), {client.identity, own.identity, other.identity, pickle.loads(pickle.dumps(own)).identity}


def submit_and_die(client: Client, path: str) -> None:
    client.submit(mark_and_sleep, path)
    wait_until(lambda: Path(path).exists(), "the child runs")
    os.kill(os.getpid(), signal.SIGKILL)


def mark_and_sleep(path: str) -> None:
    try:
        Path(path).touch()
        time.sleep(1000)
    finally:
        Path(path).unlink()


def submit_and_leave(client: Client, path: str) -> None:
    client.submit(write, path)


def write(path: str) -> None:
    time.sleep(0.3)
    Path(path).write_text("done")


class Counting(Serializer):
    """Says in each byte string that it was here."""

    def serialize(self, obj: Any) -> bytes:
        return b"counted" + cloudpickle.dumps(obj)

    def deserialize(self, payload: bytes) -> Any:
        assert payload.startswith(b"counted")
        return pickle.loads(payload[7:])


def serializer_name(client: Client) -> str:
    names = [type(client._core.serializer).__name__]
    return "".join(names + client.map(name_of_argument, [(1,)]))


def name_of_argument(value: object) -> str:
    return type(value).__name__


def test_a_task_uses_the_client_that_was_passed_to_it(client: Client) -> None:
    assert client.submit(parent, client, 1).result(30) == 3
    assert client.submit(lambda value: client.submit(increment, value).result(), 5).result(30) == 6


def test_a_client_without_an_address_is_one_of_the_scheduler_that_runs_the_task(client: Client) -> None:
    assert client.submit(parent_without_argument, 1).result(30) == 3


def test_all_clients_of_a_process_have_one_connection_also_after_the_end_of_a_with_block(client: Client) -> None:
    by_process: dict[int, set[bytes]] = {}
    for pid, seen in client.map(identities, [(client,)] * 50):
        by_process.setdefault(pid, set()).update(seen)
    assert by_process
    assert all(len(seen) == 1 for seen in by_process.values())


def test_the_serializer_travels_with_the_client(address: str) -> None:
    with Client(address, serializer=Counting()) as client:
        assert client.submit(serializer_name, client).result(30) == "Countingint"


def test_nested_tasks_continue_after_their_parent_has_ended(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "written"
    client.submit(submit_and_leave, client, str(path)).result(30)
    wait_until(path.exists, "the child has written")


def test_children_of_a_parent_that_died_are_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "child"
    with (
        SchedulerClusterCombo(n_workers=2, logging_level="CRITICAL", crash_limit=1) as combo,
        Client(combo.get_address()) as client,
    ):
        with pytest.raises(Exception, match="SIGKILL"):
            client.submit(submit_and_die, client, str(path)).result(30)
        wait_until(lambda: not path.exists(), "the child is interrupted")
        assert client.submit(increment, 1).result(30) == 2


def test_a_client_inside_a_task_reaches_the_scheduler_where_the_worker_does(tmp_path: Path) -> None:
    """The user's address need not lead anywhere on the machine of the worker."""
    link = f"ipc://{tmp_path}/scheduler"
    with SchedulerClusterCombo(n_workers=1, address=link, logging_level="WARNING") as combo:
        alias = tmp_path / "alias"
        alias.symlink_to(tmp_path / "scheduler")
        with Client(f"ipc://{alias}") as client:
            assert client.submit(who_is_it, client).result(30) == combo.get_address()


def who_is_it(client: Client) -> str:
    return client._core.link.address


def test_a_client_of_another_scheduler_stays_with_it(client: Client) -> None:
    with (
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as other,
        Client(other.get_address()) as other_client,
    ):
        assert client.submit(who_is_it, other_client).result(30) == other.get_address()
        assert client.submit(parent, other_client, 1).result(30) == 3


def test_a_cluster_that_joins_later_runs_nested_tasks(client: Client, address: str) -> None:
    cluster = Cluster(address, n_workers=2, logging_level="WARNING")
    cluster.start()
    try:
        assert client.map(parent, [(client, value) for value in range(2)]) == [2, 3]
    finally:
        cluster.terminate()
        cluster.join()


def endless(depth: int) -> int:
    return Client().submit(endless, depth + 1).result()


def test_an_endless_recursion_fails_with_an_error_and_the_workers_continue() -> None:
    with Client(n_workers=1, max_waiting_per_worker=5) as client:
        with pytest.raises(
            TaskFailedError, match="5 tasks of its worker already wait for tasks that they have submitted"
        ):
            client.submit(endless, 0).result(60)
        assert client.submit(increment, 1).result(60) == 2


@pytest.mark.more
def test_a_bad_setting_in_the_environment_of_workers_prevents_no_nested_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is one of clients that are made there, and this one comes with its own."""
    monkeypatch.setenv("SCALER_TIMEOUT_SECONDS", "soon")
    with SchedulerClusterCombo(n_workers=1, logging_level="CRITICAL") as combo:
        monkeypatch.delenv("SCALER_TIMEOUT_SECONDS")
        with Client(combo.get_address()) as client:
            assert client.submit(parent, client, 1).result() == 3
