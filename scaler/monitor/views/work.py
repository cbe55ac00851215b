"""Views of work: functions, tasks, graphs, jobs, and what tasks wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from scaler.monitor import units
from scaler.monitor.model.functions import mean_us, percentile_us, run_counts
from scaler.monitor.model.jobs import OPEN, PAUSED, state_of
from scaler.monitor.model.remaining import wanted_by_capabilities
from scaler.monitor.model.tasks import UNSEEN
from scaler.monitor.views.field_types import BAR, BYTES, CLOCK, COUNT, NAME, SECONDS, STATE, TEXT, WAIT
from scaler.monitor.views.view import (
    BAD,
    FINE,
    HISTOGRAM,
    TABLE,
    TEXT_BLOCK,
    Empty,
    Field,
    Part,
    View,
    ViewState,
    counter,
    fact,
    gauge,
    hidden,
    known,
    scaled,
    total_of,
)
from scaler.wire.messages.common import OUTPUT_STREAMS
from scaler.wire.messages.monitor import StateFunction, StateGraph, StateJob, StateTask
from scaler.wire.messages.vocabulary import FAILED, FAILURES

WAITING = "waiting"
_STATES = {"inactive": WAITING, **dict.fromkeys(FAILURES, FAILED)}
"""By state at the scheduler: the word that all screens use for it."""
_UNKNOWN_TASK = "The scheduler reports nothing of this task. It may have ended; only failed and long tasks are kept."


_OPEN, _ENDED = "Open tasks of a function, by state", "Tasks of a function that have ended, by state"


def word_of(state: str) -> str:
    """Return the word for a state: waiting, running, canceling, success, failed or canceled."""
    return _STATES.get(state, state)


# ------------------------------------------------------------------------------------------------------- functions


def _mean(_: ViewState, each: StateFunction) -> float | None:
    us = mean_us(each)
    return None if us is None else us / 1e6


def _of_runs(field: str) -> Callable[[ViewState, Any], float | None]:
    return lambda _, each: getattr(each, field) / 1e6 if each.runs else None


def _percentile(part: float) -> Callable[[ViewState, Any], float | None]:
    def value(_: ViewState, each: StateFunction) -> float | None:
        us = percentile_us(each, part)
        return None if us is None else us / 1e6

    return value


def _waits_for(_: ViewState, each: Any) -> str:
    return units.waits_for(each.waits_for, each.asks)


def _runs_at(state: ViewState, key: Any, _: Any) -> Iterable[Any]:
    return [worker for worker in state.model.workers if worker.is_busy and worker.function == key]


def _of_function(items: str) -> Callable[[ViewState, Any, Any], Iterable[Any]]:
    return lambda state, key, _: [
        each for each in reversed(getattr(state.model, items).values()) if each.function == key
    ]


def _counts(_state: ViewState, _key: Any, each: StateFunction | None) -> list[int]:
    return list(run_counts(each)) if each else []


FUNCTIONS = View(
    "functions", "function", "Functions", lambda state: state.model.functions.values(), lambda each: each.function,
    (
        Field("name", NAME, lambda _, each: each.name or each.function.hex() or "all others", "Function",
              "the name of the function", "function", key="n"),
        Field("open", COUNT, lambda _, each: each.waiting + each.running, "Open", "tasks that have not ended",
              width=9, key="o"),
        fact("waiting", COUNT, scaled("waiting"), "Waiting", "tasks that no worker has",
             metric=gauge("scaler_function_open_tasks", _OPEN, state="waiting")),
        Field("running", COUNT, scaled("running"), "Running", "tasks at workers, queued or executed", width=7,
              key="r", metric=gauge("scaler_function_open_tasks", _OPEN, state="running")),
        Field("mean", SECONDS, _mean, "Mean", "the mean duration of a run", width=6, key="m",
              old=("mean_us",)),
        fact("p50", SECONDS, _percentile(0.5), "Median", "half of the runs are not longer"),
        Field("p95", SECONDS, _percentile(0.95), "95 %", "95 % of the runs are not longer", width=6, key="p",
              old=("p95_us",)),
        fact("p99", SECONDS, _percentile(0.99), "99 %", "99 % of the runs are not longer"),
        fact("least", SECONDS, _of_runs("least_us"), "Shortest", "the shortest run"),
        fact("most", SECONDS, _of_runs("most_us"), "Longest", "the longest run"),
        fact("runs", COUNT, scaled("runs"), "Runs", "tries that succeeded or failed, while a viewer was connected"),
        Field("total", SECONDS, _of_runs("run_us"), "Time", "the time of all runs", "time", 6, "T", is_wide=True),
        Field("success", COUNT, scaled("success"), "Success", "tasks that have succeeded", "done", 9, "d",
              metric=counter("scaler_function_tasks_ended", _ENDED, state="success")),
        Field("failed", COUNT, scaled("failed"), "Failed", "tasks that have failed in any way", "fail", 6, "f",
              bad=True, metric=counter("scaler_function_tasks_ended", _ENDED, state="failed")),
        fact("canceled", COUNT, scaled("canceled"), "Canceled", "tasks that were canceled",
             metric=counter("scaler_function_tasks_ended", _ENDED, state="canceled")),
        Field("waits", WAIT, _waits_for, "Waits for", "what most of its waiting tasks wait for", "waits for", 13,
              "w"),
        hidden("why", TEXT, lambda state, each: state.model.why_it_waits(each) or None, "Why",
               "the same in a sentence"),
        hidden("waits_for", TEXT, scaled("waits_for"), "Reason", "the same as a word that programs compare",
               is_fact=False),
        hidden("asks", TEXT, scaled("asks"), "Requests", "the capabilities that its tasks request"),
    ),
    "-open", Empty("No function has had tasks since the scheduler started."), "This function no longer has tasks.",
    less=("running", "success", "p95", "waits", "failed"),
    mark=lambda _, each: BAD if each.failed else FINE,
    group=lambda _, each: not each.function,
    texts=lambda state, each: (each.name, each.asks, _waits_for(state, each)),
    parts=(
        Part(TABLE, "runs at", _runs_at, "workers", ("function",), "-running"),
        Part(TABLE, "failures", _of_function("failures"), "failures", ("function",)),
        Part(HISTOGRAM, "durations", _counts),
        Part(TABLE, "tasks", _of_function("tasks"), "tasks", ("function",), most=50),
    ),
    labels=(
        ("function", lambda each: each.function.hex() or "others"),
        ("name", lambda each: each.name or each.function.hex()),
    ),
    total=total_of("functions"),
    metrics_most=257,  # all others are the last one
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- tasks


def _duration(state: ViewState, task: StateTask) -> float | None:
    """Return how long the last run of a task took, or takes so far; None if it is unknown."""
    return state.model.tasks.ran_us(task) / 1e6 or None


def _seen(state: ViewState, task: StateTask) -> float | None:
    tasks = state.model.tasks
    return tasks.seen_us(task) / 1e6 if tasks.state_of(task) == UNSEEN else None


def _waited(state: ViewState, task: StateTask) -> float | None:
    """Return how long a task waited for its last run, or waits so far; None if it is unknown."""
    until = task.started_us or (state.model.received_us if word_of(task.state) == WAITING else 0)
    return max(0, until - task.submitted_us) / 1e6 if task.submitted_us and until else None


def _function_name(state: ViewState, task: StateTask) -> str | None:
    return task.function_name or state.model.function_name(task.function) or None


def _task_name(state: ViewState, task: StateTask) -> str:
    return task.name or _function_name(state, task) or task.task.hex()


def _why(_: ViewState, task: StateTask) -> str | None:
    return task.reason or (task.state if task.state in FAILURES - {FAILED} else None)


def _task_of(key: Any, subject: StateTask | None) -> StateTask:
    return subject or StateTask(key)


def _traceback(is_own: bool) -> Callable[[ViewState, Any, Any], str]:
    def text(state: ViewState, key: Any, subject: StateTask | None) -> str:
        is_open = subject is not None and word_of(subject.state) != FAILED
        failure = None if is_open else state.model.failure_of(_task_of(key, subject), state.old_failures.values())
        if failure is None or (failure.task == key) is not is_own:
            return ""
        return failure.traceback or "no traceback was kept"

    return text


def _worker_key(state: ViewState, task: StateTask) -> Any:
    return next((worker.key for worker in state.model.workers if worker.name == task.worker), None)


def _client_of(_: ViewState, each: Any) -> str | None:
    return each.client_label or each.client.hex() or None


TASKS = View(
    "tasks", "task", "Tasks", lambda state: reversed(state.model.tasks.values()), lambda each: each.task,
    (
        Field("name", NAME, _task_name, "Task", "the name of the task, or of its function", "task", key="n"),
        Field("state", STATE, lambda state, each: word_of(state.model.tasks.state_of(each)), "State",
              "waiting, queued (at its worker), running, unseen, canceling, success, failed, canceled", width=9,
              key="s"),
        Field("seen", CLOCK, _seen, "Last seen", "of an unseen one: when its agent last reported its run",
              "last seen", 9, is_wide=True),
        fact("reason", TEXT, _why, "Why", "why it waits or failed, in words", "why"),
        hidden("function", NAME, _function_name, "Function", "its function",
               link=("functions", lambda _, each: each.function)),
        Field("duration", SECONDS, _duration, "Duration", "the duration of its last run, so far if it runs", "took",
              6, "d"),
        Field("submitted", CLOCK, known("submitted_us"), "Submitted", "when it was submitted", width=9, key="u"),
        Field("waited", SECONDS, _waited, "Waited", "from its submission until its last run began", width=6, key="w"),
        hidden("started", CLOCK, known("started_us"), "Started", "when its last run began"),
        fact("ended", CLOCK, known("ended_us"), "Ended", "when it ended"),
        Field("worker", NAME, known("worker"), "Worker", "the worker of its last run", width=12,
              link=("workers", _worker_key)),
        hidden("attempt", COUNT, known("attempt"), "Try", "how many runs have been started", "try"),
        hidden("cpu", SECONDS, known("cpu_us"), "Processor", "processor time of its last run"),
        Field("peak", BYTES, known("peak_bytes"), "Peak memory", "the most memory of its last run", "most", 6, "m"),
        fact("client", NAME, _client_of, "Client", "the client that submitted it",
             link=("clients", lambda state, each: each.client in state.model.clients and each.client)),
        Field("owner", NAME, known("owner"), "Owner", "the user of its client", width=10, key="o"),
        hidden("graph", TEXT, lambda _, each: each.graph.hex() or None, "Graph", "the graph that it belongs to",
               link=("graphs", lambda _, each: each.graph)),
        hidden("exact", TEXT, scaled("state"), "Exact state", "the state at the scheduler, as programs compare it",
               "exact", is_fact=False),
    ),
    "-submitted", Empty("No task has been reported. Failed and long tasks are, and a sample of the others.",
                        loading="tasks"),
    _UNKNOWN_TASK, detail_topic="task/",
    less=("seen", "owner", "peak", "waited", "submitted", "worker"),
    mark=lambda _, each: BAD if word_of(each.state) == FAILED else FINE,
    at=lambda each: (each.ended_us or each.started_us or each.submitted_us) / 1e6,
    texts=lambda _, each: (each.name, each.function_name, each.worker, each.reason, each.task.hex(), each.owner,
                           each.client_label),
    heading=lambda _, key, __: f"task #{key.hex()}" if key else "task",
    note=lambda state: f"{len(state.model.tasks):,} of {sum(state.model.outcomes.values()):,} ended tasks are kept",
    parts=(
        Part(TEXT_BLOCK, "traceback", _traceback(is_own=True)),
        Part(TEXT_BLOCK, "traceback of the last failure of this kind", _traceback(is_own=False)),
        Part(TABLE, "history, while it is watched", lambda state, key, _: state.model.moves.get(key, ()), "moves"),
        Part(TABLE, "output", lambda state, key, _: state.model.output.get(key, ()), "lines", most=1000),
    ),
    report="tasks_kept",
)  # fmt: skip

MOVES = View(
    "moves", "move", "History of a task",
    lambda state: [move for moves in state.model.moves.values() for move in moves],
    lambda each: (each.task, each.time_us, each.event),
    (
        Field("when", CLOCK, known("time_us"), "When", "when it happened", width=9),
        Field("event", NAME, scaled("event"), "Event", "what happened", width=14),
        Field("state", STATE, lambda _, each: word_of(each.state), "State", "the state since then", width=9),
        Field("worker", NAME, known("worker"), "Worker", "the worker", width=12),
        Field("attempt", COUNT, known("attempt"), "Try", "the number of the run", "try", 3),
        Field("reason", TEXT, known("reason"), "Why", "why, in words", "why"),
    ),
    "when", Empty("Nothing has happened while it was watched."), topics=("task/",), leads=lambda *_: None,
)  # fmt: skip


def _line_text(_: ViewState, line: Any) -> str:
    left_out = f"({line.dropped:,} lines were left out)" if line.dropped else ""
    return " ".join(filter(None, (left_out, line.text)))


LINES = View(
    "lines", "line", "Output of a task",
    lambda state: [line for lines in state.model.output.values() for line in lines],
    lambda each: (each.task, each.number),
    (
        Field("when", CLOCK, known("time_us"), "When", "when it was written", width=9),
        Field("stream", NAME, lambda _, each: OUTPUT_STREAMS[each.stream], "Stream", "where it was written", width=7),
        Field("text", TEXT, _line_text, "Text", "the line"),
    ),
    "when", Empty("The task has written nothing."), topics=("task/",), leads=lambda *_: None,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- graphs


def _progress(_: ViewState, each: StateGraph) -> float | None:
    return (each.success + each.failed + each.canceled) / each.nodes if each.nodes else None


def _graph_state(_: ViewState, each: StateGraph) -> str:
    if not each.ended_us:
        return "running" if each.running else WAITING
    return FAILED if each.failed else "canceled" if each.canceled else "success"


def _graph_time(state: ViewState, each: StateGraph) -> float | None:
    end = each.ended_us or state.model.received_us
    return max(0, end - each.submitted_us) / 1e6 if each.submitted_us else None


GRAPHS = View(
    "graphs", "graph", "Graphs", lambda state: reversed(state.model.graphs.values()), lambda each: each.graph,
    (
        Field("name", NAME, lambda _, each: each.name or each.graph.hex()[:8], "Graph", "its name", "graph", key="n"),
        Field("state", STATE, _graph_state, "State", "waiting, running, success, failed or canceled", width=9,
              key="s"),
        Field("progress", BAR, _progress, "Progress", "the part of its tasks that has ended", "done", 10, "d"),
        Field("nodes", COUNT, scaled("nodes"), "Tasks", "the number of its tasks", "tasks", 7, "m"),
        Field("waiting", COUNT, scaled("waiting"), "Waiting", "tasks that no worker has", width=7, key="w"),
        Field("running", COUNT, scaled("running"), "Running", "tasks at workers", width=7, key="r"),
        hidden("success", COUNT, scaled("success"), "Success", "tasks that have succeeded"),
        Field("failed", COUNT, scaled("failed"), "Failed", "tasks that have failed", "fail", 6, "f", bad=True),
        hidden("canceled", COUNT, scaled("canceled"), "Canceled", "tasks that were canceled"),
        Field("duration", SECONDS, _graph_time, "Time", "from its submission to its end, or until now", "took", 6),
        Field("submitted", CLOCK, known("submitted_us"), "Submitted", "when it was submitted", width=9, key="u"),
        hidden("ended", CLOCK, known("ended_us"), "Ended", "when it ended"),
        fact("client", NAME, _client_of, "Client", "the client that submitted it",
             link=("clients", lambda state, each: each.client in state.model.clients and each.client)),
        Field("owner", NAME, known("owner"), "Owner", "the user of its client", width=10, key="o"),
    ),
    "-submitted", Empty("No graph has been submitted: client.get({...}, [...]) does."), "This graph is not kept.",
    detail_topic="graph/",
    less=("owner", "submitted", "duration", "waiting", "running"),
    group=lambda _, each: bool(each.ended_us),
    mark=lambda _, each: BAD if each.failed else FINE,
    at=lambda each: (each.ended_us or each.submitted_us) / 1e6,
    parts=(
        Part(TABLE, "tasks, those that took longest first",
             lambda state, key, _: state.model.nodes.get(key, {}).values(), "nodes", (), "-duration"),
    ),
    total=total_of("graphs"),
)  # fmt: skip

NODES = View(
    "nodes", "node", "Tasks of a graph",
    lambda state: [node for nodes in state.model.nodes.values() for node in nodes.values()],
    lambda each: (each.graph, each.position),
    (
        Field("name", NAME, lambda _, each: each.function_name or None, "Function", "its function", "task"),
        Field("position", COUNT, scaled("position"), "Number", "its number in the graph", "no.", 5),
        Field("state", STATE, lambda _, each: word_of(each.state), "State", "its state", width=9),
        Field("duration", SECONDS, known("duration_us"), "Duration", "the duration of its run", "took", 6),
        hidden("task", TEXT, lambda _, each: each.task.hex() or None, "Task", "its id",
               link=("tasks", lambda _, each: each.task)),
    ),
    "position", Empty("No task of the graph has been reported."), topics=("graph/",),
    mark=lambda _, each: BAD if word_of(each.state) == FAILED else FINE,
    leads=lambda _, each: ("tasks", each.task) if each.task else None,
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ jobs


def _age(state: ViewState, each: StateJob) -> float:
    return max(0, state.model.received_us - each.created_us) / 1e6


def _function_key(state: ViewState, each: StateJob) -> bytes | None:
    return next((key for key, one in state.model.functions.items() if one.name == each.function_name), None)


def _kept_rows(_state: ViewState, each: StateJob, width: int) -> str:
    return units.count(each.rows, width) if each.all_rows_known else f"{units.count(each.rows, width - 1)}+"


def _failed_rows(_state: ViewState, _key: Any, each: StateJob | None) -> str:
    lines = each.failures.splitlines() if each else []
    if each and each.failed > len(lines):
        lines.append(f"and {each.failed - len(lines):,} more: scaler_jobs ADDRESS show {each.name}")
    return "\n".join(lines)


JOBS = View(
    "jobs", "job", "Jobs", lambda state: state.model.jobs.values(), lambda each: each.job,
    (
        Field("name", NAME, scaled("name"), "Job", "its name", "job", key="n"),
        Field("state", STATE, lambda _, each: state_of(each), "State",
              "open, waits, rows missing, paused, stopped, canceled or done", width=12, key="s"),
        fact("reason", TEXT, known("reason"), "Why", "why it does not go on", "why"),
        Field("done", COUNT, scaled("done"), "Done", "rows that have succeeded", width=9, key="d"),
        Field("rows", COUNT, scaled("rows"), "Rows", "rows so far;  4,096+  more will be submitted", width=9, key="r",
              shown=_kept_rows),
        Field("failed", COUNT, scaled("failed"), "Failed", "rows that have failed", "fail", 6, "f", bad=True),
        hidden("open", COUNT, lambda _, each: each.rows - each.done - each.failed, "Open",
               "rows that have not ended"),
        fact("handed_out", COUNT, scaled("handed_out"), "Handed out", "rows that the scheduler has as tasks now",
             "handed out"),
        fact("running", COUNT, scaled("running"), "Running", "rows at workers", "running", old=("said",)),
        Field("rate", COUNT, lambda state, each: state.model.job_rates.per_second(each), "Rows/s",
              "rows that end per second", "rows/s", 7,
              shown=lambda state, each, width: units.rate(state.model.job_rates.per_second(each), width)),
        Field("left", SECONDS, lambda state, each: state.model.job_rates.left_seconds(each), "Left",
              "the estimated time until its end", width=8, key="l",
              shown=lambda state, each, _: state.model.job_rates.left(each)),
        Field("size", BYTES, scaled("size_bytes"), "Kept", "bytes on disk", "kept", 6, "m"),
        Field("age", SECONDS, _age, "Age", "time since it was created", width=4, key="a",
              shown=lambda state, each, _: units.ago(_age(state, each))),
        Field("owner", NAME, known("owner"), "Owner", "the user who has created it", width=12, key="o"),
        Field("program", NAME, known("program"), "Program", "the program that has created it", width=14, key="p"),
        fact("function", NAME, known("function_name"), "Function", "the function of its rows",
             link=("functions", _function_key)),
        hidden("created", CLOCK, known("created_us"), "Created", "when it was created"),
        hidden("changed", CLOCK, known("changed_us"), "Changed", "when its last row ended"),
    ),
    "-changed", Empty("No jobs: client.map(price, rows, job=...) and client.start(...) create them\n"
                      "at a scheduler with --keep FOLDER."),
    "This job was deleted.", less=("program", "owner", "age", "size", "rate", "failed"),
    mark=lambda _, each: BAD if each.failed else FINE,
    group=lambda _, each: each.state not in (OPEN, PAUSED),
    parts=(Part(TEXT_BLOCK, "rows that have failed", _failed_rows),),
    total=total_of("jobs"),
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------- waiting

_BY_REASON = gauge("scaler_tasks_waiting_by_reason")._replace(labels=(("reason", lambda each: each.waits_for),))
_WANTED = gauge("scaler_wanted_workers")._replace(labels=(("capabilities", lambda each: each.asks),))


def _functions_that_wait(state: ViewState, key: Any, _: Any) -> Iterable[StateFunction]:
    return [each for each in state.model.functions.values() if each.waiting and each.asks == key[0]]


WAITING_GROUPS = View(
    "waiting", "group", "Waiting", lambda state: state.model.waiting, lambda each: (each.asks, each.waits_for),
    (
        Field("name", NAME, lambda _, each: each.asks or "any worker", "Tasks need",
              "the capabilities that the tasks request", "tasks need", key="n"),
        Field("waiting", COUNT, scaled("waiting"), "Waiting", "tasks that no worker has", width=9, key="w",
              metric=_BY_REASON),
        Field("running", COUNT, scaled("running"), "Running", "tasks at workers", width=7, key="r"),
        Field("places", COUNT, scaled("places"), "Places", "workers that can take the tasks", width=6, key="p"),
        Field("work", SECONDS, known("work_us"), "Work", "the open tasks times their usual duration", width=6,
              key="T"),
        Field("wanted", COUNT, lambda _, each: wanted_by_capabilities([each]).get(each.asks), "Workers wanted",
              "workers that would finish the tasks in 5 s", width=6, metric=_WANTED),
        Field("waits", WAIT, _waits_for, "Waits for", "what they wait for", "waits for", 14),
        fact("sentence", TEXT, scaled("sentence"), "Why", "the same in a sentence", "why"),
        hidden("waits_for", TEXT, scaled("waits_for"), "Reason", "the same as a word that programs compare",
               is_fact=False),
        hidden("asks", TEXT, scaled("asks"), "Requests", "the capabilities that the tasks request", is_fact=False),
    ),
    "-waiting", Empty("No task is open."), topics=("scheduler",), less=("wanted", "work", "places", "running"),
    mark=lambda _, each: BAD if each.waiting and not each.places and each.waits_for != "inputs" else FINE,
    parts=(
        Part(TABLE, "functions", _functions_that_wait, "functions"),
    ),
)  # fmt: skip
