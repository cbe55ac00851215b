from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler import starters
from scaler.client.link.open_work import OpenWork
from scaler.client.link.waiting import (
    ASK_SECONDS_MOST,
    WARN_SECONDS,
    ConnectionAdvice,
    OnAnswer,
    TaskQuestions,
    TaskWatch,
    advised,
)
from scaler.endpoint import Endpoint
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.transport.lookup import Lookup
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, Task, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.vocabulary import ENDED, NO_SCHEDULER, NO_WORKER, NOT_ABLE, TRANSFER, WINDOW, WORKER
from tests.support.graphs import graph_calls
from tests.unit.transport.test_lookup import UNKNOWN


def what_to_check(address: str) -> str:
    return ConnectionAdvice(Endpoint.parse(address), timeout_seconds=60).what_to_check()


def test_advice_names_what_may_be_wrong_with_the_address(tmp_path: Path) -> None:
    assert what_to_check("tcp://rome07:1").endswith("and that this machine knows the name 'rome07' and can reach it")
    assert what_to_check("tcp://10.0.0.1:1").endswith(
        "(scaler_scheduler tcp://10.0.0.1:1) and that this machine can reach it"
    )
    assert what_to_check(f"ipc://{tmp_path}/socket").endswith("on this machine")
    assert what_to_check("ipc:///nowhere/socket").endswith("there is no folder /nowhere")


def test_advice_says_that_another_program_listens_at_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert what_to_check(address).startswith("something listens there that does not answer as a scheduler does: ")
    assert what_to_check(address).startswith("check that one runs there")


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from scaler.client.link.waiting import ConnectionAdvice
from scaler.endpoint import Endpoint
from scaler.jobs.folder import read_jobs
os.setuid(65534)
print(ConnectionAdvice(Endpoint.parse(f"ipc://{sys.argv[1]}/scheduler"), 60).what_to_check())
try:
    print(list(read_jobs(Path(sys.argv[1]))))
except ValueError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_advice_names_the_folder_that_belongs_to_another_user() -> None:
    with tempfile.TemporaryDirectory() as place:  # other users cannot enter the folder of pytest
        Path(place).chmod(0o755)
        folder = Path(place, "private")
        folder.mkdir(mode=0o700)
        done = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER_USER, folder], capture_output=True, text=True, check=False
        )
    connect, read = done.stdout.splitlines()
    assert connect.startswith(
        f"this user may not connect there: {folder} belongs to root. Ask root for a scheduler at "
    )
    assert read == f"the folder of jobs {folder} cannot be read: it belongs to another user"


def test_in_a_task_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Lookup, "_look")
    ConnectionAdvice(Endpoint.parse(f"tcp://{UNKNOWN}:1"), timeout_seconds=60, is_nested=True).start_lookup()


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
        self.questions = TaskQuestions(self.work, Endpoint.parse("tcp://here:1"), lambda: "no scheduler is there")
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


def test_a_task_that_is_not_open_is_explained_by_a_connected_scheduler(scene: Scene) -> None:
    scene.ask(TaskId(b"x" * 16), None)
    assert scene.reasons() == [ENDED]
    assert scene.asked() == []
    scene.ask(TaskId(b"x" * 16), Lane())
    assert [item.task_id for item in scene.asked()] == [b"x" * 16]


def test_without_a_scheduler_the_client_explains_that_itself(scene: Scene) -> None:
    scene.ask(scene.add(1), None)
    assert scene.reasons() == [NO_SCHEDULER]
    assert scene.answers[0].sentence == "no scheduler is there"


def test_a_question_about_a_task_may_wait_for_a_scheduler(scene: Scene) -> None:
    task_id = scene.add(1)
    scene.questions.ask(task_id, scene.answers.append, None, may_connect=True)
    scene.work.out.clear()
    scene.questions.resend()
    assert scene.asked() == [ExplainRequest(task_id)]
    assert scene.answers == []


