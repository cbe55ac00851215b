"""Details: the lines about one thing, such as a worker. A line may lead to the details of another thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from scaler.monitor import units
from scaler.monitor.model.jobs import state_of
from scaler.monitor.model.model import Model
from scaler.monitor.model.values import HostValues, values_by_host
from scaler.monitor.model.workers import WorkerView, percentile_us
from scaler.monitor.top import grid
from scaler.monitor.top.tables import owner_of, place_of, title_of
from scaler.monitor.top.view import Target
from scaler.wire.messages.common import OUTPUT_STREAMS
from scaler.wire.messages.monitor import HAS_TASK, INITIALIZED, SUSPENDED, TASK_LOCK, StateTask

_UNKNOWN_TASK = "The scheduler reports nothing of this task. It may have ended; only failed and long tasks are kept."
_FLAGS = ((INITIALIZED, "ready"), (HAS_TASK, "has a task"), (SUSPENDED, "suspended"), (TASK_LOCK, "waits for tasks"))


@dataclass(frozen=True)
class DetailLine:
    """One line of details. The Enter key on the line opens the details of `target`."""

    text: str
    style: str = grid.PLAIN
    target: Target | None = None


@dataclass(frozen=True)
class Details:
    """The details of one thing: a title, and the lines to show."""

    title: str
    lines: Sequence[DetailLine]


Text: TypeAlias = str | DetailLine
Found: TypeAlias = tuple[str, Sequence[Text]] | None
"""The title and the lines of details; None if the thing is unknown."""


def topic_of(target: Target) -> str:
    """Return the topic to subscribe to for the details of a thing; empty if they need no topic of their own."""
    if target.kind == "worker":
        return "processors"
    return f"task/{target.key.hex()}" if target.kind == "task" else ""


def details_of(model: Model, target: Target) -> Details:
    """Return the details of a thing."""
    make, gone = _MAKERS[target.kind]
    title, lines = make(model, target.key) or (target.kind, [gone])
    return Details(title, [DetailLine(line) if isinstance(line, str) else line for line in lines])


def _worker(model: Model, key: Any) -> Found:
    worker = next((each for each in model.workers if each.key == key), None)
    if worker is None:
        return None
    agent = worker.agent
    stuck = model.stuck.reasons.get(worker.key)
    lines: list[Text] = [DetailLine(f"* stuck? {stuck}", grid.RUNNING)] if stuck else []
    lines += [
        f"host      {worker.host}   engine {agent.engine or '-'}   Python {agent.python_version or '-'}",
        f"agent     process {agent.pid or '-'}, cpu {units.share(agent.cpu_permille)}, {_seen(worker)}",
        f"tasks     {units.count(worker.sent)} sent, {units.count(worker.queued)} of them not started",
    ]
    if worker.is_busy:
        name = model.function_name(worker.function)
        lines.append(DetailLine(f"runs      {name} for {_for(worker.running_ms)}", grid.RUNNING))
    if agent.capabilities:
        lines.append(f"has       {agent.capabilities}")
    lines += ["", DetailLine("processes", grid.BOLD)]
    return f"worker {worker.name}", [*lines, *_processors(model, worker)]


def _for(milliseconds: int) -> str:
    return units.duration(milliseconds * 1000) if milliseconds else "<1ms"


def _seen(worker: WorkerView) -> str:
    left = {1: ", is leaving", 2: ", its connection is lost"}.get(worker.agent.is_leaving, "")
    return f"seen {units.ago(worker.seen_seconds)}{'' if worker.seen_seconds < 1 else ' ago'}{left}"


def _processors(model: Model, worker: WorkerView) -> list[Text]:
    mine = [each for each in model.processors if (each.agent, each.position) == worker.key]
    if not mine:
        return [" no news of its processes yet" if "processors" not in model.heads else " none"]
    lines: list[Text] = []
    for each in mine:
        flags = ", ".join(text for flag, text in _FLAGS if each.flags & flag)
        name, ran = model.function_name(each.function), units.duration(each.running_ms * 1000)
        task = f", {name} for {ran}" if each.task else ""
        text = f" {each.pid:>7} {units.share(each.cpu_permille):>6} {units.size(each.rss_bytes):>6}"
        text += f" (most {units.size(each.peak_bytes)})  {flags}{task}"
        lines.append(DetailLine(text, target=Target("task", each.task) if each.task else None))
    return lines


def _function(model: Model, key: Any) -> Found:
    each = model.functions.get(key)
    if each is None:
        return None
    halves = [units.duration(percentile_us(each.durations, part)) for part in (0.5, 0.95, 0.99)]
    lines: list[Text] = [
        f"open      {each.waiting:,} wait, {each.running:,} are at workers",
        f"waits for {units.waits_for(each.waits_for, each.asks) or '-'}",
        *[f"          {why}" for why in [model.why_it_waits(each)] if why],
        (
            f"ended     {each.success:,} success, {each.failed:,} failed, {each.canceled:,} canceled, "
            f"{each.other:,} other"
        ),
        "          (since the first viewer connected)",
        f"duration  mean {units.duration(each.mean_us or None)}, half of them under {halves[0]}",
        f"          95 % under {halves[1]}, 99 % under {halves[2]}",
    ]
    running = [worker for worker in model.workers if worker.is_busy and worker.function == key]
    if running:
        lines += ["", DetailLine("runs at", grid.BOLD)]
    longest = sorted(running, key=lambda worker: -worker.running_ms)
    lines += [
        DetailLine(f" {worker.name}  {_for(worker.running_ms)}", target=Target("worker", worker.key))
        for worker in longest[:200]
    ]
    failures = [failure for failure in model.failures.values() if failure.function == key]
    if failures:
        lines += ["", DetailLine("failures", grid.BOLD)]
    lines += [
        DetailLine(
            f"!{failure.times:,} {failure.type}: {failure.message}", grid.FAILED, Target("failure", failure.failure)
        )
        for failure in failures
    ]
    return f"function {each.name or 'all others'}", lines


def _client(model: Model, key: Any) -> Found:
    each = model.clients.get(key)
    if each is None:
        return None
    lines: list[Text] = [
        f"id        {each.client.hex()}",
        f"owner     {each.owner or '-'}",
        f"tasks     {each.open:,} open, {each.waiting:,} of them wait for a worker",
        f"seen      {units.ago(each.seen_ms / 1000)}" + (", its connection is lost" if each.is_away else ""),
    ]
    root = model.clients.get(each.root)
    if root is not None and root is not each:
        lines.append(DetailLine(f"works for {root.label}", target=Target("client", root.client)))
    return f"client {each.label}", lines


def _failure(model: Model, key: Any) -> Found:
    each = model.failures.get(key)
    if each is None:
        return None
    lines: list[Text] = [
        DetailLine(f"{each.type}: {each.message}", grid.FAILED),
        (
            f"count     {each.times:,}, first {units.day_and_clock(each.first_us)}, "
            f"last {units.day_and_clock(each.last_us)}"
        ),
        DetailLine(
            f"example   task #{each.task.hex()} at {each.worker or 'no worker'}", target=_target("task", each.task)
        ),
        DetailLine(f"function  {each.function_name or '-'}", target=_target("function", each.function)),
        "",
    ]
    if each.times > 1:
        lines.append(DetailLine("traceback of one task; numbers in the messages of others may differ", grid.BOLD))
    lines += (each.traceback or "no traceback was kept").splitlines()
    return f"failure {each.type}", lines


def _target(kind: str, key: bytes) -> Target | None:
    return Target(kind, key) if key else None


def _task(model: Model, key: Any) -> Found:
    task = model.tasks.get(key)
    moves = model.moves.get(key, ())
    lines: list[Text] = _facts_of(model, task) if task else [_UNKNOWN_TASK]
    if moves:
        lines += ["", DetailLine("history, while it is watched", grid.BOLD)]
    lines += [
        (
            f" {units.clock(move.time_us)} {move.event:<14} {move.state:<12} {move.worker}"
            f"{f' attempt {move.attempt}' if move.attempt else ''} {move.reason}"
        )
        for move in moves
    ]
    return f"task #{key.hex()}", [*lines, *_output_of(model, key), *_traceback_of(model, key, task)]


def _output_of(model: Model, key: Any) -> list[Text]:
    written = model.output.get(key, ())
    lines: list[Text] = ["", DetailLine("output", grid.BOLD)] if written else []
    for line in written:
        if line.dropped:
            lines.append(f" ({line.dropped:,} lines were left out)")
        if line.text or not line.dropped:
            lines.append(f" {units.clock(line.time_us)} {OUTPUT_STREAMS[line.stream]:<7} {line.text}")
    return lines


def _traceback_of(model: Model, key: Any, task: StateTask | None) -> list[Text]:
    """Return the traceback of a failed task; if it was not kept, the traceback of the last failure of the same kind."""
    failure = model.failure_of(task or StateTask(key))
    if failure is None:
        return []
    heading = "traceback" if failure.task == key else "traceback of the last failure of this kind"
    return ["", DetailLine(heading, grid.BOLD), *(failure.traceback or "no traceback was kept").splitlines()]


def _facts_of(model: Model, task: StateTask) -> list[Text]:
    style = {"running": grid.RUNNING, "success": grid.SUCCESS, "failed": grid.FAILED}
    state = f"state     {task.state}" + (f": {task.reason}" if task.reason else "")
    return [
        DetailLine(state, style.get(task.state, grid.PLAIN)),
        f"name      {task.name or task.function_name or '-'}",
        DetailLine(
            f"function  {task.function_name or model.function_name(task.function)}",
            target=_target("function", task.function),
        ),
        f"client    {task.client_label or task.client.hex() or '-'}",
        f"owner     {task.owner or '-'}",
        f"worker    {task.worker or '-'}" + (f", try {task.attempt}" if task.attempt > 1 else ""),
        (
            f"times     submitted {units.clock(task.submitted_us)}, started {units.clock(task.started_us)}, "
            f"ended {units.clock(task.ended_us)}"
        ),
        (
            f"last run  {units.duration(task.duration_us or None)}, processor {units.duration(task.cpu_us or None)}, "
            f"most memory {units.size(task.peak_bytes or None)}"
        ),
    ]


def _values(values: HostValues) -> Iterator[str]:
    yield f"values    {units.size(values.hot)} in memory of at most {units.size(values.hot_most or None)}"
    if values.cold_most:
        on_disk = f"{units.size(values.cold)} on disk of {units.size(values.cold_most)}"
        yield f"          {on_disk}, {units.size(values.spilled)} written, {units.size(values.read)} read"
    else:
        yield "          no disk for values: set --spill-folder of its cluster"
    if values.held:
        yield f"          memory and disk full: {units.count(values.held)} workers paused until results are read"


def _host(model: Model, key: Any) -> Found:
    mine = [worker for worker in model.workers if worker.host == key]
    agents = {worker.agent.agent: worker.agent for worker in mine}
    lines: list[Text] = [
        (
            f"agent     process {agent.pid or '-'}, cpu {units.share(agent.cpu_permille)}, rss "
            f"{units.size(agent.rss_bytes or None)}, host has {units.size(agent.free_bytes or None)} left"
        )
        for agent in agents.values()
    ]
    lines += _values(values_by_host(agents.values()).get(key, HostValues()))
    lines += ["", DetailLine("workers", grid.BOLD)]
    lines += [
        DetailLine(f"{mark}{worker.name}  {units.share(worker.cpu_permille)}", target=Target("worker", worker.key))
        for worker in mine
        for mark in " *"[worker.key in model.stuck.reasons]
    ]
    return f"host {key}", lines


def _event(model: Model, key: Any) -> Found:
    each = next((event for event in model.events if (event.time_us, event.kind, event.subject) == key), None)
    if each is None:
        return None
    texts = [
        f"when      {units.day_and_clock(each.time_us)}",
        f"who       {each.subject}",
        f"why       {each.reason or '-'}",
    ]
    return f"event {each.kind}", texts


def _job(model: Model, key: Any) -> Found:
    each = model.jobs.get(key)
    if each is None:
        return None
    n_open = each.rows - each.done - each.failed
    rate = units.rate(model.job_rates.per_second(each))
    lines: list[Text] = [
        f"state     {state_of(each)}" + (f": {each.reason}" if each.reason else ""),
        f"rows      {each.rows:,}{'' if each.all_rows_known else ' so far: more will be submitted'}",
        f"          {each.done:,} done, {each.failed:,} failed, {n_open:,} open, {each.said:,} at workers",
        f"rate      {rate} rows/s, left {model.job_rates.left(each)}",
        f"function  {each.function_name}",
        f"made by   {each.program or '-'} of {each.owner or '-'}, {units.day_and_clock(each.created_us)}",
        f"changed   {units.day_and_clock(each.changed_us)}",
        f"kept      {units.size(each.size_bytes)} on disk",
    ]
    failures = each.failures.splitlines()
    if failures:
        lines += ["", DetailLine("rows that have failed", grid.BOLD)]
        lines += [DetailLine(f" {line}", grid.FAILED) for line in failures]
    if each.failed > len(failures):
        lines.append(f" and {each.failed - len(failures):,} more: scaler_jobs ADDRESS show {each.name}")
    return f"job {each.name}", lines


def _object(model: Model, key: Any) -> Found:
    each = model.objects.get(key)
    if each is None:
        return None
    return title_of(each), [
        f"id        {each.object.hex()}",
        f"size      {each.size_bytes:,} bytes",
        f"where     {place_of(each)}",
        f"copies    on {each.copies:,} hosts",
        f"readers   {each.users:,} tasks and nodes need it",
        DetailLine(f"owner     {owner_of(model, each)}", target=_target("client", each.client)),
    ]


_MAKERS: dict[str, tuple[Callable[[Model, Any], Found], str]] = {
    "worker": (_worker, "This worker is no longer connected."),
    "function": (_function, "This function no longer has tasks."),
    "client": (_client, "This client is no longer connected."),
    "failure": (_failure, "This failure is no longer kept."),
    "task": (_task, ""),
    "host": (_host, ""),
    "event": (_event, "This event is no longer kept."),
    "job": (_job, "This job was deleted."),
    "object": (_object, "This object was deleted, or it is not one of the largest."),
}
"""For each kind of thing: the function that returns its details, and the text about a thing that is unknown."""
