"""Run reports: what a task at a worker waits for, by what the scheduler knows and what its agent reports.

Used by the worker proxy only.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler.actors.messages.tasks import ExplainRun, age
from scaler.actors.vocabulary.task_states import CANCELING, RUNNING
from scaler.actors.workers.runs import RunRecord
from scaler.ids import TaskId
from scaler.wire.messages.common import RunState
from scaler.wire.messages.vocabulary import CANCEL, CHILDREN, WORKER, Reason
from scaler.wire.messages.worker import RunStatus


def explain_run(
    asked: ExplainRun, name: str, runs: Mapping[TaskId, RunRecord], is_cut: bool, where: RunStatus | None = None
) -> None:
    """Answer a question about a task at a worker, unless the run of the task has ended.

    Args:
        runs: the tasks of the worker.
        is_cut: whether the connection of the worker's agent is lost.
        where: the agent's report on the run; None if the agent has not reported.
    """
    run = runs.get(asked.task_id)
    if run is None:
        return
    state = CANCELING if run.canceled else RUNNING
    is_known = where is not None and where.state in (RunState.RUNS, RunState.WAITS)
    seconds = where.run_ms / 1000 if where is not None and is_known else 0.0
    if where is not None and not (is_cut or run.canceled or run.released):
        found = _as_the_agent_reports(name, len(runs), where)
    else:
        found = _at_worker(name, len(runs), run.released > 0, run.canceled, is_cut)
    asked.question.answer(state, found, asked.tries, name, seconds)


def _as_the_agent_reports(name: str, tasks: int, where: RunStatus) -> tuple[Reason, str]:
    if where.state == RunState.RUNS:
        process = f" in process {where.pid}" if where.pid else ""
        return WORKER, f"it runs at worker {name}{process}, and has run for {age(where.run_ms / 1000)}"
    if where.state == RunState.NO_ROOM:
        return WORKER, (
            f"it has not started: worker {name} is paused, because memory and disk for values are full on its host. "
            "The worker resumes when results there are read or their futures dropped; if that does not help, give its "
            "cluster more object_memory_bytes or spill_bytes"
        )
    if where.state == RunState.QUEUED and tasks > 1:
        ahead = f"{tasks - 1:,} other task{'s' * (tasks != 2)}"
        first = f"; the running one has run for {age(where.run_ms / 1000)}" if where.run_ms else ""
        return WORKER, (
            f"it has not started: worker {name} has {ahead}, and runs one at a time{first}; it moves when another "
            "worker is idle"
        )
    return _at_worker(name, tasks, is_blocked=False, is_canceled=False, is_cut=False)


def _at_worker(name: str, tasks: int, is_blocked: bool, is_canceled: bool, is_cut: bool) -> tuple[Reason, str]:
    if is_cut:
        return WORKER, (
            f"worker {name} has it, but its connection is lost; the scheduler waits for that worker to reconnect, and "
            "otherwise runs the task elsewhere"
        )
    if is_canceled:
        return CANCEL, f"it was cancelled, and worker {name} is stopping it"
    if is_blocked:
        return (
            CHILDREN,
            f"it is blocked at worker {name}, because it waits for tasks that it has submitted itself; ask about those",
        )
    if tasks <= 1:
        return WORKER, (
            f"worker {name} has it and nothing else: it runs there, or its arguments are on their way there, or its "
            "worker process is starting"
        )
    return WORKER, (
        f"worker {name} has it and {tasks - 1:,} other task{'s' * (tasks != 2)}, and runs one at a time; tasks "
        "that have not started there move when another worker is idle"
    )
