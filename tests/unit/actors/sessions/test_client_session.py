"""One client against the whole scheduler."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.slices import SLICE_STEPS
from scaler.actors.tree import BALANCER
from scaler.ids import ClientId, ObjectId, TaskId, content_id
from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import SharedBlock
from scaler.wire.codec.codec import encode
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import (
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ExplainRequest,
    ExplainResponse,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.columns import ROWS_MOST, Batch
from scaler.wire.messages.common import (
    HelloReply,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER
from scaler.wire.messages.rows import pack, row_ids
from scaler.wire.messages.worker import RunTask, WorkerHeartbeatEcho
from tests.support.configs import scheduler_config
from tests.support.simulation import FUNCTION_ID, Outcome, Simulation


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def test_a_batch_of_tasks_is_run_and_each_result_arrives_once(simulation: Simulation) -> None:
    client = simulation.client()
    agents = [simulation.agent(2), simulation.agent(1)]
    client.submit(20)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 20
    assert {result.payload for result in client.results.values()} == {b"done"}
    assert client.surplus == []
    assert sum(len(agent.started) for agent in agents) == 20


def test_very_many_cancels_leave_no_entries_and_later_tasks_run(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, slow)
    for _ in range(3):
        task_ids = client.submit(3_000)
        simulation.advance(0.5)
        client.cancel(*task_ids)
        simulation.advance(0.5)
        assert set(client.statuses(task_ids)) == {TaskStatus.CANCELED}
        assert agent.queued == []
        simulation.check()
        assert simulation.actor(BALANCER).statistics()["ready_tasks"] == 0
        assert [proxy.load for proxy in simulation.proxies()] == [(0, 0)] * 2
    agent.execute = lambda _run: Outcome()
    assert set(client.statuses(client.submit(100))) == {None}
    simulation.advance(10.0)
    assert client.statuses()[-100:] == [TaskStatus.SUCCESS] * 100


def test_tasks_wait_for_a_worker_to_join(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit(3)
    simulation.advance(3.0)
    assert client.results == {}
    simulation.agent()
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3


def test_open_tasks_that_a_reconnected_client_resubmits_do_not_run_twice(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(2)
    simulation.advance(1.0)
    client.connect()
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 2
    assert client.surplus == []
    assert len(simulation.sessions(ClientSession)) == 1


def test_a_client_whose_connection_was_closed_has_some_seconds_to_reconnect(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(1)
    client.cut()
    simulation.advance(4.5)
    assert len(simulation.sessions(ClientSession)) == 1
    client.connect()
    simulation.advance(40.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(agent.started) == 1


def test_a_program_that_ends_before_its_hello_is_answered_is_not_logged_as_lost(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    """The program has submitted nothing, and cannot send a goodbye."""
    caplog.set_level(logging.WARNING)
    working = simulation.client()
    working.submit(1)
    hello = replace(working.hello(), client_id=ClientId(bytes(16)))
    connection = simulation.open_connection(working)
    simulation.router.deliver(connection, *encode(CLIENT_TO_SCHEDULER, [hello])[0])
    simulation.run()
    assert len(simulation.sessions(ClientSession)) == 2
    simulation.close_connection(connection)
    simulation.advance(10.0)
    assert len(simulation.sessions(ClientSession)) == 1
    assert caplog.messages == []
    working.die()
    simulation.advance(10.0)
    simulation.check_empty()
    assert ["is lost: it was silent" in message for message in caplog.messages] == [False, True]


def test_a_client_that_does_not_reconnect_is_forgotten_with_its_tasks_and_objects(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(3, for_task=b"its own")
    simulation.run()
    client.die()
    simulation.advance(5.5)
    simulation.check_empty()
    assert agent.queued == []


def test_a_silent_client_is_forgotten_with_its_tasks_and_objects() -> None:
    simulation = Simulation(scheduler_config(client_timeout_seconds=10.0))
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(3)
    client.create(b"content")
    simulation.run()
    client.hang()
    simulation.advance(9.0)
    assert len(simulation.sessions(ClientSession)) == 1
    simulation.advance(2.0)
    simulation.check_empty()
    assert agent.queued == []
    client.wake()
    simulation.advance(40.0)
    assert client.said(HelloRequest)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3 or len(client.open) == 2


def test_a_silent_client_in_the_parent_process_of_the_scheduler_stays_while_connected() -> None:
    simulation = Simulation(scheduler_config(client_timeout_seconds=10.0))
    client, agent = simulation.client(), simulation.agent(1, slow)
    (peer,) = (each for each in simulation.tree.directory.peers.values() if each.key[0] == "client")
    peer.is_in_parent = True
    client.submit(3)
    simulation.run()
    client.hang()
    simulation.advance(100.0)
    assert len(simulation.sessions(ClientSession)) == 1
    client.wake()
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert len(agent.started) == 3
    client.die()
    simulation.advance(5.5)
    simulation.check_empty()


def test_a_hello_that_arrives_just_after_the_time_out_counts(simulation: Simulation) -> None:
    client = simulation.client()
    client.hang()
    before = simulation.sessions(ClientSession)
    simulation.clock.advance(simulation.limits.client_timeout_seconds)
    client.hangs = False
    client.connect()
    simulation.run()
    assert simulation.sessions(ClientSession) == before
    client.submit(1)
    simulation.agent()
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_a_client_that_sends_heartbeats_keeps_its_session(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.advance(300.0)
    assert len(simulation.sessions(ClientSession)) == 1
    assert len(client.said(ClientHeartbeatEcho)) == 300


def test_a_client_that_leaves_has_its_open_tasks_cancelled(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(5)
    simulation.run()
    client.leave()
    simulation.run()
    simulation.check_empty()
    assert agent.queued == []


def test_waiting_and_running_tasks_can_be_cancelled_and_finished_and_unknown_ones_cannot(
    simulation: Simulation,
) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    running, waiting, other = client.submit(3)
    simulation.run()
    client.cancel(running, waiting, TaskId(b"?" * 16))
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.CANCELED, TaskStatus.CANCELED, None]
    simulation.advance(40.0)
    client.cancel(other)
    simulation.run()
    assert client.statuses([other]) == [TaskStatus.SUCCESS]
    assert [run.task_id for run in agent.started] == [running, other]


def test_a_task_submitted_and_cancelled_at_once_never_starts(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.cancel(*client.submit(2))
    simulation.run()
    assert client.statuses() == [TaskStatus.CANCELED] * 2
    assert [run for run in agent.started if agent.queued] == []


def test_a_large_result_is_stored_fetched_and_deleted(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, lambda _run: Outcome(payload=b"", frames=(b"large", b"result")))
    (task_id,) = client.submit()
    simulation.advance(1.0)
    assert client.results[task_id].size == len(b"largeresult")
    client.fetch(ObjectId(task_id))
    simulation.run()
    assert client.fetched == {task_id: b"largeresult"}
    client.delete(ObjectId(task_id))
    simulation.run()
    assert set(simulation.tree.objects.objects) == {FUNCTION_ID}
    client.fetch(ObjectId(task_id))
    simulation.run()
    assert client.fetched == {task_id: None}


def test_objects_for_a_task_are_removed_with_it_also_at_agents(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(1, for_task=b"its own")
    simulation.run()
    object_id = ObjectId(agent.started[0].object_ids)
    agent.fetch(object_id)
    simulation.advance(31.0)
    assert agent.forgotten == [object_id]
    assert set(simulation.tree.objects.objects) == {FUNCTION_ID}


def test_a_function_of_two_clients_survives_the_first_that_leaves(simulation: Simulation) -> None:
    first, second = simulation.client(), simulation.client()
    first.leave()
    simulation.run()
    second.fetch(FUNCTION_ID)
    simulation.run()
    assert second.fetched == {FUNCTION_ID: b"code"}


def test_a_task_whose_actor_fails_is_reported_and_other_tasks_succeed() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(1, slow)
    first, second, third = client.submit(3, for_task=b"its own")
    simulation.run()
    for failing in (first, third):
        task = simulation.task(failing)
        assert task is not None
        simulation.fail(task.actor_ref)
    simulation.advance(40.0)
    assert client.statuses() == [TaskStatus.INTERNAL_ERROR, TaskStatus.SUCCESS, TaskStatus.INTERNAL_ERROR]
    assert b"no handler for _Nonsense" in client.results[first].payload
    assert [run.task_id for run in agent.started] == [first, second]
    client.leave()
    simulation.run()
    simulation.check_empty()


def test_a_failed_client_session_makes_its_client_repeat_its_hello_and_resubmit_its_tasks() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(2)
    simulation.run()
    simulation.fail(simulation.sessions(ClientSession)[0].actor_ref)
    simulation.run()
    assert "the scheduler failed while it handled your session" in client.said(HelloRequest)[0].reason
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert client.surplus == []
    assert len(agent.started) == 3  # the first of them was cancelled while it ran


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_task_that_crashes_below_the_limit_succeeds_in_the_end(simulation: Simulation, crashes: int) -> None:
    client = simulation.client()
    outcomes = iter([Outcome(TaskStatus.PROCESSOR_DIED)] * crashes + [Outcome()])
    agent = simulation.agent(1, lambda run: next(outcomes))
    client.submit()
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(agent.started) == crashes + 1


def test_a_task_that_always_crashes_fails_at_the_limit_and_other_tasks_succeed(simulation: Simulation) -> None:
    client = simulation.client()
    poison = TaskId(b"")
    simulation.agent(
        2, lambda run: Outcome(TaskStatus.PROCESSOR_DIED, b"exit 1") if run.task_id == poison else Outcome()
    )
    poison, *_ = client.submit(9)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.PROCESSOR_DIED] + [TaskStatus.SUCCESS] * 8
    assert client.results[poison].payload == b"exit 1 (attempt 3 of 3)"


def test_two_clients_each_receive_the_results_of_their_own_tasks(simulation: Simulation) -> None:
    clients = [simulation.client(), simulation.client()]
    simulation.agent(3)
    for client in clients:
        client.submit(10)
    simulation.advance(5.0)
    for client in clients:
        assert client.statuses() == [TaskStatus.SUCCESS] * 10
        assert set(client.results) == set(client.submitted)


def test_a_function_with_the_id_of_another_function_is_not_stored(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    bad = simulation.client()
    simulation.agent()
    other = ObjectId(b"f" * 16)
    bad.say(ObjectInstruction(InstructionKind.CREATE_FUNCTION, other, "pow", [b"forged"]))
    simulation.run()
    assert set(simulation.tree.objects.objects) == {FUNCTION_ID}
    assert "not the hash of its content" in caplog.text


# Its session is resumed


def test_results_that_arrive_while_a_client_is_disconnected_are_sent_when_it_reconnects(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.goes_on = True
    client.submit(8)
    simulation.run()
    simulation.close_connection(client.connection)
    simulation.advance(4.0)
    assert client.results == {}
    assert not agent.queued
    client.connect()
    simulation.run()
    assert client.statuses() == [TaskStatus.SUCCESS] * 8
    assert client.said(HelloReply)[-1].resumed
    assert len(agent.started) == 8
    assert client.surplus == []


def test_a_result_that_was_lost_with_its_connection_is_resent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.goes_on = True
    client.submit(8)
    simulation.run()
    client.hang()
    simulation.advance(1.0)
    client.hangs, client._unread = False, []  # the message is in buffers of the network when the connection is cut
    simulation.close_connection(client.connection)
    client.connect()
    simulation.run()
    assert client.statuses() == [TaskStatus.SUCCESS] * 8
    assert len(agent.started) == 8


def test_tasks_submitted_while_a_client_is_disconnected_run_once(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.goes_on = True
    simulation.close_connection(client.connection)
    client.is_welcome = False
    client.submit(3)
    client.connect()
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    client.connect()
    simulation.run()
    assert len(agent.started) == 3


def test_results_for_a_disconnected_client_wait_for_its_new_session_when_other_items_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation = Simulation(scheduler_config(kept_bytes=1000))
    client, agent = simulation.client(), simulation.agent(2, lambda _run: Outcome(payload=bytes(500)))
    client.goes_on = True
    client.submit(4)
    simulation.run()
    simulation.close_connection(client.connection)
    simulation.advance(1.0)
    assert len(agent.started) == 4
    assert "more than 1000 bytes wait for a disconnected peer" in caplog.text
    client.connect()
    simulation.advance(1.0)
    assert not client.said(HelloReply)[-1].resumed
    assert client.statuses() == [TaskStatus.SUCCESS] * 4
    assert len(agent.started) == 4


def test_tasks_that_end_before_their_client_has_resubmitted_them_do_not_run_again(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=1.0))
    client.submit(2)
    client.submit_graph([(), (0,), (0,)], {0, 2})
    simulation.advance(0.5)
    client.hang()
    client.connect()
    simulation.advance(10.0)
    assert len(agent.started) == 5
    client.wake()  # it reads the hello reply, resubmits all, and reads the results
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 4
    assert len(agent.started) == 5
    assert client.surplus == []
    client.submit(2)
    client.submit_graph([(), (0,)], {1})
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 7


def test_ended_tasks_do_not_run_again_if_the_resubmission_outlasts_a_heartbeat(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=1.0))
    client.submit(2)
    simulation.advance(0.5)
    client.hang()
    client.connect()
    simulation.advance(5.0)
    simulation.router.deliver(client.connection, *encode(CLIENT_TO_SCHEDULER, [ClientHeartbeat(1, has_unsent=1)])[0])
    client.wake()
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 2


@pytest.mark.parametrize("begun_twice", [False, True])
def test_tasks_whose_results_were_lost_with_a_hello_reply_do_not_run_again(
    simulation: Simulation, *, begun_twice: bool
) -> None:
    """A new session starts, and its hello reply is lost with all messages behind it."""
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=1.0))
    client.submit(2)
    client.submit_graph([(), (0,), (0,)], {0, 2})
    simulation.advance(0.5)
    for _ in range(1 + begun_twice):
        client.hang()
        client.connect()
        simulation.advance(10.0)
        client.hangs, client._unread = False, []  # the message is in buffers of the network when the connection is cut
    assert len(agent.started) == 5
    client.connect()
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 4
    assert len(agent.started) == 5
    assert client.surplus == []


@pytest.mark.thorough
def test_fifty_thousand_runs_stay_when_their_client_and_their_agent_start_new_sessions() -> None:
    count = 50_000
    simulation = Simulation(scheduler_config(per_worker_queue_size=count, client_tasks=2 * count), audited=False)
    client, agent = simulation.client(), simulation.agent(10, lambda _run: Outcome(seconds=1e-5))
    client.submit(2_000)
    simulation.advance(1.0)
    agent.execute = slow
    client.submit(count)
    simulation.run()
    loads, handled = [proxy.load for proxy in simulation.proxies()], simulation.dispatcher.messages_handled
    assert sum(places for places, _ in loads) == count
    for peer in (client, agent):
        peer.connect()
        simulation.run()
        assert not peer.said(HelloReply)[-1].resumed
        assert [proxy.load for proxy in simulation.proxies()] == loads
    assert simulation.dispatcher.messages_handled - handled < 1.01 * count, "one message for each resubmitted task"
    simulation.check()


def test_a_claim_that_is_repeated_in_a_new_session_is_answered_once(simulation: Simulation) -> None:
    """With a second answer, the client would take the end of its claim for that of the task that runs instead."""
    client, _agent = simulation.client(), simulation.agent(1)
    claim = Task(TaskId(b"u" * 16), FUNCTION_ID, b"", b"", options=RunOptions(was_submitted=True).encode())
    for _ in range(2):
        client.connect()
        simulation.run()
        client.hang()  # it reads, and acknowledges, nothing more
        client.say(claim)
        simulation.advance(1.0)
        client.hangs = False
        client._unread.clear()
    client.connect()
    simulation.run()
    assert client.said(TaskResult) == []
    client.say(claim)
    simulation.advance(1.0)
    assert [result.status for result in client.said(TaskResult)] == [TaskStatus.NOT_FOUND]


def test_only_unknown_rows_of_a_resubmitted_range_start_and_each_as_a_task(simulation: Simulation) -> None:
    client = simulation.client()
    first = TaskId(b"prefix--" + bytes(8))
    client.say(Task(first, FUNCTION_ID, pack([b"a"] * 3), b"", rows=3))
    simulation.run()
    client.connect()
    simulation.run()
    client.say(Task(first, FUNCTION_ID, pack([b"a"] * 5), b"", rows=5))
    simulation.run()
    assert simulation.sessions(ClientSession)[0].statistics()["tasks"] == 5
    agent = simulation.agent(1)
    simulation.advance(5.0)
    assert sorted(run.task_id[-1] for run in agent.started) == [0, 1, 2, 3, 4], "each once"


class RangeScene:
    """A range of five rows of one client, at the only worker."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.client = simulation, simulation.client()
        self.agent = simulation.agent(1, lambda _run: Outcome(seconds=0.001), takes_rows=True)
        self.client.submit(1)
        simulation.advance(1.0)  # from now on, the duration of the function is known
        self.agent.execute = slow
        (self.session,) = simulation.sessions(ClientSession)
        self.spec = Task(TaskId(b"prefix--" + bytes(8)), FUNCTION_ID, pack([b"a"] * 5), b"", rows=5)
        self.rows = row_ids(self.spec.task_id, 5)
        self.client.say(self.spec)
        simulation.run()

    def ended(self) -> dict[TaskId, TaskStatus]:
        """Return how the rows have ended that the client knows."""
        results = [each for each in self.client.said(TaskResult) if each.task_id[:8] == self.rows[0][:8]]
        return {row: each.status for each in results for row in row_ids(each.task_id, each.rows)}


