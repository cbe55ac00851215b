"""What a client answers itself about its tasks, and what it asks the scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.client.calls.entry import GraphEntry
from scaler.client.link.open_work import OpenWork
from scaler.client.link.questions import Questions
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, GraphNode, GraphTask, Task, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.vocabulary import ENDED, NO_SCHEDULER, NO_WORKER, TRANSFER, WINDOW

FUNCTION = ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 16), "f", (b"code",))
GRAPH_ID = GraphId(b"g" * 16)


class Lane:
    def __init__(self, n_bytes: int = 0) -> None:
        self.n_bytes = n_bytes

    def bytes_before(self, item: ExplainRequest) -> int:
        return self.n_bytes


class Sink:
    def deliver(self, result: TaskResult) -> None: ...

    def refuse(self, result: TaskResult) -> None: ...

    def store(self, result: TaskResult) -> None: ...

    def fail(self, make_error: Any) -> None: ...

    def notify(self) -> None: ...


class Scene:
    def __init__(self) -> None:
        self.work = OpenWork()
        self.questions = Questions(self.work, "tcp://here:1", lambda: "no scheduler is there")
        self.answers: list[ExplainResponse] = []

    def add(self, number: int) -> TaskId:
        task_id = TaskId(bytes([number]) * 16)
        self.work.add((Task(task_id, FUNCTION.object_id, b"", b""), Sink(), FUNCTION, (), ()))
        return task_id

    def ask(self, task_id: TaskId, lane: Lane | None = None) -> None:
        self.work.out.clear()
        self.questions.ask(task_id, self.answers.append, lane)

    def asked(self) -> list[ExplainRequest]:
        return [item for item in self.work.out if type(item) is ExplainRequest]

    def reasons(self) -> list[str]:
        return [answer.waits_for for answer in self.answers]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_task_that_is_not_open_has_ended(scene: Scene) -> None:
    scene.ask(TaskId(b"x" * 16), Lane())
    assert scene.reasons() == [ENDED]
    assert scene.asked() == []


def test_without_a_scheduler_the_client_says_so_itself(scene: Scene) -> None:
    scene.ask(scene.add(1), None)
    assert scene.reasons() == [NO_SCHEDULER]
    assert scene.answers[0].sentence == "no scheduler is there"


def test_a_question_waits_for_a_scheduler_that_may_come(scene: Scene) -> None:
    task_id = scene.add(1)
    scene.questions.ask(task_id, scene.answers.append, None, may_come=True)
    scene.work.out.clear()
    scene.questions.resend()
    assert scene.asked() == [ExplainRequest(task_id, GraphId(NO_ID))]
    assert scene.answers == []


def test_a_task_outside_the_window_is_explained_here(scene: Scene) -> None:
    scene.work.window.resize(1, 0)
    scene.add(1)
    scene.ask(scene.add(2), Lane())
    assert scene.reasons() == [WINDOW]
    assert "has 1 open tasks of this client" in scene.answers[0].sentence


def test_arguments_on_their_way_are_counted(scene: Scene) -> None:
    scene.ask(scene.add(1), Lane(3 * 2**20))
    assert scene.reasons() == [TRANSFER]
    assert "3.0 MiB" in scene.answers[0].sentence


def test_the_scheduler_is_asked_once_and_its_answer_goes_to_whoever_asked(scene: Scene) -> None:
    task_id = scene.add(1)
    scene.ask(task_id, Lane())
    assert scene.asked() == [ExplainRequest(task_id, GraphId(NO_ID))]
    answer = ExplainResponse(task_id, "inactive", NO_WORKER, "start scaler_cluster ADDRESS")
    scene.questions.on_answers([answer, answer])
    assert scene.answers == [replace(answer, sentence="start scaler_cluster tcp://here:1")]


def test_a_node_is_asked_about_by_its_graph_and_position(scene: Scene) -> None:
    nodes = [GraphNode(GRAPH_ID, TaskId(bytes([n]) * 16), FUNCTION.object_id, b"", b"", b"", n == 1) for n in range(2)]
    graph = GraphEntry(GraphTask(GRAPH_ID, 2), nodes, [FUNCTION], (), ())
    graph.sinks[nodes[1].task_id] = Sink()
    scene.work.add_graph(graph)
    scene.ask(nodes[1].task_id, Lane())
    assert scene.asked() == [ExplainRequest(nodes[1].task_id, GRAPH_ID, 1)]
    assert scene.work.oldest() == nodes[1].task_id


def test_on_a_new_session_open_questions_are_asked_again_if_their_tasks_are_still_open(scene: Scene) -> None:
    first, second = scene.add(1), scene.add(2)
    scene.ask(first, Lane())
    scene.ask(second, Lane())
    scene.work.on_results([TaskResult(first, 0, b"", 0)])
    scene.work.out.clear()
    scene.questions.resend()
    assert scene.asked() == [ExplainRequest(second, GraphId(NO_ID))]
