from __future__ import annotations

from scaler.actors.messages.tasks import CancelTask
from scaler.actors.sessions.canceller import Canceller
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.slices import SLICE_STEPS
from tests.support.bench import Bench
from tests.support.simulation import Simulation


def test_everybody_is_told_and_then_it_ends(bench: Bench) -> None:
    recorders = [bench.recorder() for _ in range(2 * SLICE_STEPS + 1)]
    canceller = bench.dispatcher.spawn(Canceller([(ref, CancelTask()) for _, ref in recorders]))
    while not canceller.is_stopped():
        bench.run()
    bench.run()
    assert all(len(recorder.messages) == 1 for recorder, _ in recorders)


def test_the_end_of_a_session_with_many_tasks_is_short(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit(4 * SLICE_STEPS)
    simulation.run()
    (session,) = simulation.sessions(ClientSession)
    tasks = list(session._tasks.values())
    session.stop_now()
    assert sum(bool(task._mailbox) for task in tasks) == SLICE_STEPS
    client.is_gone = True
    simulation.run()
    assert all(task.is_stopped() for task in tasks)