@pytest.fixture
def scene(simulation: Simulation) -> RangeScene:
    return RangeScene(simulation)


def test_of_a_range_that_ends_early_done_rows_are_reported_and_the_others_stay_open(scene: RangeScene) -> None:
    session, rows, client = scene.session, scene.rows, scene.client
    task = session._tasks[rows[0]]
    scene.agent.end_early(rows[0], 1)
    scene.simulation.run()
    assert scene.ended() == {rows[0]: TaskStatus.SUCCESS}
    assert (list(session._tasks), session._tasks.ranges) == ([rows[1], rows[2]], {rows[2]: 3})
    assert (session._tasks[rows[1]], session.statistics()["tasks"], session._owner.tasks) == (task, 4, 4)
    client.say(ExplainRequest(rows[3]))
    scene.simulation.advance(1.0)
    assert client.said(ExplainResponse)[-1].state == "running", "its range is queued at the worker"
    client.say(TaskCancel(rows[0], rows=5))
    scene.simulation.advance(1.0)
    assert session.statistics()["tasks"] == 0
    assert scene.ended() == {rows[0]: TaskStatus.SUCCESS, **dict.fromkeys(rows[1:], TaskStatus.CANCELED)}


def test_rows_of_a_range_that_was_cancelled_before_it_ended_early_are_not_opened_again(scene: RangeScene) -> None:
    scene.session.actor_ref.send(Batch[TaskCancel]([TaskCancel(scene.rows[0], rows=5)]))
    scene.agent.end_early(scene.rows[0], 1)
    scene.simulation.advance(1.0)
    first, *others = scene.rows
    assert scene.ended() == {first: TaskStatus.SUCCESS, **dict.fromkeys(others, TaskStatus.CANCELED)}
    assert (scene.session.statistics()["tasks"], scene.session._owner.tasks) == (0, 0)


