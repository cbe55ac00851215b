"""Columns: the table of the values that are shown for workers and hosts, and how rows are sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scaler.monitor import units
from scaler.monitor.model.workers import SEEN_SECONDS, WorkerView

SHARE, BYTES, COUNT, LAG, TEXT = "share", "bytes", "count", "lag", "text"
"""The kinds of values, in this order: CPU time in permille of a core, bytes, counts, times in us, and texts."""
_SCALES = {SHARE: 1e3, LAG: 1e6}
"""By kind of value: the divisor that turns a value into cores or seconds."""


class ViewRow(NamedTuple):
    """A row of a table: a worker, or the workers of a host."""

    key: object
    name: str
    workers: Sequence[WorkerView]
    is_stuck: bool = False

    @property
    def agents(self) -> Sequence[WorkerView]:
        """For each agent in the row, one of its workers."""
        return list({worker.agent.agent: worker for worker in self.workers}.values())

    @property
    def seen_seconds(self) -> float:
        """Seconds since the last message of the agent; if the row has several agents, of the one silent for longest."""
        return max(worker.seen_seconds for worker in self.workers)


@dataclass(frozen=True)
class TableField:
    """A column of a table. By default, numbers are sorted in descending order, and names in ascending order."""

    name: str
    key: str
    """the key on the keyboard that sorts rows by this column"""
    title: str
    heading: str
    """the heading on the page; empty if the page does not have the column"""
    width: int
    unit: str
    value: Callable[[WorkerView], Any]
    """returns the value of this column for a worker; None if the value is unknown"""
    of_agent: bool = False
    """whether the value belongs to the agent of the worker, so that the row of a host counts it once for each agent"""
    combine: Callable[[Iterable[Any]], Any] = sum

    def of(self, row: ViewRow) -> Any:
        """Return the value of a worker, or the combined value of the workers of a host; None if it is unknown."""
        if len(row.workers) == 1:
            return self.value(row.workers[0])
        values = map(self.value, row.agents if self.of_agent else row.workers)
        known = [value for value in values if value is not None]
        return self.combine(known) if known else None

    def text(self, row: ViewRow) -> str:
        """Return the text for a row in the terminal."""
        value = self.of(row)
        if self.unit == SHARE:
            return units.share(value, self.width)
        if self.unit == BYTES:
            return units.size(value)
        if self.unit == COUNT:
            return units.count(value, self.width)
        if self.unit == LAG:
            late = row.seen_seconds
            return f"({units.ago(late)})" if late > SEEN_SECONDS else units.duration(value)
        return str(value)

    def plain(self, worker: WorkerView) -> Any:
        """Return the value of a worker in cores, bytes or seconds."""
        value = self.value(worker)
        return value / _SCALES[self.unit] if value is not None and self.unit in _SCALES else value


def _agent_cpu(worker: WorkerView) -> int | None:
    return worker.agent.cpu_permille if worker.agent.pid else None


def _lag_us(worker: WorkerView) -> int | None:
    """Return the lag of a worker, or the silence of its agent if that is longer and exceeds `SEEN_SECONDS`."""
    seen_seconds = worker.seen_seconds
    return max(worker.agent.lag_us, round(1e6 * seen_seconds) if seen_seconds > SEEN_SECONDS else 0) or None


NAME = TableField("name", "n", "worker", "Worker", 11, TEXT, lambda each: each.name)
COLUMNS = (
    TableField("agent_cpu", "C", "agt_cpu", "Agent", 7, SHARE, _agent_cpu, True),
    TableField("agent_rss", "M", "agt_rss", "", 7, BYTES, lambda each: each.agent.rss_bytes or None, True),
    TableField("cpu", "c", "cpu", "CPU", 5, SHARE, lambda each: each.cpu_permille),
    TableField("rss", "m", "rss", "Memory", 6, BYTES, lambda each: each.rss_bytes),
    TableField(
        "rss_free", "F", "rss_free", "Host free", 6, BYTES, lambda each: each.agent.free_bytes or None, True, max
    ),
    TableField("free", "f", "free", "Free", 4, COUNT, lambda each: each.free),
    TableField("sent", "w", "sent", "Sent", 4, COUNT, lambda each: each.sent),
    TableField("queued", "d", "queued", "Queued", 6, COUNT, lambda each: each.queued),
    TableField("suspended", "s", "suspended", "Susp.", 5, COUNT, lambda each: each.suspended),
    TableField("lag", "l", "lag", "Lag", 5, LAG, _lag_us, True, max),
)
MARKS = TableField("marks", "", "ITL", "ITL", 3, TEXT, lambda each: each.marks, combine=lambda _: "")
BY_NAME = {column.name: column for column in (NAME, *COLUMNS, MARKS)}
SORTED_BY = {column.name: column for column in (NAME, *COLUMNS)}


def rows_of(workers: Iterable[WorkerView], stuck: Iterable[object]) -> list[ViewRow]:
    """Return a row for each worker; `stuck` contains the keys of the workers that look stuck."""
    marked = set(stuck)
    return [ViewRow(worker.key, worker.name, (worker,), worker.key in marked) for worker in workers]


def host_rows(workers: Iterable[WorkerView], stuck: Iterable[object]) -> list[ViewRow]:
    """Return a row for each host; `stuck` contains the keys of the workers that look stuck."""
    hosts: dict[str, list[WorkerView]] = {}
    for worker in workers:
        hosts.setdefault(worker.host, []).append(worker)
    marked = set(stuck)
    return [
        ViewRow(
            host,
            f"{host} {sum(worker.is_busy for worker in group)}/{len(group)}",
            group,
            any(worker.key in marked for worker in group),
        )
        for host, group in hosts.items()
    ]


def in_order(rows: Iterable[ViewRow], sort: str, is_reversed: bool) -> list[ViewRow]:
    """Return rows sorted by a column. Rows without a value are last in both directions."""
    by_name = sorted(rows, key=lambda row: units.natural(row.name))
    if sort == NAME.name:
        return by_name[::-1] if is_reversed else by_name
    column = SORTED_BY[sort]
    values = [(column.of(row), row) for row in by_name]
    known = sorted((each for each in values if each[0] is not None), key=lambda each: each[0], reverse=not is_reversed)
    return [row for _, row in known] + [row for value, row in values if value is None]


def matches(wanted: str, texts: Iterable[str]) -> bool:
    """Return whether a text contains `wanted`, ignoring case; for `!rest`, return whether no text contains `rest`."""
    needle = wanted.removeprefix("!").casefold()
    return not needle or (needle in "\n".join(texts).casefold()) != wanted.startswith("!")
