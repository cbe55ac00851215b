"""Task output: which clients receive the lines that tasks write."""

from __future__ import annotations

from scaler.actors.insight.task_outputs import UNACKNOWLEDGED_MOST, WAITING_MOST
from scaler.actors.tree import OUTPUTS
from scaler.ids import NO_ID, TaskId
from scaler.wire.messages.client import OutputLine, OutputRequest, OutputResponse
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.worker import RunOutput, RunTask
from tests.support.configs import scheduler_config
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation

ALL = TaskId(NO_ID)


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=1000.0)


def write(simulation: Simulation, agent: SimulatedAgent, *texts: str, attempt: int | None = None) -> RunTask:
    """Send lines of output of the task that the agent started last."""
    run = agent.started[-1]
    agent.say(
        *(
            RunOutput(run.task_id, run.worker, attempt or run.attempt, OutputStream.STANDARD_OUTPUT, 7, 0, text)
            for text in texts
        )
    )
    simulation.run()
    return run


def ask(simulation: Simulation, client: SimulatedClient, *requests: OutputRequest) -> None:
    client.say(*requests)
    simulation.run()


def texts(client: SimulatedClient, number: int) -> list[str]:
    return [line.text for line in client.said(OutputLine) if line.number == number]


def busy(simulation: Simulation, client: SimulatedClient, agent: SimulatedAgent) -> TaskId:
    (task_id,) = client.submit()
    simulation.run()
    assert agent.started[-1].task_id == task_id
    return task_id


def test_a_client_receives_the_lines_of_its_task_while_it_runs_and_after_its_end(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=1.0))
    task_id = busy(simulation, client, agent)
    write(simulation, agent, "one", "two")
    ask(simulation, client, OutputRequest(5, task_id))
    (first, second) = client.said(OutputLine)
    worker = f"{agent.agent_id[-1]}-0"
    assert first == OutputLine(5, task_id, OutputStream.STANDARD_OUTPUT, 7, 0, "function", worker, "one")
    assert second.text == "two"
    assert client.said(OutputResponse) == [OutputResponse(5, 0)]
    simulation.advance(2.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    ask(simulation, client, OutputRequest(6, task_id))
    assert texts(client, 6) == ["one", "two"]


def test_other_clients_receive_no_lines_even_if_they_know_the_task(simulation: Simulation) -> None:
    client, other, agent = simulation.client(), simulation.client(), simulation.agent(1, slow)
    simulation.tree.directory.peers["client", other.client_id].is_admin = False
    task_id = busy(simulation, client, agent)
    ask(simulation, other, OutputRequest(9, ALL))
    write(simulation, agent, "secret")
    ask(simulation, other, OutputRequest(5, task_id))
    assert other.said(OutputLine) == []
    assert other.said(OutputResponse) == [OutputResponse(5, 0)]


def test_lines_of_an_unknown_attempt_are_ignored(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    task_id = busy(simulation, client, agent)
    write(simulation, agent, "old", attempt=77)
    ask(simulation, client, OutputRequest(5, task_id))
    assert texts(client, 5) == []


def test_a_stream_has_all_lines_of_the_tasks_of_a_client_and_of_their_nested_tasks(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, slow)
    ask(simulation, client, OutputRequest(3, ALL))
    busy(simulation, client, agent)
    run = write(simulation, agent, "outer")
    inner = simulation.nested_client(agent)
    (task_id,) = inner.submit(priority=65536, account=run.account)
    simulation.run()
    write(simulation, agent, "inner")
    assert texts(client, 3) == ["outer", "inner"]
    assert client.said(OutputResponse) == []
    ask(simulation, inner, OutputRequest(4, task_id), OutputRequest(8, ALL))
    assert texts(inner, 4) == ["inner"]


def test_lines_are_forgotten_after_their_retention_time() -> None:
    simulation = Simulation(scheduler_config(task_output_retention_seconds=10.0))
    client, agent = simulation.client(), simulation.agent(1, slow)
    task_id = busy(simulation, client, agent)
    write(simulation, agent, "one")
    simulation.advance(9.0)
    ask(simulation, client, OutputRequest(1, task_id))
    assert texts(client, 1) == ["one"]
    simulation.advance(2.0)
    assert len(simulation.tree.outputs.table) == 0
    ask(simulation, client, OutputRequest(2, task_id))
    assert texts(client, 2) == []


def flood(simulation: Simulation, agent: SimulatedAgent, lines: int) -> None:
    for start in range(0, lines, 1000):
        write(simulation, agent, *map(str, range(start, min(lines, start + 1000))))


def test_lines_that_a_slow_client_misses_are_counted_and_reported_to_it(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    ask(simulation, client, OutputRequest(3, ALL))
    busy(simulation, client, agent)
    client.hang()
    flood(simulation, agent, UNACKNOWLEDGED_MOST + 500)
    client.wake()
    simulation.run()
    assert len(texts(client, 3)) == UNACKNOWLEDGED_MOST
    simulation.advance(1.0)
    write(simulation, agent, "again")
    assert client.said(OutputLine)[-1].dropped == 500
    assert client.said(OutputLine)[-1].text == "again"


def test_answers_for_a_client_that_reads_nothing_wait_and_are_bounded(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    task_id = busy(simulation, client, agent)
    flood(simulation, agent, 100)
    client.hang()
    ask(simulation, client, *(OutputRequest(number, task_id) for number in range(WAITING_MOST + 50)))
    (reader,) = simulation.tree.outputs.readers.values()
    assert reader.unheard_lines == UNACKNOWLEDGED_MOST
    assert len(reader.waiting) <= WAITING_MOST
    client.wake()
    simulation.advance(60.0)
    assert not reader.waiting
    assert sorted(response.number for response in client.said(OutputResponse)) == list(range(WAITING_MOST + 50))


def test_a_stream_continues_after_its_actor_was_restarted_and_ends_with_its_client() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(1, slow)
    ask(simulation, client, OutputRequest(3, ALL))
    task_id = busy(simulation, client, agent)
    write(simulation, agent, "one")
    simulation.fail(simulation.tree.supervisor.children[OUTPUTS])
    simulation.run()
    write(simulation, agent, "two")
    ask(simulation, client, OutputRequest(4, task_id))
    assert (texts(client, 3), texts(client, 4)) == (["one", "two"], ["one", "two"])
    client.leave()
    simulation.run()
    desk = simulation.tree.outputs
    assert (desk.readers, desk.streams) == ({}, {})


def test_a_report_is_not_streamed_and_is_sent_on_request_only(simulation: Simulation) -> None:
    client, other, agent = simulation.client(), simulation.client(), simulation.agent(1, slow)
    simulation.tree.directory.peers["client", other.client_id].is_admin = False
    task_id = busy(simulation, client, agent)
    ask(simulation, client, OutputRequest(1, ALL))
    run = agent.started[-1]
    for text in ("10%", "40% of it"):
        agent.say(RunOutput(task_id, run.worker, run.attempt, OutputStream.REPORT, 7, 0, text))
    simulation.run()
    ask(simulation, client, OutputRequest(2, task_id), OutputRequest(3, task_id, report=1))
    ask(simulation, other, OutputRequest(4, task_id, report=1))
    assert [(line.number, line.text) for line in client.said(OutputLine)] == [(3, "40% of it")]
    assert [response.number for response in client.said(OutputResponse)] == [2, 3]
    assert other.said(OutputLine) == []