def test_a_range_that_ends_early_after_its_client_has_left_opens_nothing(scene: RangeScene) -> None:
    scene.client.leave()
    scene.agent.end_early(scene.rows[0], 1)
    scene.simulation.advance(1.0)
    assert scene.session._owner.tasks == 0
    scene.simulation.check_empty()


def test_rows_of_a_lost_range_run_again_alone_and_can_adopt_their_runs(scene: RangeScene) -> None:
    scene.agent.die()
    scene.simulation.advance(10.0)
    assert list(scene.session._tasks) == scene.rows
    assert {task_id for _, task_id in scene.simulation.tree.adoptions.known} == set(scene.rows)
    other = scene.simulation.agent(2)
    scene.simulation.advance(5.0)
    assert sorted(run.task_id for run in other.started) == scene.rows
    assert scene.ended() == dict.fromkeys(scene.rows, TaskStatus.SUCCESS)


@pytest.mark.parametrize("place", ["scheduler", "agent"])
def test_a_large_result_is_stored_and_answers_its_task_in_a_new_session(simulation: Simulation, place: str) -> None:
    """So does a claim, which has no payload; a result that the client has deleted answers nothing."""
    outcome = Outcome(frames=(bytes(80_000),), payload=b"")
    client, agent = simulation.client(), simulation.agent(1, lambda _run: outcome)
    if place == "agent":
        location = SharedBlock.of([bytes(80_000)]).location()
        agent.execute = lambda _run: Outcome(location=location, payload=b"")
    read, deleted = client.submit(2)
    simulation.run()
    simulation.advance(1.0)
    assert client.results[read].size >= 80_000
    client.connect()
    simulation.run()
    spec = Task(read, FUNCTION_ID, b"", b"", options=RunOptions(was_submitted=True).encode())
    client.say(
        ObjectInstruction(InstructionKind.DELETE, ObjectId(deleted), "", ()),
        spec,
        replace(spec, task_id=deleted),
        replace(spec, task_id=TaskId(b"u" * 16)),
    )
    del client.results[read], client.results[deleted]
    simulation.advance(5.0)
    found = {result.task_id: result.status for result in client.said(TaskResult)[2:]}
    assert found == {
        read: TaskStatus.SUCCESS,
        deleted: TaskStatus.NOT_FOUND,
        TaskId(b"u" * 16): TaskStatus.NOT_FOUND,
    }
    assert client.said(TaskResult)[2].size >= 80_000
    assert len(agent.started) == 2


