from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import scaler
from scaler import Client, ConfigError, TaskOptions, task_context
from scaler.client.caller import ClientWithOptions
from scaler.task_context import TaskContext
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import Task
from scaler.wire.messages.priority import of_child, with_user_priority
from tests.support.faces import AnyClient, Face, user, with_client
from tests.support.fake_scheduler import FakeScheduler

MEASURED = RunOptions(profiling=True).encode()


def keywords(**given: Any) -> dict[str, Any]:
    return given


@with_client
async def test_tasks_of_submit_map_and_get_have_the_options(client: AnyClient, scheduler: FakeScheduler) -> None:
    eager = client.options(name="eager", priority=3, profiling=True)
    future = eager.submit(abs, -1)
    assert await future == 1
    assert "eager" in repr(future)
    assert await eager.map(abs, [(-2,), (-3,)]) == [2, 3]
    assert await eager.get({"a": (abs, -4)}, ["a"]) == {"a": 4}
    assert [(each.priority, each.name, each.options) for each in scheduler.of(Task)] == [
        (with_user_priority(0, 3), "eager", MEASURED)
    ] * 4


@with_client
async def test_options_do_not_change_the_client_itself(client: AnyClient, scheduler: FakeScheduler) -> None:
    client.options(priority=3, profiling=True)
    await client.submit(abs, -1)
    assert [(task.priority, task.options) for task in scheduler.of(Task)] == [(0, b"")]


@with_client
async def test_every_keyword_argument_goes_to_the_function(client: AnyClient) -> None:
    given = {"name": "n", "priority": 1, "profiling": "yes", "fn": abs, "self": 5}
    assert await client.options(name="load").submit(keywords, **given) == given


@with_client
async def test_options_can_be_kept_and_changed(client: AnyClient) -> None:
    nightly = TaskOptions(name="night", priority=-5)
    assert client.options(nightly).task_options == TaskOptions(name="night", priority=-5, profiling=False)
    assert client.options(nightly, priority=0).options(profiling=True).task_options == TaskOptions(
        name="night", priority=0, profiling=True
    )


def test_options_that_are_not_given_are_those_of_the_client(face: Face, scheduler: FakeScheduler) -> None:
    async def test(client: AnyClient) -> None:
        await client.options(priority=1).submit(abs, -1)
        await client.options(profiling=False).submit(abs, -1)

    user(face, scheduler.address, profiling=True)(test)
    assert [task.options for task in scheduler.of(Task)] == [MEASURED, b""]


@with_client
async def test_a_bad_option_is_refused_at_once(client: AnyClient, scheduler: FakeScheduler) -> None:
    with pytest.raises(TypeError, match="priority must be an int, not 'x'"):
        client.options(priority="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="priority must be between"):
        client.options(priority=40_000)
    with pytest.raises(TypeError, match="colour"):
        client.options(colour=3)  # type: ignore[call-arg]
    assert scheduler.of(Task) == []


class InATask(TaskContext):
    child_priority = of_child(with_user_priority(0, -7))  # type: ignore[assignment]


def test_options_in_a_task_change_its_priority_and_not_its_depth(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_context, "current", InATask())
    client.submit(abs, -1).result(10)
    client.options(priority=9).submit(abs, -1).result(10)
    client.options(priority=0).submit(abs, -1).result(10)
    one_deep = of_child(0)
    assert [task.priority for task in scheduler.of(Task)] == [one_deep - 7, one_deep + 9, one_deep]


def test_a_client_with_options_keeps_its_client_alive_and_can_be_pickled(scheduler: FakeScheduler) -> None:
    lazy = Client(scheduler.address).options(priority=-1)
    assert lazy.submit(abs, -1).result(10) == 1
    copy = pickle.loads(pickle.dumps(lazy))
    assert type(copy) is ClientWithOptions
    assert copy.task_options == lazy.task_options
    assert copy.submit(abs, -2).result(10) == 2
    assert [task.priority for task in scheduler.of(Task)] == [-1, -1]
    for one in (lazy, copy):
        one._core.link.close()


class Ends:
    """A value whose `repr` ends the program."""

    def __repr__(self) -> NoReturn:
        raise SystemExit(3)


WRONG: dict[str, Callable[[Client, Any], Any]] = {
    "capabilities": lambda client, bad: client.options(capabilities=bad),
    "retry_on": lambda client, bad: client.options(retries=1, retry_on=bad),
    "options": lambda client, bad: client.options(bad),
    "on_change": lambda client, bad: client.map(abs, [(1,)], job="job", on_change=bad),
    "progress": lambda _client, bad: list(scaler.progress([bad])),
    "keys of a graph": lambda client, bad: client.get({bad: 1}, []),
    "keys": lambda client, bad: client.get({"a": 1}, [bad]),
    "a call in a call": lambda client, bad: client.get({"a": (abs, (abs, bad))}, ["a"]),
    "a call in a list": lambda client, bad: client.get({"a": (abs, [(abs, bad)])}, ["a"]),
    "name of an object": lambda client, bad: client.send_object(1, name=bad),
    "name of a task": lambda client, bad: client.submit(abs, 1, name=bad),
    "call": lambda client, bad: client.call(bad),
    "upload": lambda client, bad: client.upload(bad),
    "story": lambda client, bad: client.story(bad),
    "address": lambda _client, bad: Client(bad),
    "serializer": lambda _client, bad: Client(serializer=bad),
    "dashboard": lambda _client, bad: Client(dashboard=bad),
    "n_workers": lambda client, bad: Client(client._core.link.address, n_workers=bad),
    "initializer": lambda _client, bad: Client(initializer=bad),
    "as_executor": lambda client, bad: client.as_executor(bad),
}


@pytest.mark.parametrize("use", WRONG.values(), ids=WRONG)
def test_an_error_about_a_wrong_argument_never_calls_its_repr(client: Client, use: Callable[..., Any]) -> None:
    with pytest.raises((TypeError, ValueError, KeyError), match="<Ends object>"):
        use(client, Ends())
