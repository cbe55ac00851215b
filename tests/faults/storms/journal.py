"""Reads what the tasks and the clients of a storm have noted, line by line: each execution and each result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Execution:
    """One execution of a task; `end` is None if it did not come to its end."""

    task: str
    process: int
    life: str
    """of the agent"""
    begin: float
    end: float | None = None
    parent: Execution | None = None
    """the one that has submitted the task"""

    @property
    def lives(self) -> set[str]:
        """Return the lives of all agents that it needs: parents run where their children's results go to."""
        return {self.life, *(self.parent.lives if self.parent else ())}

    def is_hit_at(self, moment: float) -> bool:
        return self.begin <= moment and (self.end is None or self.end >= moment)


@dataclass
class Delivery:
    """One result that came to a client, or an error."""

    task: str
    at: float
    outcome: str

    @property
    def is_error(self) -> bool:
        return self.outcome not in {"ok", "wrong"}


@dataclass
class Journal:
    """All that was noted: executions by task in the order of their begin, and what clients said and got."""

    executions: dict[str, list[Execution]] = field(default_factory=lambda: defaultdict(list))
    submitted: dict[str, float] = field(default_factory=dict)
    delivered: list[Delivery] = field(default_factory=list)
    twice: list[Delivery] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)

    def of(self, clients: Iterable[str]) -> Journal:
        """Return the part that concerns these clients."""
        prefixes = tuple(f"{each}/" for each in clients)
        return Journal(
            {task: runs for task, runs in self.executions.items() if task.startswith(prefixes)},
            {task: at for task, at in self.submitted.items() if task.startswith(prefixes)},
            [each for each in self.delivered if each.task.startswith(prefixes)],
            [each for each in self.twice if each.task.startswith(prefixes)],
            [task for task in self.hung if task.startswith(prefixes)],
        )


def read(runs: Path, notes: Iterable[Path]) -> Journal:
    """Read the file of the tasks and those of the clients."""
    journal = Journal()
    _read_runs(runs, journal)
    for path in notes:
        _read_notes(path, journal)
    journal.delivered.sort(key=lambda each: each.at)
    return journal


def _read_runs(path: Path, journal: Journal) -> None:
    attempts: dict[str, Execution] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, task, attempt, *rest = line.split(" ")
        if kind == "B":
            attempts[attempt] = execution = Execution(task, int(rest[0]), rest[1], float(rest[2]))
            journal.executions[task].append(execution)
        else:
            attempts[attempt].end = float(rest[0])
    for task, executions in journal.executions.items():
        executions.sort(key=lambda each: each.begin)
        parent = attempts.get(task.split(".")[1]) if "." in task else None
        for each in executions:
            each.parent = parent


def _read_notes(path: Path, journal: Journal) -> None:
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, task, at, *rest = line.split(" ", 3)
        if kind == "S":
            journal.submitted[task] = float(at)
        elif kind == "H":
            journal.hung.append(task)
        else:
            (journal.delivered if kind == "D" else journal.twice).append(Delivery(task, float(at), rest[0]))