def test_the_transfer_of_a_large_object_continues_after_a_lost_connection(simulation: Simulation) -> None:
    client = simulation.client()
    content = bytes(range(256)) * 20_000
    object_id = client.create(content)
    simulation.run()
    client.goes_on = True
    client.fetch(object_id)
    for _ in range(4):
        simulation.edge.receive()
        simulation.dispatcher.run()
        simulation.edge.flush()
    assert len(simulation.router.outgoing) > 1
    client.receive(*simulation.router.outgoing.popleft())
    simulation.router.outgoing.clear()  # the first part has arrived, and the next ones are lost
    simulation.close_connection(client.connection)
    client.connect()
    before = len(simulation.router.log)
    simulation.run()
    assert client.said(HelloReply)[-1].resumed
    assert client.fetched[object_id] == content
    sent = sum(sum(map(len, frames)) for _, way, _, _, frames in simulation.router.log[before:] if way == "out")
    assert sent < len(content)


def test_five_unreadable_messages_in_a_row_end_a_session(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation()
    client = simulation.client()
    client.goes_on = True
    for _ in range(TRIES_MOST):
        simulation.router.deliver(client.connection, b"garbage", [])
        simulation.run()
    reply = client.said(HelloReply)[-1]
    assert not reply.accepted
    assert "5 times in a row" in reply.reason
    assert "is ended" in caplog.text
    assert simulation.sessions(ClientSession) == []


def test_a_client_with_occasional_unreadable_messages_is_accepted_again(simulation: Simulation) -> None:
    client = simulation.client()
    client.goes_on = True
    for _ in range(2 * TRIES_MOST):
        simulation.router.deliver(client.connection, b"garbage", [])
        simulation.advance(61.0)
        reply = client.said(HelloReply)[-1]
        assert (reply.accepted, reply.resumed) == (1, 0)


def test_a_client_that_does_not_keep_to_its_window_has_tasks_refused() -> None:
    simulation = Simulation(scheduler_config(client_tasks=5))
    client = simulation.client()
    first = client.submit(8)
    more = client.submit(4)
    simulation.run()
    assert client.statuses(more) == [None, None, TaskStatus.NO_WORKER, TaskStatus.NO_WORKER]
    assert b"10 open tasks" in client.results[more[3]].payload
    assert simulation.sessions(ClientSession)[0].statistics()["tasks"] == 10
    client.connect()  # it resubmits all
    simulation.run()
    assert client.statuses(first) == [None] * 8
    simulation.agent(2)
    simulation.advance(5.0)
    assert client.statuses(first) == [TaskStatus.SUCCESS] * 8
    assert client.statuses(client.submit(10)) == [None] * 10
    simulation.advance(5.0)
    assert client.statuses().count(TaskStatus.SUCCESS) == 20


@pytest.mark.parametrize("number", [0, 2**64 - 1])
def test_a_malformed_range_is_refused_as_one_task_and_leaves_no_open_rows(simulation: Simulation, number: int) -> None:
    client = simulation.client()
    first = TaskId(b"prefix--" + number.to_bytes(8, "big"))
    client.say(Task(first, FUNCTION_ID, b"no table of lengths", b"", rows=ROWS_MOST))
    simulation.run()
    [refused] = client.said(TaskResult)
    assert (refused.status, refused.rows) == (TaskStatus.INTERNAL_ERROR, 0)
    client.connect()  # it has a new session
    client.say(TaskCancel(first, rows=ROWS_MOST))
    client.submit(1)
    simulation.run()
    assert simulation.sessions(ClientSession)[0].statistics()["tasks"] == 1


def test_rows_that_are_not_open_are_looked_for_in_slices() -> None:
    simulation = Simulation()
    client = simulation.client()
    first, second, _ = client.submit(3)
    simulation.run()
    unknown = TaskCancel(TaskId(b"prefix--" + bytes(8)), rows=ROWS_MOST)
    handled = simulation.dispatcher.messages_handled
    client.say(TaskCancel(first), *[unknown] * 10, TaskCancel(second))
    simulation.advance(1.0)
    assert client.statuses([first, second]) == [TaskStatus.CANCELED] * 2
    assert simulation.dispatcher.messages_handled - handled >= 10 * ROWS_MOST // SLICE_STEPS


def test_a_value_above_the_size_limit_is_missing_until_it_is_accepted_from_another_client() -> None:
    limit = 80_000
    simulation = Simulation(value_bytes=lambda: limit)
    client, other, agent = simulation.client(), simulation.client(), simulation.agent()
    assert [peer.said(HelloReply)[0].value_bytes for peer in (client, agent)] == [limit] * 2
    large = [bytes(200_000)]
    table, function = ObjectId(b"t" * 16), content_id(large)
    create = ObjectInstruction(InstructionKind.CREATE_FUNCTION, function, "f", large)
    client.say(ObjectInstruction(InstructionKind.CREATE, table, "table", large), create)
    simulation.run()
    agent.say(ObjectRequest(table), ObjectRequest(function))
    simulation.run()
    answers = agent.said(ObjectResponse)
    assert [(each.found, "no memory for its 200,1" in each.reason) for each in answers] == [(0, True)] * 2
    limit = 1_000_000
    other.say(create)
    simulation.run()
    agent.say(ObjectRequest(function))
    simulation.advance(3.0)
    assert agent.said(ObjectResponse)[-1].found
    echos = client.said(ClientHeartbeatEcho)[-1], agent.said(WorkerHeartbeatEcho)[-1]
    assert [echo.value_bytes for echo in echos] == [limit] * 2
