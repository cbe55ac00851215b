"""SymphonyEngine with orders of events for which the stand-in of the integration tests is too slow."""

from __future__ import annotations

from array import array
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from scaler.config import ConfigError
from scaler.executors.engines.engine import EngineLostError
from scaler.executors.symphony.engine import SymphonyEngine, symphony_engine
from scaler.pickling.serialization import VALUE, DefaultSerializer, argument_block, to_frames
from scaler.wire.messages.common import TaskStatus
from tests.support.processes import wait_until
from tests.unit.executors.engines.test_engine import call_of


class Grid(SimpleNamespace):
    """The part of `soamapi` that the engine calls, answered by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[Exception] = []
        self.is_deaf = False
        self.open = 0
        """connections and sessions that are not closed"""
        self.sessions: list[Any] = []
        self.SessionFlags = SimpleNamespace(PARTIAL_ASYNC=4)
        self.Message = self.SessionCallback = object  # with nothing of their own
        self.initialize = lambda: None
        self.DefaultSecurityCallback = lambda *_names: None
        self.SessionCreationAttributes = self.TaskSubmissionAttributes = Attributes

    def connect(self, *_arguments: Any) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        self.open += 1
        return SimpleNamespace(create_session=self.create, close=self.close)

    def close(self) -> None:
        self.open -= 1

    def create(self, attributes: Attributes) -> Any:
        self.open += 1
        self.sessions.append(Session(attributes.session_callback))
        self.sessions[-1].close = self.close
        self.sessions[-1].error = OSError("broken pipe") if self.is_deaf else None
        return self.sessions[-1]


class Attributes:
    def __getattr__(self, name: str) -> Any:
        return lambda value: setattr(self, name.removeprefix("set_"), value)


class Session:
    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.sent = 0
        self.close: Any = None
        self.answers_at_once: list[Any] = []
        self.error: Exception | None = None
        self.taken: Any = lambda _attributes: None

    def send_task_input(self, attributes: Attributes) -> Any:
        self.taken(attributes)
        if self.error:
            raise self.error
        self.sent += 1
        number = self.sent
        if self.answers_at_once:
            self.callback.on_response(self.answers_at_once.pop(0))
        return SimpleNamespace(get_id=lambda: number)


def failed(number: int, embedded: Any) -> Any:
    class Exception_(SimpleNamespace):  # noqa: N801
        def __str__(self) -> str:
            return "the service instance has exited"

    exception = Exception_(get_embedded_exception=lambda: embedded)
    return SimpleNamespace(get_id=lambda: number, is_successful=lambda: False, get_exception=lambda: exception)


@pytest.fixture
def grid() -> Grid:
    return Grid()


@pytest.fixture
def logged() -> list[str]:
    return []


@pytest.fixture
def engine(grid: Grid, logged: list[str]) -> SymphonyEngine:
    return SymphonyEngine(grid, "Service", logged.append)


def test_an_answer_that_precedes_the_task_number_is_kept_for_its_task(engine: SymphonyEngine, grid: Grid) -> None:
    grid.sessions[0].answers_at_once = [failed(1, ValueError("bad"))]
    assert engine.submit(call_of(dict)).result(1).status == TaskStatus.FAILED


def test_a_failure_without_an_exception_counts_as_the_death_of_a_process(engine: SymphonyEngine, grid: Grid) -> None:
    future = engine.submit(call_of(dict))
    grid.sessions[0].callback.on_response(failed(1, None))
    with pytest.raises(BrokenExecutor, match="has exited"):
        future.result(1)


def test_a_failed_session_loses_its_tasks_and_the_next_task_opens_a_new_session(
    engine: SymphonyEngine, grid: Grid, logged: list[str]
) -> None:
    future = engine.submit(call_of(dict))
    grid.sessions[0].callback.on_exception("aborted")
    grid.sessions[0].callback.on_exception("aborted again")
    with pytest.raises(EngineLostError, match="aborted"):
        future.result(1)
    grid.refusals = [OSError("not yet")]
    assert not engine.submit(call_of(dict)).done()
    assert len(grid.sessions) == 2
    lost, refused = logged
    assert lost.startswith("the session of the Symphony service 'Service' is lost: aborted; its tasks run again")
    assert lost.endswith("the next session is opened in 0.1 s")
    assert refused == "the Symphony service 'Service' cannot be reached: not yet; next try in 0.2 s"


def test_a_task_that_cannot_be_sent_is_lost_with_its_session(engine: SymphonyEngine, grid: Grid) -> None:
    grid.sessions[0].error = OSError("broken pipe")
    with pytest.raises(EngineLostError, match="broken pipe"):
        engine.submit(call_of(dict)).result(1)


def test_a_session_that_fails_while_it_is_opened_gets_no_task(
    engine: SymphonyEngine, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid.sessions[0].callback.on_exception("aborted")
    create = grid.create

    def fail_once(attributes: Attributes) -> Any:
        session = create(attributes)
        monkeypatch.undo()
        session.callback.on_exception("aborted at once")
        return session

    monkeypatch.setattr(grid, "create", fail_once)
    assert not engine.submit(call_of(dict)).done()
    assert [session.sent for session in grid.sessions] == [0, 0, 1]


def test_pauses_grow_until_a_session_answers(engine: SymphonyEngine, grid: Grid, logged: list[str]) -> None:
    grid.is_deaf = True
    for session in grid.sessions:
        session.error = OSError("broken pipe")
    for _ in range(3):
        with pytest.raises(EngineLostError, match="broken pipe"):
            engine.submit(call_of(dict)).result(1)
    assert [sentence.rpartition(" in ")[2] for sentence in logged] == ["0.1 s", "0.2 s", "0.4 s"]
    grid.is_deaf = False
    answered = engine.submit(call_of(dict))
    grid.sessions[-1].callback.on_response(failed(1, ValueError("bad")))
    assert answered.result(1).status == TaskStatus.FAILED
    grid.sessions[-1].callback.on_exception("aborted")
    assert logged[-1].endswith("in 0.1 s")


def test_a_failed_session_is_closed_before_the_next_opens(engine: SymphonyEngine, grid: Grid) -> None:
    for session in range(3):
        grid.sessions[session].callback.on_exception("aborted")
        engine._pause_seconds = 0.0
        engine.submit(call_of(dict))
    assert grid.open == 2
    engine.close()
    assert grid.open == 0


def test_a_call_that_waits_for_a_session_ends_with_the_engine(engine: SymphonyEngine, grid: Grid) -> None:
    grid.sessions[0].callback.on_exception("aborted")
    grid.refusals = [OSError("not yet")] * 100
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(engine.submit, call_of(dict))
        wait_until(lambda: len(grid.refusals) < 100, "the engine has tried")
        engine.close()
        with pytest.raises(EngineLostError, match="closed"):
            waiting.result(5)


def test_an_answer_to_a_cancelled_task_is_ignored(engine: SymphonyEngine, grid: Grid) -> None:
    future = engine.submit(call_of(dict))
    assert future.cancel()
    grid.sessions[0].callback.on_response(failed(1, None))


def test_an_engine_setting_without_a_service_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no service"):
        symphony_engine("symphony", 1, print)


def test_the_input_sent_to_a_service_is_a_function_and_its_arguments(engine: SymphonyEngine, grid: Grid) -> None:
    written: list[tuple[Any, int, int]] = []
    stream = SimpleNamespace(write_byte_array=lambda *arguments: written.append(arguments))
    grid.sessions[0].taken = lambda attributes: attributes.task_input.on_serialize(stream)
    positional = argument_block(VALUE, bytes(to_frames(DefaultSerializer(), 7)[0]))
    call = call_of(divmod)
    engine.submit(call._replace(task=replace(call.task, payload=positional * 2)))
    wait_until(lambda: written, "the input is written")
    [(data, start, length)] = written
    assert (type(data), data.typecode, start, length) == (array, "b", 0, len(data))
    function, *arguments = cloudpickle.loads(data.tobytes())
    assert function(*arguments) == (1, 0)
