"""Results of tasks, and tasks of clients that need each other, as the tests of this folder make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import result_argument
from scaler.shared_memory import SharedBlock
from scaler.wire.messages.client import NO_GRAPH, Task
from scaler.wire.messages.columns import positions
from scaler.wire.messages.common import ObjectRequest
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import Execute, Outcome, SimulatedClient, Simulation, succeed

DIAMOND = [(), (0,), (0,), (1, 2)]


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def large(_run: RunTask) -> Outcome:
    """Return a result whose bytes are at the scheduler."""
    return Outcome(payload=b"", frames=(b"large", b"result"))


def located(_run: RunTask) -> Outcome:
    """Return a result whose bytes are at the agent, with which it is lost."""
    return Outcome(payload=b"", location=SharedBlock.of([bytes(100_000)]).location())


def in_turn(*executes: Execute) -> Execute:
    """Run each run with the next one of `executes`."""
    left = iter(executes)

    def execute(run: RunTask) -> Outcome:
        return next(left)(run)

    return execute


def by_task(executes: Mapping[TaskId, Execute], other: Execute = succeed) -> Execute:
    """Run each of these tasks in its own way, and all others by `other`."""
    return lambda run: executes.get(run.task_id, other)(run)


def packed(*positions: int) -> bytes:
    return b"".join(position.to_bytes(4, "little") for position in positions)


def task_id(number: int) -> TaskId:
    return TaskId(bytes([number]) * 16)


def task(client: SimulatedClient, number: int, needs: int = 0, **fields: Any) -> Task:
    """Return a task with an id made of `number`, whose arguments are the results of its needs."""
    block = b"".join(map(result_argument, range(needs)))
    return Task(task_id(number), client.function_id, block, b"", **fields)


def await_results(client: SimulatedClient, *tasks: Task) -> list[TaskId]:
    """Let the client wait for the results of single tasks or of a graph, which it then sends. Return their ids."""
    for each in tasks:
        inputs = each.inputs + b"".join(tasks[at].task_id for at in positions(each.dependencies))
        client.calls[each.task_id] = replace(each, graph_id=NO_GRAPH, graph_tasks=0, dependencies=b"", inputs=inputs)
        if not each.unwanted:
            client.open[each.task_id] = each
    return [each.task_id for each in tasks]


def requested(client: SimulatedClient) -> list[ObjectId]:
    """Return the results that the scheduler has requested from a client."""
    return [request.object_id for request in client.said(ObjectRequest)]


def leave_and_check(simulation: Simulation, client: SimulatedClient) -> None:
    client.leave()
    simulation.advance(1.0)
    simulation.check_empty()
