from __future__ import annotations

import pickle
import threading

import pytest

from scaler import Client, ConfigError, DisconnectedError, SchedulerInfo, WorkerInfo
from scaler.client.insight.presence import names_of
from scaler.wire.messages.client import InfoRequest, InfoResponse
from scaler.wire.messages.client import WorkerDetails as WorkerSaid
from tests.support.fake_scheduler import FakeScheduler


def number_of_next(scheduler: FakeScheduler) -> int:
    scheduler.wait_for(InfoRequest)
    number: int = scheduler.of(InfoRequest)[-1].number
    return number


def test_info_is_a_value(client: Client, scheduler: FakeScheduler) -> None:
    info = client.info()
    assert info == SchedulerInfo(scheduler.address, workers=2, clusters=1, clients=1, waiting_tasks=0)
    assert pickle.loads(pickle.dumps(info)) == info


def test_workers_are_described(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_inquiries = False
    found: list[list[WorkerInfo]] = []
    asking = threading.Thread(target=lambda: found.append(client.workers()))
    asking.start()
    number = number_of_next(scheduler)
    scheduler.say(
        WorkerSaid(number, "host-0", 0, 3, 1, "3.12.1", "1.0", "gpu=2"),
        WorkerSaid(number + 1, "of another answer", 0, 0, 0, "", "", ""),
        WorkerSaid(number, "host-1", 0, 0, 0, "3.12.1", "1.0", ""),
        InfoResponse(number, 2, 1, 1, 0),
    )
    asking.join(10)
    (workers,) = found
    assert workers == [
        WorkerInfo("host-0", 0, 3, 1, "3.12.1", "1.0", {"gpu": 2}),
        WorkerInfo("host-1", 0, 0, 0, "3.12.1", "1.0", {}),
    ]
    assert len({*pickle.loads(pickle.dumps(workers))}) == 2
    shown = workers._repr_html_()  # type: ignore[attr-defined]
    assert shown.count("<tr>") == 3
    assert "<td>host-0</td><td>0</td><td>3</td><td>1</td><td>gpu=2</td>" in shown


def test_wait_for_workers_ends_when_enough_are_connected(client: Client, scheduler: FakeScheduler) -> None:
    assert client.wait_for_workers(2, timeout=10).workers == 2
    found: list[SchedulerInfo] = []
    waiting = threading.Thread(target=lambda: found.append(client.wait_for_workers(4)))
    waiting.start()
    scheduler.wait_for(InfoRequest, 2)
    number = scheduler.of(InfoRequest)[-1].number
    scheduler.say(InfoResponse(number, 3, 1, 1, 0), InfoResponse(number, 5, 2, 1, 0))
    waiting.join(10)
    assert [info.workers for info in found] == [5]


@pytest.mark.thorough
def test_the_timeout_error_of_wait_for_workers_counts_the_connected_ones(
    client: Client, scheduler: FakeScheduler
) -> None:
    with pytest.raises(TimeoutError, match=r"2 of 5 workers are connected .* after 1 s; start more.* -n 3"):
        client.wait_for_workers(5, timeout=1)
    scheduler.wait_for(InfoRequest, 2)
    first, second = scheduler.of(InfoRequest)
    assert second == InfoRequest(first.number)


@pytest.mark.thorough
def test_wait_for_workers_without_a_scheduler_is_an_error_that_says_so() -> None:
    with FakeScheduler() as scheduler:
        address = scheduler.address
    with Client(address) as client, pytest.raises(TimeoutError, match="no scheduler answered at"):
        client.wait_for_workers(1, timeout=0.05)
    with Client(address, timeout_seconds=1) as client, pytest.raises(TimeoutError, match="no scheduler answered at"):
        client.info()


@pytest.mark.parametrize("n_workers", [0, -1, 1.5, True, "2"])
def test_wait_for_workers_refuses_bad_numbers(client: Client, n_workers: int) -> None:
    with pytest.raises(ConfigError, match="n_workers must be"):
        client.wait_for_workers(n_workers)


def test_a_disconnected_client_cannot_request_info(client: Client) -> None:
    client.disconnect()
    for ask in (client.info, client.workers, client.wait_for_workers):
        with pytest.raises(DisconnectedError):
            ask()


def test_two_workers_of_one_name_cannot_be_addressed() -> None:
    workers = [WorkerInfo(name, 0, 0, 0, "", "") for name in ("a", "b", "a")]
    assert names_of(workers[:2]) == ["a", "b"]
    with pytest.raises(ConfigError, match=r"two workers have the name 'a', .* --worker-names"):
        names_of(workers)
