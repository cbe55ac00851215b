"""Trace: the tasks of some seconds, from the monitor stream, as a file for Perfetto and Chrome.

The file has a lane with the runs of each worker, lanes with waiting tasks, and arrows between the nodes of graphs. The
stream contains up to 500 single tasks a second. If there are more, the trace is a sample, and the file has the number
of tasks that were left out. The size of the file is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from scaler.monitor.model.model import News
from scaler.monitor.model.tasks import ids_in
from scaler.wire.messages.monitor import StateGraph, StateNode, StateRuns, StateTask, unseen_after_us

TASKS_MOST = 100_000
GRAPHS_MOST = 50
JITTER_US = 100_000
"""The longest overlap of two runs that is corrected: such an overlap arises when several results arrive at once."""
TOPICS = frozenset({"tasks", "graphs"})
RUNS, WAITS = 1, 2
"""The two groups of lanes, in this order: for runs, and for waiting tasks. The file format calls groups processes."""

Event: TypeAlias = dict[str, Any]
_COLORS = {"success": "good", "failed": "terrible", "canceled": "grey", "running": "yellow"}


@dataclass
class _TraceRun:
    task: StateTask
    start_us: int
    end_us: int
    lane: int = 0


class Trace:
    """The tasks that were received since the creation of this object."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, StateTask] = {}
        self._graphs: dict[bytes, dict[int, StateNode]] = {}
        self._started_us = 0
        self._ends_us = 0
        self._seen_us: dict[bytes, int] = {}
        """when an agent last reported the run of a task, by its short id"""
        self._interval_ms = 0
        self.received = 0
        self.left_out = 0
        """the number of tasks that were not in the stream, or did not fit into the trace"""

    @property
    def topics(self) -> frozenset[str]:
        """The topics to subscribe to. The topic of a graph is added when the graph is known."""
        return TOPICS | {f"graph/{graph.hex()}" for graph in self._graphs}

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def awaits_nodes(self) -> bool:
        """Whether a known graph has no nodes yet."""
        return not all(self._graphs.values())

    def take(self, news: News) -> None:
        """Add the tasks and graphs of one message."""
        head = news.head
        self.received += 1
        self._started_us = self._started_us or head.time_us
        self._ends_us = max(self._ends_us, head.time_us)
        is_old = False
        for batch in news.batches:
            if batch.item is StateTask:
                is_old = self._add(batch) or is_old
            elif batch.item is StateRuns:
                self._see_runs(batch, head.time_us)
            elif batch.item is StateGraph:
                self._see_graphs(batch)
            elif batch.item is StateNode:
                for node in batch:
                    self._graphs.setdefault(node.graph, {})[node.position] = node
        if news.topic == "tasks" and not is_old:  # else these are old tasks, sent to each new viewer
            self.left_out += max(0, head.total - head.shown)

    def _add(self, tasks: list[StateTask]) -> bool:
        """Add tasks, without those that had ended before the recording. Return whether there were any of those."""
        has_old = False
        for task in tasks:
            if task.ended_us and task.ended_us < self._started_us:
                has_old = True
                continue
            if task.task in self._tasks or len(self._tasks) < TASKS_MOST:
                self._tasks[task.task] = task
            else:
                self.left_out += 1
        return has_old

    def _see_runs(self, batch: list[StateRuns], time_us: int) -> None:
        for runs in batch:
            self._interval_ms = runs.interval_ms
            self._seen_us.update((short_id, time_us) for short_id in ids_in(runs.running) if short_id in self._tasks)

    def _see_graphs(self, graphs: list[StateGraph]) -> None:
        for graph in graphs:
            is_old = graph.ended_us and graph.ended_us < self._started_us
            if not is_old and len(self._graphs) < GRAPHS_MOST:
                self._graphs.setdefault(graph.graph, {})

    def write(self, path: Path | str) -> None:
        """Write the trace into a file. Raises `OSError` if the file cannot be written."""
        content = {
            "displayTimeUnit": "ms",
            "otherData": {"tasks": len(self._tasks), "tasks left out": self.left_out},
            "traceEvents": list(self.events()),
        }
        Path(path).write_text(json.dumps(content))

    # What is drawn

    def events(self) -> Iterator[Event]:
        """Yield the events of the file, in the format of Chrome."""
        runs = self._runs()
        yield _named("process_name", RUNS, 0, "workers")
        yield _named("process_name", WAITS, 0, "waiting for a worker")
        lanes = _Lanes()
        for run in runs:
            run.lane = lanes.take(run)
        for number, name in enumerate(lanes.names, 1):
            yield _named("thread_name", RUNS, number, name)
        for run in runs:
            yield _drawn_run(run)
        for task in self._tasks.values():
            yield from self._drawn_wait(task)
        yield from self._arrows({run.task.task: run for run in runs})

    def _runs(self) -> list[_TraceRun]:
        """Return the runs of tasks by worker, without small overlaps."""
        by_worker: dict[str, list[_TraceRun]] = {}
        for task in self._tasks.values():
            start = task.started_us or (task.ended_us - task.duration_us if task.duration_us else 0)
            if start and task.worker:
                end = self._end_of_run(task)
                by_worker.setdefault(task.worker, []).append(_TraceRun(task, start, max(start, end)))
        for runs in by_worker.values():
            runs.sort(key=lambda run: (run.end_us, run.start_us))
            for run, following in zip(reversed(runs[:-1]), reversed(runs[1:]), strict=True):
                overlap = run.end_us - following.start_us
                if 0 < overlap <= JITTER_US:
                    run.start_us, run.end_us = run.start_us - overlap, following.start_us
        return [run for worker in sorted(by_worker) for run in sorted(by_worker[worker], key=lambda run: run.start_us)]

    def _end_of_run(self, task: StateTask) -> int:
        """Return the end of a task's last run; of a run that agents still report, the end of the recording."""
        if task.ended_us:
            return task.ended_us
        seen_us = max(task.seen_us, self._seen_us.get(task.task, 0))
        if self._ends_us - seen_us <= unseen_after_us(self._interval_ms):
            return self._ends_us
        return seen_us or task.started_us + task.duration_us

    def _drawn_wait(self, task: StateTask) -> Iterator[Event]:
        start = task.started_us or task.ended_us or self._ends_us
        if not task.submitted_us or start <= task.submitted_us:
            return
        name = f"{_shown(task)} waits"
        usual = {"cat": "wait", "id": task.task.hex(), "pid": WAITS, "tid": 0, "name": name}
        yield {"ph": "b", "ts": task.submitted_us, **usual, "args": {"task": task.task.hex(), "for": task.reason}}
        yield {"ph": "e", "ts": start, **usual}

    def _arrows(self, runs: dict[bytes, _TraceRun]) -> Iterator[Event]:
        number = 0
        for nodes in self._graphs.values():
            for node in nodes.values():
                run = runs.get(node.task)
                for start in range(0, len(node.dependencies), 4):
                    position = int.from_bytes(node.dependencies[start : start + 4], "little")
                    needed = runs.get(nodes[position].task) if position in nodes else None
                    if run is None or needed is None:
                        continue
                    number += 1
                    usual = {"cat": "graph", "name": "result", "id": number, "pid": RUNS}
                    yield {"ph": "s", "ts": needed.end_us, "tid": needed.lane, **usual}
                    yield {"ph": "f", "bp": "e", "ts": max(run.start_us, needed.end_us), "tid": run.lane, **usual}


