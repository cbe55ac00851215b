"""An admin cancels tasks of other owners by the short ids on screens, in any state, among any number of tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.slices import SLICE_STEPS, Slices
from scaler.ids import TaskId, public_id
from scaler.keys.allowed import OwnerTerms
from scaler.wire.messages.client import InfoRequest, InfoResponse, Task
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, row_ids
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import Outcome, SimulatedClient, Simulation

N_ROWS = 5
CANCELED = TaskStatus.CANCELED


def long(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


@pytest.fixture
def cancels(simulation: Simulation) -> Callable[..., None]:
    """Return a function that cancels tasks as an admin: `cancels(task_id, ...)`."""
    admin, numbers = simulation.client(user="root"), iter(range(1, 100))

    def cancel(*task_ids: bytes) -> None:
        names = ",".join(public_id(each).hex() for each in task_ids)
        admin.say(InfoRequest(next(numbers), cancel=names))
        simulation.run()
        assert not admin.said(InfoResponse)[-1].refused

    return cancel


def status_of(client: SimulatedClient, task_id: TaskId) -> int | None:
    result = client.results.get(task_id)
    return None if result is None else result.status


def test_an_admin_cancels_running_waiting_and_held_tasks(simulation: Simulation, cancels: Callable[..., None]) -> None:
    simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=2))
    simulation.agent(1, long)
    client = simulation.client(user="alice")
    running, waiting, held, stays = client.submit(4)
    simulation.run()
    cancels(running, waiting, held)
    simulation.advance(2.0)
    assert [status_of(client, each) for each in (running, waiting, held, stays)] == [CANCELED] * 3 + [None]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_admin_that_cancels_a_row_cancels_the_range_it_travels_in_and_no_other_task(
    simulation: Simulation, cancels: Callable[..., None], workers: int
) -> None:
    """Without workers, all rows wait as one range; agents of older versions take each row alone."""
    if workers:
        simulation.agent(workers, long)
    client = simulation.client(user="alice")
    first = TaskId(bytes(8) + (7).to_bytes(8, "big"))
    rows = list(row_ids(first, N_ROWS))
    client.say(Task(first, client.function_id, pack([b""] * N_ROWS), b"", rows=N_ROWS))
    (alone,) = client.submit(1)
    simulation.run()
    (session,) = (each for each in simulation.sessions(ClientSession) if each._owner.name == "alice")
    assert session._tasks.n_rows == N_ROWS + 1
    cancels(rows[3])
    simulation.advance(2.0)
    (ended,) = (each for each in client.surplus if each.status == CANCELED)
    assert (ended.task_id, ended.rows) == ((rows[3], 0) if workers else (first, N_ROWS))
    assert status_of(client, alone) is None
    assert session._owner.tasks == N_ROWS + 1 - (ended.rows or 1)


def test_an_admin_cancels_a_nested_task(simulation: Simulation, cancels: Callable[..., None]) -> None:
    agent = simulation.agent(4, long)
    nested = simulation.nested_client(agent)
    one, other = nested.submit(2)
    simulation.run()
    cancels(one)
    simulation.advance(2.0)
    assert [status_of(nested, each) for each in (one, other)] == [CANCELED, None]


def test_an_admin_that_cancels_a_node_cancels_its_graph(simulation: Simulation, cancels: Callable[..., None]) -> None:
    simulation.agent(1, long)
    client = simulation.client(user="alice")
    client.submit_graph([(), (0,)], [0, 1])
    ids = list(client.open)
    (stays,) = client.submit(1)
    simulation.run()
    cancels(ids[1])
    simulation.advance(2.0)
    assert [status_of(client, each) for each in ids] == [CANCELED] * 2
    assert status_of(client, stays) is None


def test_a_task_to_cancel_is_looked_for_among_very_many_in_slices(
    simulation: Simulation, cancels: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = simulation.client(user="alice")
    tasks = client.submit(4 * SLICE_STEPS)
    simulation.run()
    looked, handled = [0], [0]
    asked = public_id

    def count(secret: bytes) -> bytes:
        looked[0] += 1
        return asked(secret)

    go_on = Slices.go_on

    def counting(slices: Slices) -> None:
        before = looked[0]
        go_on(slices)
        handled[0] = max(handled[0], looked[0] - before)

    monkeypatch.setattr("scaler.actors.sessions.client_session.public_id", count)
    monkeypatch.setattr(Slices, "go_on", counting)
    cancels(tasks[-1])
    simulation.advance(1.0)
    assert status_of(client, tasks[-1]) == CANCELED
    assert looked[0] == 4 * SLICE_STEPS
    assert 0 < handled[0] <= SLICE_STEPS