def test_a_task_outside_the_window_is_explained_by_the_client(scene: Scene) -> None:
    scene.work.window.resize(1, 0)
    scene.add(1)
    scene.ask(scene.add(2), Lane())
    assert scene.reasons() == [WINDOW]
    assert "has 1 open tasks of this client" in scene.answers[0].sentence


def test_the_explanation_of_a_task_counts_arguments_in_transfer(scene: Scene) -> None:
    scene.ask(scene.add(1), Lane(3 * 2**20))
    assert scene.reasons() == [TRANSFER]
    assert "3.0 MiB" in scene.answers[0].sentence


def test_the_explanation_of_a_task_is_requested_and_delivered_once(scene: Scene) -> None:
    task_id = scene.add(1)
    scene.ask(task_id, Lane())
    assert scene.asked() == [ExplainRequest(task_id)]
    answer = ExplainResponse(task_id, "inactive", NO_WORKER, "start scaler_cluster ADDRESS")
    scene.questions.on_answers([answer, answer])
    assert scene.answers == [replace(answer, sentence="start scaler_cluster tcp://here:1")]


COMMAND = "none has any; start one with scaler_cluster ADDRESS"


@pytest.mark.parametrize(
    ("sentence", "here", "own"),
    [
        (
            f"{COMMAND} --capabilities gpu=1,big disk=64; it has waited for 3 s",
            "none has any; start one with scaler_cluster tcp://here:1 --capabilities gpu=1,big disk=64; it has waited",
            'none has any; make the client with Client(capabilities={"gpu": 1, "big disk": 64}); it has waited for 3 s',
        ),
        (
            f"{COMMAND} --functions area=MODULE:FUNCTION, or one in another language",
            "none has any; start one with scaler_cluster tcp://here:1 --functions area=MODULE:FUNCTION, or one in",
            'none has any; make the client with Client(functions={"area": "MODULE:FUNCTION"})',
        ),
        (
            "start workers with scaler_cluster ADDRESS",
            "start workers with scaler_cluster tcp://here:1",
            "the workers of this client are starting or have died: see its log",
        ),
        ("it needs a result", "it needs a result", "it needs a result"),
    ],
)
def test_advice_is_about_the_cluster_of_this_client(
    sentence: str, here: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert advised(sentence, "tcp://here:1").startswith(here)
    monkeypatch.setattr(starters, "own_clusters", {"tcp://here:1": object()})
    assert advised(sentence, "tcp://here:1") == own
    assert "this client has started the scheduler" in what_to_check("tcp://here:1")


def test_the_explanation_of_a_task_of_a_graph_is_requested_by_graph_and_position(scene: Scene) -> None:
    task_ids = [TaskId(GRAPH_ID[:8] + n.to_bytes(8, "big")) for n in range(2)]
    tasks = [Task(task_id, FUNCTION.object_id, b"", b"", graph_id=GRAPH_ID, graph_tasks=2) for task_id in task_ids]
    graph = graph_calls(tasks, [FUNCTION])
    graph.sinks[task_ids[1]] = Sink()
    scene.work.add_graph(graph)
    scene.ask(task_ids[1], Lane())
    assert scene.asked() == [ExplainRequest(task_ids[1], GRAPH_ID)]
    assert scene.work.oldest() == task_ids[1]


def test_in_a_new_session_questions_about_open_tasks_are_sent_again(scene: Scene) -> None:
    first, second = scene.add(1), scene.add(2)
    scene.ask(first, Lane())
    scene.ask(second, Lane())
    scene.work.on_results([TaskResult(first, 0, b"", 0)])
    scene.work.out.clear()
    scene.questions.resend()
    assert scene.asked() == [ExplainRequest(second)]


FUNCTION = ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 16), "f", (b"code",))
STUCK = ("inactive", NO_WORKER, "no worker is connected")
RUNS = ("running", WORKER, "worker a has it")


