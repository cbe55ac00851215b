from __future__ import annotations

import pytest

from scaler.agent.ledger import Ledger
from scaler.agent.view import ProcessNow, View
from scaler.agent.watch import LEAST_SECONDS, RUNS_MOST, Watch
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.monitor import RUN_ROW
from scaler.wire.messages.worker import Part, RunTask


@pytest.fixture
def watch() -> Watch:
    return Watch("host", "processes", (), 1, Ledger())


@pytest.mark.parametrize(("asked_ms", "seconds"), [(1, LEAST_SECONDS), (2500, 2.5), (0, 0.0)])
def test_no_scheduler_has_an_agent_report_all_the_time(watch: Watch, asked_ms: int, seconds: float) -> None:
    watch.ask(asked_ms, 0)
    assert watch.interval_seconds == seconds


def test_of_very_many_runs_those_that_began_first_are_named(watch: Watch) -> None:
    watch.ask(1000, Part.RUNS)
    tasks = [RunTask(TaskId(n.to_bytes(16, "big")), 0, 1, ObjectId(b"f" * 16), b"", b"") for n in range(RUNS_MOST + 5)]
    view = View([ProcessNow(0, 0, task, float(number), False) for number, task in enumerate(tasks)])
    runs = list(RUN_ROW.iter_unpack(watch.report(view, 1.0, 0).runs))
    assert [run[0] for run in runs] == [task.task_id for task in tasks[:4:-1]]
    assert len(runs) == RUNS_MOST
