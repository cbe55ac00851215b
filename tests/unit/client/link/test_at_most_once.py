from __future__ import annotations

from dataclasses import replace
from typing import Any

from scaler.client.calls.entry import GraphCalls
from scaler.client.link.at_most_once import claim_of_task, is_at_most_once, mark_possibly_started
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from tests.support.graphs import graph_calls

ONCE, OFTEN = RunOptions(at_most_once=True).encode(), RunOptions(profiling=True).encode()
SAID = RunOptions(at_most_once=True, was_submitted=True).encode()
FUNCTION = ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 16), "", ())


def task(number: int, options: bytes) -> Task:
    return Task(TaskId(bytes([number]) * 16), FUNCTION.object_id, b"", b"", options=options)


def graph(number: int, options: bytes) -> GraphCalls:
    graph_id = GraphId(bytes([number]) * 16)
    tasks = [replace(task(number, options), graph_id=graph_id, graph_tasks=2) for _ in range(2)]
    return graph_calls(tasks, [FUNCTION])


def test_options_say_whether_a_task_runs_at_most_once() -> None:
    assert [is_at_most_once(options) for options in (ONCE, SAID, OFTEN, b"")] == [True, True, False, False]


def test_only_sent_at_most_once_tasks_and_graphs_are_marked_as_submitted() -> None:
    sink: Any = object()
    tasks = {
        t.task_id: (t, sink, FUNCTION, (), ()) for t in (task(1, ONCE), task(2, OFTEN), task(3, ONCE), task(4, b""))
    }
    before = dict(tasks)
    said, unsent = graph(5, ONCE), graph(6, ONCE)
    mark_possibly_started(tasks, [said, unsent], [FUNCTION, task(3, ONCE), *unsent.tasks])
    assert [entry[0].options for entry in tasks.values()] == [SAID, OFTEN, ONCE, b""]
    assert [entry[1:] for entry in tasks.values()] == [entry[1:] for entry in before.values()]
    assert replace(tasks[TaskId(b"\1" * 16)][0], options=ONCE) == before[TaskId(b"\1" * 16)][0]
    assert [task.options for task in (*said.tasks, *unsent.tasks)] == [SAID, SAID, ONCE, ONCE]
    mark_possibly_started(tasks, [said, unsent], [])
    assert [entry[0].options for entry in tasks.values()] == [SAID, OFTEN, SAID, b""]


def test_a_claim_names_a_call_and_runs_nothing() -> None:
    call = replace(task(1, b""), payload=b"block", object_ids=b"o" * 16, frames=(b"frame",), inputs=b"i" * 16)
    claim = claim_of_task(call)
    assert claim == task(1, RunOptions(was_submitted=True).encode())