class _Lanes:
    """Assigns runs to lanes: one lane per worker, or more if its runs overlap, because one waits for nested tasks."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._ends: dict[str, list[tuple[int, int]]] = {}

    def take(self, run: _TraceRun) -> int:
        """Return the number of the lane of a run. The runs of a worker must be passed in the order of their starts."""
        lanes = self._ends.setdefault(run.task.worker, [])
        for index, (number, end_us) in enumerate(lanes):
            if end_us <= run.start_us:
                lanes[index] = number, run.end_us
                return number
        self.names.append(run.task.worker if not lanes else f"{run.task.worker} ({len(lanes) + 1})")
        lanes.append((len(self.names), run.end_us))
        return len(self.names)


def _shown(task: StateTask) -> str:
    return task.name or task.function_name or task.function.hex()


def _named(kind: str, group: int, lane: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": group, "tid": lane, "args": {"name": name}}


def _drawn_run(run: _TraceRun) -> Event:
    task = run.task
    facts = {
        "task": task.task.hex(),
        "state": task.state,
        "attempt": task.attempt,
        "client": task.client_label or task.client.hex(),
        "owner": task.owner,
        "cpu_ms": task.cpu_us / 1000,
        "peak_bytes": task.peak_bytes,
        "reason": task.reason,
    }
    return {
        "ph": "X",
        "name": _shown(task),
        "cat": task.state,
        "ts": run.start_us,
        "dur": run.end_us - run.start_us,
        "pid": RUNS,
        "tid": run.lane,
        "cname": _COLORS.get(task.state, "bad"),
        "args": {name: value for name, value in facts.items() if value},
    }
