"""Pickled clients: what they contain, and which connection their copies use."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest

from scaler import Client, ConfigError, task_context
from scaler.client import client as client_module
from scaler.client import core as cores
from scaler.client import lifetime
from scaler.client.calls.client_pickling import (
    SCHEDULER_OF_TASK,
    ClientSettings,
    address_to_take,
    in_a_task_for,
    pickled,
)
from scaler.errors import DisconnectedError
from scaler.pickling.serialization import DefaultSerializer, Serializer, plain_to_pickle, to_frames
from scaler.task_context import TaskContext
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import NO_GRAPH, ClientHello, Task
from tests.support.fake_scheduler import FakeScheduler

ELSEWHERE = "tcp://127.0.0.1:1"


class Shouting(Serializer):
    """A serializer whose output differs from that of the default one."""

    def serialize(self, obj: Any) -> bytes:
        return b"!" + cloudpickle.dumps(obj)

    def deserialize(self, payload: bytes) -> Any:
        assert payload[:1] == b"!"
        return pickle.loads(payload[1:])


class InATask(TaskContext):
    agent_token = b"n" * 16
    processor = 7
    child_priority = 3  # type: ignore[assignment]
    account = 5, 6

    def __init__(self, address: str) -> None:
        self.address = address


@pytest.fixture(autouse=True)
def _no_shared_clients_are_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    links: dict[Any, Any] = {}
    monkeypatch.setattr(cores, "_shared_cores", {})
    monkeypatch.setattr(lifetime, "_shared_links", links)
    monkeypatch.setattr(lifetime, "_ended", set())
    yield
    for link, _ in links.values():
        link.close()


@pytest.fixture
def in_a_task(scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_context, "current", InATask(scheduler.address))


def test_a_client_is_pickled_as_by_cloudpickle(scheduler: FakeScheduler) -> None:
    with Client(scheduler.address) as client:
        assert Client in plain_to_pickle
        assert to_frames(DefaultSerializer(), client) == [cloudpickle.dumps(client, protocol=5)]


def test_settings_of_a_pickled_client_contain_its_serializer_unless_it_is_the_default() -> None:
    assert pickled(DefaultSerializer()) == b""
    assert type(ClientSettings(ELSEWHERE, False, 1, 1, b"").read_serializer()) is DefaultSerializer
    assert type(ClientSettings(ELSEWHERE, False, 1, 1, pickled(Shouting())).read_serializer()) is Shouting


def test_the_address_is_left_out_only_in_tasks_of_the_same_scheduler() -> None:
    assert address_to_take(ELSEWHERE) == ELSEWHERE
    with in_a_task_for(ELSEWHERE):
        assert address_to_take(ELSEWHERE) == SCHEDULER_OF_TASK
        with in_a_task_for("ipc:///tmp/other"):
            assert address_to_take(ELSEWHERE) == ELSEWHERE
        assert address_to_take(ELSEWHERE) == SCHEDULER_OF_TASK
    assert address_to_take(ELSEWHERE) == ELSEWHERE


def test_copies_of_a_client_share_one_connection_and_keep_their_settings(scheduler: FakeScheduler) -> None:
    with Client(scheduler.address, True, timeout_seconds=7, serializer=Shouting()) as client:
        data = pickle.dumps([client, client])
        copies = [*pickle.loads(data), *pickle.loads(data)]
        assert len({copy.identity for copy in copies}) == 1
        assert copies[0].identity != client.identity
        assert copies[0].submit(abs, -1).result(10) == 1
        assert copies[0]._core.seconds == (7, 2)
        assert [RunOptions.decode(task.options).profiling for task in scheduler.of(Task)] == [True]
        assert type(copies[0]._core.serializer) is Shouting
        assert pickle.dumps(copies) == pickle.dumps(copies)


def test_copies_with_different_serializers_share_one_connection(scheduler: FakeScheduler) -> None:
    with Client(scheduler.address) as plain, Client(scheduler.address, serializer=Shouting()) as own:
        first, second = pickle.loads(pickle.dumps((plain, own)))
        assert first.identity == second.identity
        assert [type(copy._core.serializer) for copy in (first, second)] == [DefaultSerializer, Shouting]


def test_a_shared_copy_of_a_client_cannot_be_disconnected(scheduler: FakeScheduler) -> None:
    with Client(scheduler.address) as client:
        copy = pickle.loads(pickle.dumps(client))
        with copy:
            pass
        copy.disconnect()
        assert copy.submit(abs, -1).result(10) == 1


def test_a_shared_connection_that_was_refused_is_not_used_again(scheduler: FakeScheduler) -> None:
    with Client(scheduler.address) as client:
        first = pickle.loads(pickle.dumps(client))
        first._core.link.close()
        assert pickle.loads(pickle.dumps(client)).submit(abs, -1).result(10) == 1


def test_an_interrupted_unpickling_of_a_client_can_be_repeated(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with Client(scheduler.address) as client:
        data = pickle.dumps(client)
        with monkeypatch.context() as patch:
            patch.setattr(lifetime, "shared_link", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pickle.loads(data)
        assert pickle.loads(data).submit(abs, -1).result(10) == 1


@pytest.mark.usefixtures("in_a_task")
def test_a_client_in_a_task_sends_its_agent_token_and_the_depth_of_its_tasks(scheduler: FakeScheduler) -> None:
    clients = [Client(), Client(scheduler.address), client_module._unpickled(SCHEDULER_OF_TASK, False, 60, 2, b"")]
    assert len({client.identity for client in clients}) == 1
    assert [client.submit(abs, -1).result(10) for client in clients] == [1, 1, 1]
    assert clients[0].map(abs, [(-2,)]) == [2]
    assert clients[0].get({"a": (abs, -3)}, ["a"], block=False).keys() == {"a"}
    scheduler.wait_for(Task, 1, lambda task: task.graph_id != NO_GRAPH)
    (hello,) = scheduler.of(ClientHello)
    assert (hello.agent_token, hello.processor) == (b"n" * 16, 7)
    assert {(task.priority, task.account, task.owner) for task in scheduler.of(Task)} == {(3, 5, 6)}


@pytest.mark.usefixtures("in_a_task")
def test_in_a_task_a_client_of_another_scheduler_is_no_nested_one() -> None:
    with FakeScheduler() as other, Client(other.address) as client:
        assert client.submit(abs, -1).result(10) == 1
        (hello,) = other.of(ClientHello)
        assert (hello.agent_token, hello.processor) == (bytes(16), 0)
        assert [(task.account, task.owner) for task in other.of(Task)] == [(0, 0)]


def test_a_client_pickled_without_its_address_cannot_be_read_outside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match="only in a task of the same scheduler"):
        client_module._unpickled(SCHEDULER_OF_TASK, False, 60, 2, b"")


@pytest.mark.usefixtures("in_a_task")
def test_a_shared_connection_ends_with_a_scheduler_of_this_process(scheduler: FakeScheduler) -> None:
    with Client() as first, Client(timeout_seconds=7) as second:
        lifetime.end_shared_links("tcp://127.0.0.1:1")
        assert not first._core.link.closed_because
        lifetime.end_shared_links(scheduler.address)
        assert first._core.link.closed_because
        assert second._core.link.closed_because
    with pytest.raises(DisconnectedError, match="the client that this task belongs to is disconnected"):
        Client()


@pytest.mark.usefixtures("in_a_task")
def test_a_shared_core_with_an_ended_connection_is_replaced() -> None:
    first = Client()
    first._core.link.close()
    second = Client(timeout_seconds=7)
    assert [core.link for core in cores._shared_cores.values()] == [second._core.link]


@pytest.mark.parametrize("timeout", ["", "17"], ids=["default", "environment"])
def test_the_early_connection_of_a_processor_is_used_by_clients_in_tasks(
    in_a_task: None, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, timeout: str
) -> None:
    monkeypatch.setenv("SCALER_TIMEOUT_SECONDS", timeout)
    task_context.connector(scheduler.address)()
    (core,) = cores._shared_cores.values()
    assert Client()._core is core
    assert core.link.is_nested
    assert core.seconds == (float(timeout or 60), 2)


@pytest.mark.usefixtures("in_a_task")
def test_a_bad_setting_is_an_error_only_when_a_task_makes_a_client(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALER_TIMEOUT_SECONDS", "soon")
    task_context.connector(scheduler.address)()
    assert not cores._shared_cores
    with pytest.raises(ConfigError, match="SCALER_TIMEOUT_SECONDS"):
        Client()
