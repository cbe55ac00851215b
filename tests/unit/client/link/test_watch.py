"""When a client looks whether its tasks go on, and what it says about it."""

from __future__ import annotations

import logging

import pytest

from scaler.client.link.open_work import OpenWork
from scaler.client.link.questions import OnAnswer
from scaler.client.link.watch import ASK_SECONDS_MOST, WARN_SECONDS, Watch
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.client import ExplainResponse, Task, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.vocabulary import NO_WORKER, NOT_ABLE, WORKER
from tests.unit.client.link.test_questions import Sink

FUNCTION = ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 16), "f", (b"code",))
STUCK = ("inactive", NO_WORKER, "no worker is connected")
RUNS = ("running", WORKER, "worker a has it")


class Scene:
    """A watch that is looked at every second, and a scheduler that answers at once."""

    def __init__(self, is_off: bool = False) -> None:
        self.work = OpenWork()
        self.watch = Watch(self.work, self.ask, is_off)
        self.now = 1000.0
        self.answer = STUCK
        self.asked: list[tuple[float, TaskId]] = []

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None:
        self.asked.append((self.now - 1000, task_id))
        on_answer(ExplainResponse(task_id, *self.answer))

    def add(self, number: int) -> TaskId:
        task_id = TaskId(bytes([number]) * 16)
        self.work.add((Task(task_id, FUNCTION.object_id, b"", b""), Sink(), FUNCTION, (), ()))
        return task_id

    def end(self, task_id: TaskId) -> None:
        self.work.on_results([TaskResult(task_id, 0, b"", 0)])

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            if self.now >= self.watch.look_at:
                self.watch.look(self.now)
            self.now += 1


@pytest.fixture
def scene() -> Scene:
    return Scene()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_nothing_is_asked_while_tasks_end(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    last = scene.add(0)
    for number in range(1, 100):
        scene.pass_seconds(3)
        task_id = scene.add(number)
        scene.end(last)
        last = task_id
    assert scene.asked == []
    assert scene.watch.due_at < scene.now + WARN_SECONDS


def test_nothing_open_is_nothing_to_watch(scene: Scene) -> None:
    scene.pass_seconds(100)
    assert scene.asked == []
    assert scene.watch.due_at == float("inf")


def test_a_task_that_no_worker_can_run_is_a_warning_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    task_id = scene.add(1)
    scene.add(2)
    scene.pass_seconds(60)
    assert scene.asked[0] == (WARN_SECONDS, task_id)
    assert warnings(caplog) == ["2 tasks wait: no worker is connected"]
    assert scene.watch.concern == "no worker is connected"


def test_that_it_waits_for_longer_is_no_news_for_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.add(1)
    scene.add(2)
    for number in range(6):
        scene.answer = ("inactive", NOT_ABLE, f"no worker can take it; it has waited for {10 * number} s")
        scene.pass_seconds(10)
        assert scene.watch.concern == scene.answer[2]
    scene.answer = STUCK
    scene.pass_seconds(10)
    assert warnings(caplog) == [
        "the oldest of 2 open tasks waits: no worker can take it; it has waited for 0 s",
        "2 tasks wait: no worker is connected",
    ]


def test_when_it_goes_on_that_is_said_too(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    task_id = scene.add(1)
    scene.pass_seconds(10)
    scene.answer = RUNS
    scene.pass_seconds(10)
    assert scene.watch.concern == ""
    scene.end(task_id)
    scene.pass_seconds(10)
    assert warnings(caplog) == ["1 task waits: no worker is connected", "tasks are progressing again"]


def test_tasks_that_all_have_failed_do_not_go_on(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    task_id = scene.add(1)
    scene.pass_seconds(10)
    scene.watch.forget()
    scene.end(task_id)
    scene.pass_seconds(10)
    assert (scene.watch.concern, warnings(caplog)) == ("", ["1 task waits: no worker is connected"])


def test_an_end_alone_takes_the_concern_away(scene: Scene) -> None:
    task_id = scene.add(1)
    scene.pass_seconds(10)
    assert scene.watch.concern
    scene.end(task_id)
    scene.pass_seconds(1)
    assert not scene.watch.concern


def test_a_long_task_is_asked_about_ever_more_seldom(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.answer = RUNS
    scene.add(1)
    scene.pass_seconds(600)
    pauses = [later - earlier for (earlier, _), (later, _) in zip(scene.asked, scene.asked[1:], strict=False)]
    assert pauses[0] == WARN_SECONDS
    assert pauses[-1] == ASK_SECONDS_MOST
    assert len(scene.asked) < 16
    assert warnings(caplog) == []


def test_there_is_always_something_to_do_when_it_says_so(scene: Scene) -> None:
    """Else the thread of the client would turn without an end until there is."""
    scene.add(1)
    for pause in (0.3, 0.9, 0.95, 0.7) * 20:
        scene.now += pause
        if scene.now >= scene.watch.look_at:
            scene.watch.look(scene.now)
            assert scene.watch.next_at > scene.now
        else:
            assert scene.watch.next_at >= scene.watch.look_at


def test_a_client_in_a_task_watches_nothing() -> None:
    scene = Scene(is_off=True)
    scene.add(1)
    scene.pass_seconds(100)
    assert scene.asked == []
