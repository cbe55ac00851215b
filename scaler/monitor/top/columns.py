"""The columns of workers and hosts: key, title, width, and how a value is sorted and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scaler.monitor import units
from scaler.monitor.model.workers import SEEN_SECONDS, Worker


@dataclass(frozen=True)
class Row:
    """What is shown of a worker, or of all workers of a host."""

    key: object
    name: str
    agent_cpu: int | None
    agent_rss: int | None
    cpu: int | None
    rss: int | None
    rss_free: int | None
    free: int | None
    sent: int | None
    queued: int | None
    suspended: int | None
    lag: int | None
    seen_seconds: float
    marks: str
    is_stuck: bool = False
    is_busy: bool = False


@dataclass(frozen=True)
class Column:
    """One column. Numbers begin with the largest when they are sorted, names with A."""

    name: str
    key: str
    title: str
    width: int
    value: Callable[[Row], float | str | None]
    text: Callable[[Row], str]


def _lag(row: Row) -> str:
    if row.seen_seconds > SEEN_SECONDS:
        return f"({units.ago(row.seen_seconds)})"
    return units.duration(row.lag or None)


NAME = Column("name", "n", "worker", 11, lambda row: row.name, lambda row: row.name)
COLUMNS = (
    Column("agent_cpu", "C", "agt_cpu", 7, lambda row: row.agent_cpu, lambda row: units.share(row.agent_cpu)),
    Column("agent_rss", "M", "agt_rss", 7, lambda row: row.agent_rss, lambda row: units.size(row.agent_rss)),
    Column("cpu", "c", "cpu", 5, lambda row: row.cpu, lambda row: _narrow_share(row.cpu)),
    Column("rss", "m", "rss", 6, lambda row: row.rss, lambda row: units.size(row.rss)),
    Column("rss_free", "F", "rss_free", 6, lambda row: row.rss_free, lambda row: units.size(row.rss_free)),
    Column("free", "f", "free", 4, lambda row: row.free, lambda row: units.count(row.free, 4)),
    Column("sent", "w", "sent", 4, lambda row: row.sent, lambda row: units.count(row.sent, 4)),
    Column("queued", "d", "queued", 6, lambda row: row.queued, lambda row: units.count(row.queued, 6)),
    Column("suspended", "s", "suspended", 5, lambda row: row.suspended, lambda row: units.count(row.suspended, 5)),
    Column("lag", "l", "lag", 5, lambda row: max(row.lag or 0, row.seen_seconds * 1e6 if _is_late(row) else 0), _lag),
)
MARKS = Column("marks", "", "ITL", 3, lambda row: row.marks, lambda row: row.marks)
BY_NAME = {column.name: column for column in (NAME, *COLUMNS)}
BY_KEY = {column.key: column for column in (NAME, *COLUMNS)}
DROPPED = ("agent_rss", "agent_cpu", "suspended", "rss_free", "free", "marks", "lag", "queued", "sent", "rss", "cpu")
"""The order in which columns go where the screen is narrow; never the one by which rows are sorted."""


def _is_late(row: Row) -> bool:
    return row.seen_seconds > SEEN_SECONDS


def _narrow_share(permille: int | None) -> str:
    text = units.share(permille)
    return text if len(text) <= 5 else f"{(permille or 0) / 10:.0f}%"


def worker_row(worker: Worker, is_stuck: bool) -> Row:
    """Return the row of a worker."""
    agent = worker.agent
    return Row(
        worker.key,
        worker.name,
        agent.cpu_permille if agent.pid else None,
        agent.rss_bytes or None,
        worker.cpu_permille,
        worker.rss_bytes,
        agent.free_bytes or None,
        worker.free,
        worker.sent,
        worker.queued,
        worker.suspended,
        agent.lag_us or None,
        worker.seen_seconds,
        worker.marks,
        is_stuck,
        worker.is_busy,
    )


def host_rows(workers: Iterable[Worker], stuck: Iterable[object]) -> list[Row]:
    """Return a row for each host: sums of its workers, and of its agents, each counted once."""
    hosts: dict[str, list[Worker]] = {}
    for worker in workers:
        hosts.setdefault(worker.host, []).append(worker)
    late = set(stuck)
    return [_host_row(host, group, any(worker.key in late for worker in group)) for host, group in hosts.items()]


def _host_row(host: str, workers: list[Worker], is_stuck: bool) -> Row:
    agents = list({worker.agent.agent: worker.agent for worker in workers}.values())
    busy = sum(worker.is_busy for worker in workers)
    return Row(
        host,
        f"{host} {busy}/{len(workers)}",
        sum(agent.cpu_permille for agent in agents),
        _sum(agent.rss_bytes or None for agent in agents),
        _sum(worker.cpu_permille for worker in workers),
        _sum(worker.rss_bytes for worker in workers),
        max(agent.free_bytes for agent in agents) or None,
        _sum(worker.free for worker in workers),
        _sum(worker.sent for worker in workers),
        _sum(worker.queued for worker in workers),
        _sum(worker.suspended for worker in workers),
        max(agent.lag_us for agent in agents) or None,
        max(worker.seen_seconds for worker in workers),
        "",
        is_stuck,
        bool(busy),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def in_order(rows: list[Row], sort: str, is_reversed: bool) -> list[Row]:
    """Return rows sorted by a column: stable, and those without a value last either way."""
    column = BY_NAME[sort]
    falls = (column is not NAME) != is_reversed
    by_name = sorted(rows, key=lambda row: units.natural(row.name))
    known = [row for row in by_name if column.value(row) is not None]
    unknown = [row for row in by_name if column.value(row) is None]
    if column is NAME:
        return known[::-1] if is_reversed else known
    known.sort(key=column.value, reverse=falls)  # type: ignore[arg-type]  # numbers only
    return known + unknown
