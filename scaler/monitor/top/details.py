"""Details of one thing: lines, some of which lead to the details of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.monitor import units
from scaler.monitor.model.jobs import state_of
from scaler.monitor.model.model import Model
from scaler.monitor.model.values import HostValues, values_by_host
from scaler.monitor.model.workers import Worker, percentile_us
from scaler.monitor.top import grid
from scaler.monitor.top.tables import owner_of, place_of, title_of
from scaler.monitor.top.view import Target
from scaler.wire.messages.common import OUTPUT_STREAMS
from scaler.wire.messages.monitor import HAS_TASK, INITIALIZED, SUSPENDED, TASK_LOCK, StateTask

_NOTHING_OF_IT = "The scheduler says nothing of this task. It may have ended; those that failed or take long are kept."
_FLAGS = ((INITIALIZED, "ready"), (HAS_TASK, "has a task"), (SUSPENDED, "suspended"), (TASK_LOCK, "waits for tasks"))


@dataclass(frozen=True)
class DetailLine:
    """One line; Enter on it opens `target`."""

    text: str
    style: str = grid.PLAIN
    target: Target | None = None


@dataclass(frozen=True)
class Details:
    """What is shown of one thing."""

    title: str
    lines: Sequence[DetailLine]


def topic_of(target: Target) -> str:
    """Return the topic that its details need beside those that are always heard; empty for none."""
    if target.kind == "worker":
        return "processors"
    return f"task/{target.key.hex()}" if target.kind == "task" else ""


def details_of(model: Model, target: Target) -> Details:
    """Return the details of a thing."""
    return _MAKERS[target.kind](model, target.key)


def _worker(model: Model, key: Any) -> Details:
    worker = next((each for each in model.workers if each.key == key), None)
    if worker is None:
        return Details("worker", [DetailLine("This worker is not there any more.")])
    agent = worker.agent
    stuck = model.stuck.reasons.get(worker.key)
    lines = [DetailLine(f"* stuck? {stuck}", grid.RUNNING)] if stuck else []
    lines += [
        DetailLine(f"host      {worker.host}   engine {agent.engine or '-'}   Python {agent.python_version or '-'}"),
        DetailLine(f"agent     process {agent.pid or '-'}, cpu {units.share(agent.cpu_permille)}, {_seen(worker)}"),
        DetailLine(f"tasks     {_known(worker.sent)} sent, {_known(worker.queued)} of them wait there"),
    ]
    if worker.is_busy:
        name = model.function_name(worker.function)
        lines.append(DetailLine(f"runs      {name} for {_for(worker.running_ms)}", grid.RUNNING))
    if agent.capabilities:
        lines.append(DetailLine(f"has       {agent.capabilities}"))
    lines += [DetailLine(""), DetailLine("processes", grid.BOLD)]
    return Details(f"worker {worker.name}", [*lines, *_processors(model, worker)])


def _for(milliseconds: int) -> str:
    return units.duration(milliseconds * 1000) if milliseconds else "<1ms"


def _known(number: int | None) -> str:
    return units.count(number)


def _seen(worker: Worker) -> str:
    left = {1: ", is leaving", 2: ", its connection is lost"}.get(worker.agent.is_leaving, "")
    return f"heard {units.ago(worker.seen_seconds)}{'' if worker.seen_seconds < 1 else ' ago'}{left}"


def _processors(model: Model, worker: Worker) -> list[DetailLine]:
    mine = [each for each in model.processors if (each.agent, each.position) == worker.key]
    if not mine:
        return [DetailLine(" no news of its processes yet" if "processors" not in model.heads else " none")]
    lines = []
    for each in mine:
        flags = ", ".join(text for flag, text in _FLAGS if each.flags & flag)
        task = (
            f", {model.function_name(each.function)} for {units.duration(each.running_ms * 1000)}" if each.task else ""
        )
        text = f" {each.pid:>7} {units.share(each.cpu_permille):>6} {units.size(each.rss_bytes):>6}"
        text += f" (most {units.size(each.peak_bytes)})  {flags}{task}"
        lines.append(DetailLine(text, target=Target("task", each.task) if each.task else None))
    return lines


def _function(model: Model, key: Any) -> Details:
    each = model.functions.get(key)
    if each is None:
        return Details("function", [DetailLine("This function has no tasks any more.")])
    halves = [units.duration(percentile_us(each.durations, part)) for part in (0.5, 0.95, 0.99)]
    lines = [
        DetailLine(f"open      {each.waiting:,} wait, {each.running:,} are at workers"),
        DetailLine(f"waits for {units.waits_for(each.waits_for, each.asks) or '-'}"),
        *[DetailLine(f"          {why}") for why in [model.why_it_waits(each)] if why],
        DetailLine(
            f"ended     {each.success:,} success, {each.failed:,} failed, {each.canceled:,} canceled, "
            f"{each.other:,} other"
        ),
        DetailLine("          (since somebody first watched)"),
        DetailLine(f"duration  mean {units.duration(each.mean_us or None)}, half of them under {halves[0]}"),
        DetailLine(f"          95 % under {halves[1]}, 99 % under {halves[2]}"),
    ]
    running = [worker for worker in model.workers if worker.is_busy and worker.function == key]
    if running:
        lines += [DetailLine(""), DetailLine("runs at", grid.BOLD)]
    longest = sorted(running, key=lambda worker: -worker.running_ms)
    lines += [
        DetailLine(f" {worker.name}  {_for(worker.running_ms)}", target=Target("worker", worker.key))
        for worker in longest[:200]
    ]
    failures = [failure for failure in model.failures.values() if failure.function == key]
    if failures:
        lines += [DetailLine(""), DetailLine("failures", grid.BOLD)]
    lines += [
        DetailLine(
            f"!{failure.times:,} {failure.type}: {failure.message}", grid.FAILED, Target("failure", failure.failure)
        )
        for failure in failures
    ]
    return Details(f"function {each.name or 'all others'}", lines)


def _client(model: Model, key: Any) -> Details:
    each = model.clients.get(key)
    if each is None:
        return Details("client", [DetailLine("This client is not there any more.")])
    lines = [
        DetailLine(f"id        {each.client.hex()}"),
        DetailLine(f"owner     {each.owner or 'nobody in particular'}"),
        DetailLine(f"tasks     {each.open:,} open, {each.waiting:,} of them wait for a worker"),
        DetailLine(
            f"heard     {units.ago(each.seen_ms / 1000)}" + (", its connection is lost" if each.is_away else "")
        ),
    ]
    root = model.clients.get(each.root)
    if root is not None and root is not each:
        lines.append(DetailLine(f"works for {root.label}", target=Target("client", root.client)))
    return Details(f"client {each.label}", lines)


def _failure(model: Model, key: Any) -> Details:
    each = model.failures.get(key)
    if each is None:
        return Details("failure", [DetailLine("This failure is not kept any more.")])
    lines = [
        DetailLine(f"{each.type}: {each.message}", grid.FAILED),
        DetailLine(
            f"count     {each.times:,}, first {units.day_and_clock(each.first_us)}, "
            f"last {units.day_and_clock(each.last_us)}"
        ),
        DetailLine(
            f"example   task #{each.task.hex()} at {each.worker or 'no worker'}", target=_target("task", each.task)
        ),
        DetailLine(f"function  {each.function_name or '-'}", target=_target("function", each.function)),
        DetailLine(""),
        *(
            [DetailLine("traceback of one of them, numbers in its message may differ", grid.BOLD)]
            if each.times > 1
            else ()
        ),
    ]
    lines += [DetailLine(line) for line in (each.traceback or "no traceback was kept").splitlines()]
    return Details(f"failure {each.type}", lines)


def _target(kind: str, key: bytes) -> Target | None:
    return Target(kind, key) if key else None


def _task(model: Model, key: Any) -> Details:
    task = model.tasks.get(key)
    moves = model.moves.get(key, ())
    lines = _facts_of(model, task) if task else [DetailLine(_NOTHING_OF_IT)]
    if moves:
        lines += [DetailLine(""), DetailLine("history, since it is watched", grid.BOLD)]
    lines += [
        DetailLine(
            f" {units.clock(move.time_us)} {move.event:<14} {move.state:<12} {move.worker}"
            f"{f' attempt {move.attempt}' if move.attempt else ''} {move.reason}"
        )
        for move in moves
    ]
    return Details(f"task #{key.hex()}", [*lines, *_output_of(model, key), *_traceback_of(model, key, task)])


def _output_of(model: Model, key: Any) -> list[DetailLine]:
    """What the task has written."""
    written = model.output.get(key, ())
    lines = [DetailLine(""), DetailLine("output", grid.BOLD)] if written else []
    for line in written:
        if line.dropped:
            lines.append(DetailLine(f" ({line.dropped:,} lines were left out)"))
        if line.text or not line.dropped:
            lines.append(DetailLine(f" {units.clock(line.time_us)} {OUTPUT_STREAMS[line.stream]:<7} {line.text}"))
    return lines


def _traceback_of(model: Model, key: Any, task: StateTask | None) -> list[DetailLine]:
    """The traceback is kept of the last failure of each kind only."""
    failure = model.failure_of(task or StateTask(key))
    if failure is None:
        return []
    heading = "traceback" if failure.task == key else "traceback of the last failure of this kind"
    return [
        DetailLine(""),
        DetailLine(heading, grid.BOLD),
        *[DetailLine(line) for line in (failure.traceback or "none was kept").splitlines()],
    ]


def _facts_of(model: Model, task: StateTask) -> list[DetailLine]:
    style = {"running": grid.RUNNING, "success": grid.SUCCESS, "failed": grid.FAILED}
    state = f"state     {task.state}" + (f": {task.reason}" if task.reason else "")
    return [
        DetailLine(state, style.get(task.state, grid.PLAIN)),
        DetailLine(f"name      {task.name or task.function_name or '-'}"),
        DetailLine(
            f"function  {task.function_name or model.function_name(task.function)}",
            target=_target("function", task.function),
        ),
        DetailLine(f"client    {task.client_label or task.client.hex() or '-'}"),
        DetailLine(f"owner     {task.owner or 'nobody in particular'}"),
        DetailLine(f"worker    {task.worker or '-'}" + (f", try {task.attempt}" if task.attempt > 1 else "")),
        DetailLine(
            f"times     submitted {units.clock(task.submitted_us)}, started {units.clock(task.started_us)}, "
            f"ended {units.clock(task.ended_us)}"
        ),
        DetailLine(
            f"last run  {units.duration(task.duration_us or None)}, processor {units.duration(task.cpu_us or None)}, "
            f"most memory {units.size(task.peak_bytes or None)}"
        ),
    ]


def _values(values: HostValues) -> Iterator[str]:
    yield f"values    {units.size(values.hot)} in memory of {units.size(values.hot_most or None)} that they may have"
    if values.cold_most:
        on_disk = f"{units.size(values.cold)} on disk of {units.size(values.cold_most)}"
        yield f"          {on_disk}, {units.size(values.spilled)} written, {units.size(values.read)} read"
    else:
        yield "          no disk for values: --spill-folder of its cluster names a place"
    if values.held:
        yield f"          all of it is full: {units.count(values.held)} workers begin nothing until results are read"


def _host(model: Model, key: Any) -> Details:
    mine = [worker for worker in model.workers if worker.host == key]
    agents = {worker.agent.agent: worker.agent for worker in mine}
    lines = [
        DetailLine(
            f"agent     process {agent.pid or '-'}, cpu {units.share(agent.cpu_permille)}, rss "
            f"{units.size(agent.rss_bytes or None)}, host has {units.size(agent.free_bytes or None)} left"
        )
        for agent in agents.values()
    ]
    lines += [DetailLine(line) for line in _values(values_by_host(agents.values()).get(key, HostValues()))]
    lines += [DetailLine(""), DetailLine("workers", grid.BOLD)]
    lines += [
        DetailLine(
            f"{'*' if worker.key in model.stuck.reasons else ' '}{worker.name}  {units.share(worker.cpu_permille)}",
            target=Target("worker", worker.key),
        )
        for worker in mine
    ]
    return Details(f"host {key}", lines)


def _event(model: Model, key: Any) -> Details:
    each = next((event for event in model.events if (event.time_us, event.kind, event.subject) == key), None)
    if each is None:
        return Details("event", [DetailLine("This event is not kept any more.")])
    texts = [
        f"when      {units.day_and_clock(each.time_us)}",
        f"who       {each.subject}",
        f"why       {each.reason or '-'}",
    ]
    return Details(f"event {each.kind}", [DetailLine(text) for text in texts])


def _job(model: Model, key: Any) -> Details:
    each = model.jobs.get(key)
    if each is None:
        return Details("job", [DetailLine("This job is not kept any more.")])
    n_open = each.rows - each.done - each.failed
    rate = units.rate(model.job_rates.per_second(each))
    lines = [
        DetailLine(f"state     {state_of(each)}" + (f": {each.reason}" if each.reason else "")),
        DetailLine(f"rows      {each.rows:,}{'' if each.is_complete else ' so far: not all are here'}"),
        DetailLine(f"          {each.done:,} done, {each.failed:,} failed, {n_open:,} open, {each.said:,} at workers"),
        DetailLine(f"rate      {rate} rows/s, left {model.job_rates.left(each)}"),
        DetailLine(f"function  {each.function_name}"),
        DetailLine(f"made by   {each.program or '-'} of {each.owner or '-'}, {units.day_and_clock(each.created_us)}"),
        DetailLine(f"changed   {units.day_and_clock(each.changed_us)}"),
        DetailLine(f"kept      {units.size(each.size_bytes)} on disk"),
    ]
    failures = each.failures.splitlines()
    if failures:
        lines += [DetailLine(""), DetailLine("rows that have failed", grid.BOLD)]
        lines += [DetailLine(f" {line}", grid.FAILED) for line in failures]
    if each.failed > len(failures):
        lines.append(DetailLine(f" and {each.failed - len(failures):,} more: scaler_jobs ADDRESS show {each.name}"))
    return Details(f"job {each.name}", lines)


def _object(model: Model, key: Any) -> Details:
    each = model.objects.get(key)
    if each is None:
        return Details("object", [DetailLine("This object is not kept any more, or it is not one of the largest.")])
    lines = [
        DetailLine(f"id        {each.object.hex()}"),
        DetailLine(f"size      {each.size_bytes:,} bytes"),
        DetailLine(f"where     {place_of(each)}"),
        DetailLine(f"copies    on {each.copies:,} hosts"),
        DetailLine(f"readers   {each.users:,} tasks and nodes need it"),
        DetailLine(f"owner     {owner_of(model, each)}", target=_target("client", each.client)),
    ]
    return Details(title_of(each), lines)


_MAKERS: dict[str, Callable[[Model, Any], Details]] = {
    "worker": _worker,
    "function": _function,
    "client": _client,
    "failure": _failure,
    "task": _task,
    "host": _host,
    "event": _event,
    "job": _job,
    "object": _object,
}