class WatchScene:
    """A watch that is checked every second, and a scheduler that answers at once."""

    def __init__(self, is_off: bool = False) -> None:
        self.work = OpenWork()
        self.watch = TaskWatch(self.work, self.ask, is_off)
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
def watched() -> WatchScene:
    return WatchScene()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_a_watch_requests_nothing_while_tasks_end(watched: WatchScene, caplog: pytest.LogCaptureFixture) -> None:
    last = watched.add(0)
    for number in range(1, 100):
        watched.pass_seconds(3)
        task_id = watched.add(number)
        watched.end(last)
        last = task_id
    assert watched.asked == []
    assert watched.watch.due_at < watched.now + WARN_SECONDS


def test_a_watch_without_open_tasks_is_never_due(watched: WatchScene) -> None:
    watched.pass_seconds(100)
    assert watched.asked == []
    assert watched.watch.due_at == float("inf")


def test_a_task_that_no_worker_can_run_causes_one_warning(
    watched: WatchScene, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = watched.add(1)
    watched.add(2)
    watched.pass_seconds(60)
    assert watched.asked[0] == (WARN_SECONDS, task_id)
    assert warnings(caplog) == ["2 tasks wait: no worker is connected"]
    assert watched.watch.concern == "no worker is connected"


def test_a_longer_waiting_time_causes_no_further_warning(watched: WatchScene, caplog: pytest.LogCaptureFixture) -> None:
    watched.add(1)
    watched.add(2)
    for number in range(6):
        watched.answer = ("inactive", NOT_ABLE, f"no worker can take it; it has waited for {10 * number} s")
        watched.pass_seconds(10)
        assert watched.watch.concern == watched.answer[2]
    watched.answer = STUCK
    watched.pass_seconds(10)
    assert warnings(caplog) == [
        "the oldest of 2 open tasks waits: no worker can take it; it has waited for 0 s",
        "2 tasks wait: no worker is connected",
    ]


def test_tasks_that_progress_again_are_logged(watched: WatchScene, caplog: pytest.LogCaptureFixture) -> None:
    task_id = watched.add(1)
    watched.pass_seconds(10)
    watched.answer = RUNS
    watched.pass_seconds(10)
    assert watched.watch.concern == ""
    watched.end(task_id)
    watched.pass_seconds(10)
    assert warnings(caplog) == ["1 task waits: no worker is connected", "tasks are progressing again"]


def test_tasks_that_have_all_failed_are_not_logged_as_progressing(
    watched: WatchScene, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = watched.add(1)
    watched.pass_seconds(10)
    watched.watch.forget()
    watched.end(task_id)
    watched.pass_seconds(10)
    assert (watched.watch.concern, warnings(caplog)) == ("", ["1 task waits: no worker is connected"])


def test_the_end_of_a_task_clears_the_concern(watched: WatchScene) -> None:
    task_id = watched.add(1)
    watched.pass_seconds(10)
    assert watched.watch.concern
    watched.end(task_id)
    watched.pass_seconds(1)
    assert not watched.watch.concern


def test_requests_about_a_long_task_become_less_frequent(watched: WatchScene, caplog: pytest.LogCaptureFixture) -> None:
    watched.answer = RUNS
    watched.add(1)
    watched.pass_seconds(600)
    pauses = [later - earlier for (earlier, _), (later, _) in zip(watched.asked, watched.asked[1:], strict=False)]
    assert pauses[0] == WARN_SECONDS
    assert pauses[-1] == ASK_SECONDS_MOST
    assert len(watched.asked) < 16
    assert warnings(caplog) == []


def test_a_watch_is_never_due_without_something_to_do(watched: WatchScene) -> None:
    """Otherwise the thread of the client would spin."""
    watched.add(1)
    for pause in (0.3, 0.9, 0.95, 0.7) * 20:
        watched.now += pause
        if watched.now >= watched.watch.look_at:
            watched.watch.look(watched.now)
            assert watched.watch.next_at > watched.now
        else:
            assert watched.watch.next_at >= watched.watch.look_at


def test_a_client_in_a_task_watches_nothing() -> None:
    watched = WatchScene(is_off=True)
    watched.add(1)
    watched.pass_seconds(100)
    assert watched.asked == []
