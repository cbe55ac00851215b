"""A worker's agent is asked where a run is, and a client hears something in any case."""

from __future__ import annotations

import pytest

from scaler.actors import asked_worker
from scaler.actors.asked_worker import ANSWER_SECONDS
from scaler.ids import NO_ID, GraphId, TaskId
from scaler.wire.messages.client import ExplainRequest, ExplainResponse
from scaler.wire.messages.common import Standing
from scaler.wire.messages.worker import RunStanding, RunTask
from scaler.wire.reasons import CHILDREN
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=300.0)


class Scene:
    """A client, and an agent that has its task and answers nothing by itself."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.client: SimulatedClient = simulation.client()
        self.agent: SimulatedAgent = simulation.agent(1, slow)
        (self.task_id,) = self.client.submit(1)
        simulation.run()
        self.agent.hang()
        (self.run,) = self.agent.started

    def ask(self, times: int = 1) -> None:
        self.client.say(*[ExplainRequest(self.task_id, GraphId(NO_ID), 0)] * times)
        self.simulation.run()

    def answers(self) -> list[str]:
        return [answer.sentence for answer in self.client.said(ExplainResponse)]

    def say(self, standing: Standing, run_ms: int = 0, attempt: int | None = None, task: TaskId | None = None) -> None:
        number = self.run.attempt if attempt is None else attempt
        self.agent.say_alone(RunStanding(task or self.task_id, 0, number, standing, run_ms, 17))
        self.simulation.run()


@pytest.fixture
def scene(simulation: Simulation) -> Scene:
    return Scene(simulation)


def test_each_who_has_asked_hears_the_answer_once(scene: Scene) -> None:
    scene.ask(times=2)
    assert scene.answers() == []
    scene.say(Standing.RUNS, 61_000, task=TaskId(b"other---" * 2))
    scene.say(Standing.RUNS, 61_000)
    scene.say(Standing.RUNS, 62_000)
    scene.simulation.advance(2 * ANSWER_SECONDS)
    assert [sentence.partition("process ")[2] for sentence in scene.answers()] == ["17, and has for 61 s"] * 2


def test_without_an_answer_the_client_hears_what_is_known(scene: Scene) -> None:
    scene.ask()
    scene.simulation.advance(2 * ANSWER_SECONDS)
    (sentence,) = scene.answers()
    assert "has it and nothing else" in sentence
    scene.say(Standing.RUNS, 61_000)
    assert len(scene.answers()) == 1


def test_an_answer_about_another_attempt_says_nothing(scene: Scene) -> None:
    scene.ask()
    scene.say(Standing.RUNS, 61_000, attempt=scene.run.attempt + 1)
    (sentence,) = scene.answers()
    assert "61 s" not in sentence


def test_a_run_that_waits_for_its_own_says_so_whatever_the_agent_says(scene: Scene) -> None:
    scene.agent.wake()
    scene.agent.suspend(scene.task_id)
    scene.simulation.run()
    scene.ask()
    assert [answer.waits_for for answer in scene.client.said(ExplainResponse)] == [CHILDREN]


def test_only_so_many_questions_wait(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_worker, "QUESTIONS_MOST", 3)
    scene.ask(times=5)
    assert len(scene.answers()) == 2
    scene.simulation.advance(2 * ANSWER_SECONDS)
    assert len(scene.answers()) == 5
