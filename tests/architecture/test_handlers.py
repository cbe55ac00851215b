"""Every message has somebody who says it and somebody who hears it."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import get_origin

import pytest

import scaler.actors
import scaler.actors.messages.objects
import scaler.actors.messages.peers
import scaler.actors.messages.tasks
import scaler.agent
import scaler.agent.link
import scaler.agent.messages
import scaler.client.link.protocol
import scaler.executors.engines.host
import scaler.executors.engines.host_proxy
import scaler.executors.messages
import scaler.executors.processes
import scaler.executors.processes.messages
import scaler.executors.processes.pool.processor_proxy
import scaler.processor.processor
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.kit import Actor
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import Chunk
from scaler.wire.messages.directions import (
    AGENT_TO_PROCESSOR,
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    DIRECTIONS,
    PROCESSOR_TO_AGENT,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import WorkerHello
from tests.support.trees import nodes

SOURCE = Path(scaler.actors.__file__).parents[1]
BY_THE_EDGE = {Batch[ClientHello], Batch[WorkerHello]}
BY_THE_PIPE = {Batch[Chunk]}


@functools.cache
def made_in(folder: Path) -> set[str]:
    """The names that are called, or handed on as what makes something."""
    names = set()
    for node in (node for path in sorted(folder.rglob("*.py")) for node in nodes(path)):
        if isinstance(node, ast.Call):
            called = [node.func, *node.args]
            names |= {part.id for part in called if isinstance(part, ast.Name)}
        elif isinstance(node, ast.IfExp):  # one of two is called below
            names |= {part.id for part in (node.body, node.orelse) if isinstance(part, ast.Name)}
    return names


def names_in(module: ModuleType) -> set[str]:
    """All names, and the classes of batches: `Batch[Task]`."""
    tree = ast.parse(inspect.getsource(module))
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, (ast.Name, ast.Subscript))}


def actors_in(package: ModuleType) -> set[type[Actor]]:
    found: set[type[Actor]] = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        classes = [member for member in members if isinstance(member, type) and get_origin(member) is None]
        found |= {member for member in classes if issubclass(member, Actor)}
    return found


def own_classes(module: ModuleType) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]


def test_every_batch_of_a_client_is_handled() -> None:
    assert set(CLIENT_TO_SCHEDULER.batches) <= set(ClientSession.handlers) | BY_THE_EDGE | BY_THE_PIPE


def test_every_batch_of_an_agent_is_handled() -> None:
    assert set(AGENT_TO_SCHEDULER.batches) <= set(AgentSession.handlers) | BY_THE_EDGE | BY_THE_PIPE


def test_edge_handles_the_hellos_that_sessions_do_not() -> None:
    assert BY_THE_EDGE.isdisjoint({*ClientSession.handlers, *AgentSession.handlers})
    edge = (SOURCE / "scheduler" / "edge.py").read_text()
    assert all(batch.__name__ in edge for batch in BY_THE_EDGE)


def test_every_batch_for_an_agent_is_handled_by_its_link() -> None:
    assert set(SCHEDULER_TO_AGENT.batches) <= set(scaler.agent.link.AgentLink.handlers) | BY_THE_PIPE


def test_every_batch_for_a_client_is_handled_by_the_clients_protocol() -> None:
    tables = [
        node.value
        for node in ast.walk(ast.parse(inspect.getsource(scaler.client.link.protocol)))
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "self._handlers"
    ]
    (table,) = tables
    assert isinstance(table, ast.Dict)
    handled = {ast.unparse(key) for key in table.keys if key is not None}
    assert handled == {batch.__name__ for batch in {*SCHEDULER_TO_CLIENT.batches} - BY_THE_PIPE}


@pytest.mark.parametrize(
    ("direction", "modules"),
    [
        (AGENT_TO_PROCESSOR, (scaler.processor.processor, scaler.executors.engines.host)),
        (PROCESSOR_TO_AGENT, (scaler.executors.processes.pool.processor_proxy, scaler.executors.engines.host_proxy)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_both_ends_of_a_channel_know_the_batches(direction: Direction, modules: tuple[ModuleType, ...]) -> None:
    known = {name for module in modules for name in names_in(module)}
    # One member of the union may be what is left when it was none of the others.
    assert len([batch for batch in direction.batches if batch.__name__ not in known]) <= 1


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_every_item_has_a_sender(direction: Direction) -> None:
    assert {batch.item.__name__ for batch in direction.batches} <= made_in(SOURCE)


@pytest.mark.parametrize(
    ("messages", "packages"),
    [
        (scaler.actors.messages.tasks, [scaler.actors]),
        (scaler.actors.messages.objects, [scaler.actors]),
        (scaler.actors.messages.peers, [scaler.actors]),
        (scaler.agent.messages, [scaler.agent]),
        (scaler.executors.messages, [scaler.agent, scaler.executors.processes]),
        (scaler.executors.processes.messages, [scaler.executors.processes]),
    ],
    ids=["tasks", "objects", "peers", "agent", "executors", "processes"],
)
def test_every_internal_message_is_sent_and_handled(messages: ModuleType, packages: list[ModuleType]) -> None:
    classes = own_classes(messages)
    handled = {kind for package in packages for actor in actors_in(package) for kind in actor.handlers}
    carried = {"CachedObject", "WorkersView", "ProcessNow", "Tries", "PastTry", "ReturnedRows"}  # inside other messages
    assert {cls.__name__ for cls in classes if cls not in handled} <= carried
    assert {cls.__name__ for cls in classes} <= made_in(SOURCE)


def test_every_handled_message_is_defined() -> None:
    """A handler's type is an internal message of the same package, a batch or an item of the wire, or of the kit."""
    modules = {
        "scaler.actors": ("scaler.actors.", "scaler.wire.messages", "scaler.kit.", "pykka."),
        "scaler.agent": ("scaler.agent.", "scaler.executors.messages", "scaler.wire.messages", "scaler.kit.", "pykka."),
        "scaler.executors.processes": ("scaler.executors.", "scaler.wire.messages", "scaler.kit.", "pykka."),
    }
    for package in (scaler.actors, scaler.agent, scaler.executors.processes):
        for actor in actors_in(package):
            strangers = [kind for kind in actor.handlers if not kind.__module__.startswith(modules[package.__name__])]
            assert strangers == [], actor
