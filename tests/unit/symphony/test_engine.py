"""SymphonyEngine, where the stand-in of the integration tests is too slow to look into each order of events."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.engines.engine import EngineLostError
from scaler.symphony.engine import SymphonyEngine, symphony_engine
from scaler.wire.messages.common import TaskStatus
from tests.unit.engines.test_engine import call_of


class Grid(SimpleNamespace):
    """As much of `soamapi` as the engine calls, answered by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[Exception] = []
        self.sessions: list[Any] = []
        self.SessionFlags = SimpleNamespace(PARTIAL_ASYNC=4)
        self.Message = self.SessionCallback = object
        self.initialize = lambda: None
        self.DefaultSecurityCallback = lambda *_names: None
        self.SessionCreationAttributes = self.TaskSubmissionAttributes = Attributes

    def connect(self, *_arguments: Any) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        return SimpleNamespace(create_session=self._create)

    def _create(self, attributes: Attributes) -> Any:
        self.sessions.append(Session(attributes.session_callback))
        return self.sessions[-1]


class Attributes:
    def __getattr__(self, name: str) -> Any:
        return lambda value: setattr(self, name.removeprefix("set_"), value)


class Session:
    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.sent = 0
        self.answers_at_once: list[Any] = []
        self.error: Exception | None = None

    def send_task_input(self, _attributes: Attributes) -> Any:
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
def said() -> list[str]:
    return []


@pytest.fixture
def engine(grid: Grid, said: list[str]) -> SymphonyEngine:
    return SymphonyEngine(grid, "Service", said.append)


def test_an_answer_before_the_number_is_known_is_kept_for_its_task(engine: SymphonyEngine, grid: Grid) -> None:
    grid.sessions[0].answers_at_once = [failed(1, ValueError("bad"))]
    assert engine.submit(call_of(dict)).result(1).status == TaskStatus.FAILED


def test_a_failure_without_an_exception_is_the_death_of_a_process(engine: SymphonyEngine, grid: Grid) -> None:
    future = engine.submit(call_of(dict))
    grid.sessions[0].callback.on_response(failed(1, None))
    with pytest.raises(BrokenExecutor, match="has exited"):
        future.result(1)


def test_a_session_that_fails_loses_its_tasks_and_the_next_task_opens_another(
    engine: SymphonyEngine, grid: Grid, said: list[str]
) -> None:
    future = engine.submit(call_of(dict))
    grid.sessions[0].callback.on_exception("aborted")
    grid.sessions[0].callback.on_exception("aborted again")
    with pytest.raises(EngineLostError, match="aborted"):
        future.result(1)
    grid.refusals = [OSError("not yet")]
    assert not engine.submit(call_of(dict)).done()
    assert len(grid.sessions) == 2
    assert said == [
        "the session of the Symphony service 'Service' is lost: aborted; its tasks run again",
        "the Symphony service 'Service' cannot be reached: not yet; next try in 0.1 s",
    ]


def test_a_task_that_cannot_be_sent_is_lost_with_its_session(engine: SymphonyEngine, grid: Grid) -> None:
    grid.sessions[0].error = OSError("broken pipe")
    with pytest.raises(EngineLostError, match="broken pipe"):
        engine.submit(call_of(dict)).result(1)


def test_an_answer_to_a_cancelled_task_changes_nothing(engine: SymphonyEngine, grid: Grid) -> None:
    future = engine.submit(call_of(dict))
    assert future.cancel()
    grid.sessions[0].callback.on_response(failed(1, None))


def test_a_text_without_a_service_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no service"):
        symphony_engine("symphony", 1, print)
