"""Events: what a listener receives about tasks, peers, objects and parts of the scheduler, in the order of events."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Container
from pathlib import Path
from typing import Any

import pytest

import scaler.actors
from scaler.actors.tree import BALANCER
from scaler.actors.vocabulary import events
from scaler.actors.vocabulary.events import (
    AGENT,
    BROKE,
    CLIENT,
    CUT,
    EVERY_TASK,
    FAILED,
    LEFT,
    NESTED_CLIENT,
    PROCESSOR_ENDED,
    SENT_AWAY,
    SILENT,
    SUBMITTED,
    Events,
    ObjectFilled,
    ObjectGone,
    ObjectStored,
    PartRestarted,
    PeerDisconnected,
    PeerJoined,
    PeerLeft,
    PeerReconnected,
    PeerRefused,
    TaskMoved,
)
from scaler.actors.vocabulary.task_states import (
    ASSIGNED,
    BALANCER_RESTARTED,
    CANCEL,
    CRASHED,
    CRASHED_TOO_OFTEN,
    FINISHED,
    LOST,
    RAISED,
    REFUSED,
    STOPPED,
    WITHDRAWN,
)
from scaler.ids import TaskId
from scaler.wire.messages.client import GoodbyeKind
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.worker import ProcessorGone, RunTask
from tests.support.bench import Bench
from tests.support.configs import scheduler_config
from tests.support.recorder import Recorder
from tests.support.simulation import Outcome, Simulation


def listen(simulation: Simulation, followed: Container[TaskId] | None = None) -> Recorder:
    recorder = Recorder()
    simulation.tree.events.listen(simulation.dispatcher.spawn(recorder), followed)
    return recorder


def reported(simulation: Simulation, recorder: Recorder, kind: type) -> list[Any]:
    simulation.run()
    return [event for event in recorder.take() if type(event) is kind]


def path(moves: list[TaskMoved]) -> list[tuple[str, str]]:
    return [(move.event, move.state) for move in moves]


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=100.0)


# Listeners


def test_a_new_listener_replaces_the_old_one_and_stop_removes_it(bench: Bench) -> None:
    door, (_, one), (_, other) = Events(), bench.recorder(), bench.recorder()
    door.listen(one, EVERY_TASK)
    door.listen(other)
    assert (door.listener, door.followed) == (other, None)
    door.stop()
    assert door.listener is None


def test_each_kind_of_event_is_reported_by_an_actor() -> None:
    names = {
        name
        for name, kind in inspect.getmembers(events, inspect.isclass)
        if kind.__module__ == events.__name__ and hasattr(kind, "__dataclass_fields__")
    }
    folder = Path(scaler.actors.__file__).parent
    calls = [
        node.func.id
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert names <= set(calls)


def test_a_listener_that_has_ended_hinders_no_task(simulation: Simulation) -> None:
    recorder = listen(simulation, EVERY_TASK)
    recorder.actor_ref.stop(block=False)
    client, _ = simulation.client(), simulation.agent()
    client.submit(3)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert recorder.messages == []


# Tasks


def test_each_transition_of_a_followed_task_is_reported(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent()
    watched: set[TaskId] = set()
    recorder = listen(simulation, watched)
    watched.add(client.submit(1)[0])
    client.submit(1)
    simulation.advance(5.0)
    moves = reported(simulation, recorder, TaskMoved)
    assert path(moves) == [(SUBMITTED, "inactive"), (ASSIGNED, "running"), (FINISHED, "success")]
    assert {move.spec.task_id for move in moves} == watched
    assert {move.client_id for move in moves} == {client.client_id}
    (proxy,) = simulation.proxies()
    assert [move.worker for move in moves] == [None, proxy.actor_ref, proxy.actor_ref]
    assert moves[1].attempt == moves[2].attempt == agent.started[0].attempt
    assert {move.reason for move in moves} == {""}


def test_only_unusual_transitions_are_reported_of_a_task_that_is_not_followed(simulation: Simulation) -> None:
    outcomes = iter([Outcome(TaskStatus.PROCESSOR_DIED, b"it died by signal 9"), Outcome()])
    client, agent = simulation.client(), simulation.agent(execute=lambda _run: next(outcomes))
    recorder = listen(simulation)
    client.submit(1)
    simulation.advance(5.0)
    (crash,) = reported(simulation, recorder, TaskMoved)
    assert (crash.event, crash.state, crash.reason) == (CRASHED, "inactive", "it died by signal 9")
    assert crash.worker is simulation.proxies()[0].actor_ref
    assert crash.attempt == agent.started[0].attempt == agent.started[1].attempt - 1


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (TaskStatus.FAILED, "failed"),
        (TaskStatus.TIMED_OUT, "timedOut"),
        (TaskStatus.MISSING_OBJECTS, "missingObjects"),
        (TaskStatus.INTERNAL_ERROR, "internalError"),
    ],
)
def test_a_failure_is_reported_with_its_kind_and_the_reason_that_the_system_gives(
    status: TaskStatus, state: str
) -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent(execute=lambda _run: Outcome(status, b"because"))
    recorder = listen(simulation)
    client.submit(1)
    simulation.advance(5.0)
    (move,) = reported(simulation, recorder, TaskMoved)
    # The payload of a task that raised is the pickled exception, and not a sentence.
    assert (move.event, move.state, move.reason) == (RAISED, state, "" if status == TaskStatus.FAILED else "because")


def test_a_long_or_undecodable_reason_is_shortened_and_reported() -> None:
    simulation = Simulation()
    client, _ = (
        simulation.client(),
        simulation.agent(execute=lambda _run: Outcome(TaskStatus.TIMED_OUT, b"\xff" + b"x" * 1000)),
    )
    recorder = listen(simulation)
    client.submit(1)
    simulation.advance(5.0)
    (move,) = reported(simulation, recorder, TaskMoved)
    assert move.reason == "\N{REPLACEMENT CHARACTER}" + "x" * 399


def test_each_attempt_of_a_task_that_crashes_too_often_is_reported(simulation: Simulation) -> None:
    died = Outcome(TaskStatus.PROCESSOR_DIED, b"it died")
    client, _ = simulation.client(), simulation.agent(execute=lambda _run: died)
    recorder = listen(simulation, EVERY_TASK)
    client.submit(1)
    simulation.advance(5.0)
    moves = reported(simulation, recorder, TaskMoved)
    again = [(ASSIGNED, "running"), (CRASHED, "inactive")]
    assert path(moves) == [
        (SUBMITTED, "inactive"),
        *again,
        *again,
        (ASSIGNED, "running"),
        (CRASHED_TOO_OFTEN, "processorDied"),
    ]
    first = moves[0].attempt
    assert [move.attempt - first for move in moves] == [0, 0, 0, 1, 1, 2, 2]


def test_both_transitions_of_a_cancelled_task_are_reported(simulation: Simulation) -> None:
    client, _ = simulation.client(), simulation.agent(execute=slow)
    running, waiting = client.submit(2)
    simulation.run()
    recorder = listen(simulation)
    client.cancel(running, waiting)
    moves = reported(simulation, recorder, TaskMoved)
    by_task = {task: path([move for move in moves if move.spec.task_id == task]) for task in (running, waiting)}
    assert by_task[running] == [(CANCEL, "canceling"), (STOPPED, "canceled")]
    assert by_task[waiting] == [(CANCEL, "canceling"), (WITHDRAWN, "canceled")]


def test_a_refusal_is_reported_with_its_reason() -> None:
    simulation = Simulation(scheduler_config(max_number_of_tasks_waiting=0))
    client = simulation.client()
    recorder = listen(simulation)
    client.submit(1)
    (move,) = reported(simulation, recorder, TaskMoved)
    assert (move.event, move.state, move.worker) == (REFUSED, "noWorker", None)
    assert move.reason


def test_a_lost_worker_is_reported_before_its_tasks(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(execute=slow)
    client.submit(1)
    simulation.run()
    (proxy,) = simulation.proxies()
    recorder = listen(simulation)
    agent.die()
    simulation.advance(10.0)
    cut, went, lost = (event for event in recorder.take() if type(event) in (PeerDisconnected, PeerLeft, TaskMoved))
    assert (cut.session, went.session, went.departure) == (proxy._host, proxy._host, CUT)
    assert (lost.event, lost.worker, lost.reason) == (LOST, proxy.actor_ref, f"its worker {proxy.name} was lost")


def test_a_failed_balancer_and_each_waiting_task_that_it_forgot_are_reported() -> None:
    simulation = Simulation()
    client = simulation.client()
    recorder = listen(simulation)
    client.submit(2)
    simulation.run()
    simulation.fail(simulation.tree.supervisor.children[BALANCER])
    simulation.run()
    restart, *moves = recorder.take()
    assert (type(restart), restart.part) == (PartRestarted, BALANCER)
    assert "_Nonsense" in restart.reason
    assert path(moves) == [(BALANCER_RESTARTED, "inactive")] * 2


def test_the_end_of_a_task_whose_actor_raises_is_reported() -> None:
    simulation = Simulation()
    client = simulation.client()
    (task_id,) = client.submit(1)
    simulation.run()
    recorder = listen(simulation)
    task = simulation.task(task_id)
    assert task is not None
    simulation.fail(task.actor_ref)
    (move,) = reported(simulation, recorder, TaskMoved)
    assert (move.event, move.state, move.task) == (BROKE, "internalError", task.actor_ref)
    assert "_Nonsense" in move.reason


def test_tasks_of_a_graph_name_the_client(simulation: Simulation) -> None:
    client, _ = simulation.client(), simulation.agent()
    recorder = listen(simulation, EVERY_TASK)
    client.submit_graph([[], [0]], [1])
    simulation.advance(5.0)
    moves = reported(simulation, recorder, TaskMoved)
    assert path(moves) == [(SUBMITTED, "inactive"), (ASSIGNED, "running"), (FINISHED, "success")] * 2
    assert {move.client_id for move in moves} == {client.client_id}


# Peers


def test_a_peer_that_joins_is_reported_with_its_identity(simulation: Simulation) -> None:
    recorder = listen(simulation)
    client, agent = simulation.client(), simulation.agent(2)
    nested = simulation.nested_client(agent)
    came = reported(simulation, recorder, PeerJoined)
    assert [event.role for event in came] == [CLIENT, AGENT, NESTED_CLIENT]
    assert [event.identity.peer_id for event in came] == [client.client_id, agent.agent_id, nested.client_id]
    assert {event.identity.package_version for event in came} == {"9.9.9"}
    assert {event.identity.python_version for event in came} == {agent.python_version}
    assert came[1].identity.worker_names == tuple(proxy.name for proxy in simulation.proxies())
    assert [event.identity.capabilities for event in came] == [(), (("gpu", 2),), ()]
    assert list(came[1].workers) == [proxy.actor_ref for proxy in simulation.proxies()]


def test_a_peer_that_leaves_is_reported_with_the_way_it_left() -> None:
    simulation = Simulation(scheduler_config(protected=False))
    recorder = listen(simulation)
    leaving, silent, asking = simulation.client(), simulation.client(), simulation.client()
    going, cut, sent_away = simulation.agent(), simulation.agent(), simulation.agent()
    ended = simulation.nested_client(sent_away, processor=7, comes_back=False)
    leaving.leave()
    going.leave()
    sent_away.say(ProcessorGone(7))
    silent.hang()
    cut.die()
    simulation.advance(100.0)
    asking.leave(GoodbyeKind.SHUTDOWN)
    departures = {event.identity.peer_id: event.departure for event in reported(simulation, recorder, PeerLeft)}
    assert departures == {
        leaving.client_id: LEFT,
        going.agent_id: LEFT,
        silent.client_id: SILENT,
        cut.agent_id: CUT,
        sent_away.agent_id: SENT_AWAY,
        ended.client_id: PROCESSOR_ENDED,
    }


def test_a_peer_that_reconnects_is_reported_as_the_same_peer(simulation: Simulation) -> None:
    agent = simulation.agent()
    recorder = listen(simulation)
    agent.cut()
    simulation.run()
    agent.connect()
    simulation.run()
    cut, back = recorder.take()
    assert (type(cut), type(back)) == (PeerDisconnected, PeerReconnected)
    assert cut.session is back.session is simulation.proxies()[0]._host
    assert cut.reason == "its connection broke"


def test_a_failed_session_is_reported_and_its_peer_joins_again() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent()
    recorder = listen(simulation)
    for failing in (
        simulation.tree.directory.peers["client", client.client_id].session,
        simulation.proxies()[0].actor_ref,
    ):
        simulation.fail(failing)
        simulation.run()
    news = [event for event in recorder.take() if type(event) in (PeerJoined, PeerLeft)]
    assert [type(event) for event in news] == [PeerLeft, PeerJoined] * 2
    assert [event.departure for event in news[::2]] == [FAILED, FAILED]
    assert all("_Nonsense" in event.reason for event in news[::2])


def test_a_refused_peer_is_reported_as_refused_and_not_as_joined(simulation: Simulation) -> None:
    simulation.agent()
    recorder = listen(simulation)
    agent = simulation.agent()
    agent.die()
    simulation.advance(70.0)
    recorder.take()
    agent.is_gone, agent.python_version = False, "3.12.1"
    agent.connect()
    simulation.run()
    (refused,) = recorder.take()
    assert type(refused) is PeerRefused
    assert (refused.role, refused.identity.peer_id) == (AGENT, agent.agent_id)
    assert refused.identity.python_version == "3.12.1"
    assert "Python 3.12" in refused.reason


# Objects


def test_objects_are_reported_when_they_are_stored_and_when_they_are_deleted(simulation: Simulation) -> None:
    client, _ = simulation.client(), simulation.agent()
    recorder = listen(simulation)
    kept = client.create(b"content", "its name")
    (stored,) = reported(simulation, recorder, ObjectStored)
    assert stored == ObjectStored(kept, client.client_id, "its name", 7)
    client.submit(1, for_task=b"argument")
    simulation.advance(5.0)
    stored, gone = (event for event in recorder.take() if type(event) is not TaskMoved)
    assert (stored.object_id, stored.size_bytes) == (gone.object_id, 8)
    client.delete(kept)
    assert reported(simulation, recorder, ObjectGone) == [ObjectGone(kept)]


def test_the_size_of_an_object_that_its_client_keeps_is_reported_when_its_bytes_arrive(simulation: Simulation) -> None:
    client = simulation.client()
    recorder = listen(simulation)
    object_id = client.create(b"")
    simulation.run()
    client.say(ObjectInstruction(InstructionKind.DELETE, object_id, "", ()))
    client.say(ObjectInstruction(InstructionKind.CREATE, object_id, "", (), b"where it is"))
    client.say(ObjectInstruction(InstructionKind.CREATE, object_id, "", (b"its bytes",)))
    simulation.run()
    _, _, stored, filled = recorder.take()
    assert stored == ObjectStored(object_id, client.client_id, "", 0)
    assert filled == ObjectFilled(object_id, 9)
