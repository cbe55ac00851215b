"""FunctionTotals: the topic `functions`: ended, running and waiting tasks of each function.

Agents report ended and running tasks, one row for each function. The balancer counts the waiting tasks.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice

from scaler.actors.messages.monitor import Backlog
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.policy.queue_reasons import queue_reason
from scaler.actors.vocabulary.capacity import ResourceGroup
from scaler.ids import ObjectId, public_id
from scaler.wire.messages.monitor import DURATIONS, FUNCTION_ROW, StateFunction
from scaler.wire.messages.worker import AgentState

SHOWN_MOST = 256
KEPT_MOST = 4096
"""Limit of the functions with totals of their own. Above it, the function that ran longest ago joins the empty id."""

SAMPLED_MOST, SEARCHED_MOST = 500, 10_000
"""The most functions from whose tasks the work of a group is estimated, and the most that are searched for these."""

_REST = b""
_UINT32_MOST = 2**32 - 1
_OUTCOMES = 4


class _Total:
    """The totals of the ended tasks of one function since the first subscription."""

    __slots__ = ("counts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = [0] * 37
        """tasks by outcome (success, failed, canceled, other), the total microseconds, and 32 buckets of durations"""


class FunctionTotals:
    """The totals of all functions, by short id. The empty id has the sum of the functions without own totals."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._totals: OrderedDict[bytes, _Total] = OrderedDict()
        self._short: dict[ObjectId, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._running: Counter[bytes] = Counter()
        """the number of tasks at workers by function, from the latest reports of agents"""

    def add(self, state: AgentState) -> None:
        """Add the ended tasks in an agent's report to the totals."""
        for packed, _here, *counts in FUNCTION_ROW.iter_unpack(state.functions):
            if any(counts):
                total = self._total(_short_id(packed))
                total.counts = list(map(int.__add__, total.counts, counts))

    def _total(self, short_id: bytes) -> _Total:
        total = self._totals.get(short_id)
        if total is None:
            total = self._totals[short_id] = _Total(self.name_of(short_id))
            if len(self._totals) > KEPT_MOST:
                self._fold_oldest()
        else:
            self._totals.move_to_end(short_id)
        return total

    def _fold_oldest(self) -> None:
        oldest = next(short_id for short_id in self._totals if short_id != _REST)
        folded = self._totals.pop(oldest)
        rest = self._totals.setdefault(_REST, _Total(""))
        rest.counts = list(map(int.__add__, rest.counts, folded.counts))

    def name_of(self, short_id: bytes) -> str:
        """Return the name of the function with a short id; empty if the function is unknown."""
        if short_id and short_id not in self._names:
            self._learn_names()
        return self._names.get(short_id, "")

    def _learn_names(self) -> None:
        functions = self._table.functions
        if len(self._short) > 2 * len(functions) + KEPT_MOST:
            self._short.clear()
            self._names.clear()
        for function_id in functions.keys() - self._short.keys():
            short_id = self._short[function_id] = public_id(function_id)
            self._names[short_id] = functions[function_id].name

    def see_running(self, states: Iterable[AgentState]) -> None:
        """Count the running tasks in the latest reports of all agents."""
        running = self._running = Counter[bytes]()
        for state in states:
            for packed, here, *_ in FUNCTION_ROW.iter_unpack(state.functions):
                if here:
                    running[_short_id(packed)] += here

    def items(self, backlog: Backlog) -> tuple[list[StateFunction], int]:
        """Return the items of the topic `functions`, and the number of functions."""
        waiting: dict[bytes, list[tuple[int, ResourceGroup]]] = {}
        for group in backlog.groups:
            for function_id, count in group.functions.items():
                waiting.setdefault(self._short_of(function_id), []).append((count, group))
        known = {**dict.fromkeys(self._running), **dict.fromkeys(waiting), **dict.fromkeys(self._totals)}
        known.pop(_REST, None)
        order = sorted(known, key=lambda each: self._rank(each, waiting), reverse=True)
        items = [self._item((each,), waiting) for each in order[:SHOWN_MOST]]
        rest = [*order[SHOWN_MOST:], _REST]
        if len(rest) > 1 or _REST in self._totals:
            items.append(self._item(rest, waiting))
        return items, len(known)

    def work(self, group: ResourceGroup) -> tuple[int, int]:
        """Estimate a group's work: the microseconds of its tasks with known durations, and the number of the others."""
        waiting, expected_us = [], {}
        for function_id, count in _most_waiting(group.functions):
            short_id = self._short_of(function_id)
            mean_us = expected_us[short_id] = self._mean_us(short_id) or round(group.known_us(function_id))
            waiting.append((count, mean_us))
        last = group.last_function
        if last is not None:
            running = [(1, self._mean_us(self._short_of(last)) or round(group.known_us(last)))]
        else:
            of_functions = islice(self._running.items(), SAMPLED_MOST)
            running = [(count, self._mean_us(each) or expected_us.get(each, 0)) for each, count in of_functions]
        of_waiting, of_running = _work(waiting, group.waiting), _work(running or waiting, group.running)
        return of_waiting[0] + of_running[0], of_waiting[1] + of_running[1]

    def _mean_us(self, short_id: bytes) -> int:
        """Return the mean run time of a function in microseconds; 0 if no run was measured."""
        total = self._totals.get(short_id)
        measured = 0 if total is None else total.counts[0] + total.counts[1]
        return 0 if total is None or not measured else min(_UINT32_MOST, round(total.counts[4] / measured))

    def _short_of(self, function_id: ObjectId) -> bytes:
        known = self._short.get(function_id)
        return public_id(function_id) if known is None else known

    def _rank(self, short_id: bytes, waiting: dict[bytes, list[tuple[int, ResourceGroup]]]) -> tuple[int, int]:
        total = self._totals.get(short_id)
        ended = 0 if total is None else sum(total.counts[:_OUTCOMES])
        return self._running[short_id] + sum(count for count, _ in waiting.get(short_id, ())), ended

    def _item(self, short_ids: Iterable[bytes], waiting: dict[bytes, list[tuple[int, ResourceGroup]]]) -> StateFunction:
        counts, waits, runs, first = [0] * 37, list[tuple[int, ResourceGroup]](), 0, None
        for short_id in short_ids:
            first = short_id if first is None else _REST
            waits += waiting.get(short_id, ())
            runs += self._running[short_id]
            total = self._totals.get(short_id)
            if total is not None:
                counts = list(map(int.__add__, counts, total.counts))
        success, failed, canceled, other, total_us, *buckets = counts
        measured = success + failed
        mean_us = min(_UINT32_MOST, round(total_us / measured)) if measured else 0
        durations = DURATIONS.pack(*(min(_UINT32_MOST, count) for count in buckets)) if measured else b""
        name, ends = self.name_of(first or _REST), (success, failed, canceled, other)
        waits_for, asks = "", ""
        if waits:
            _, most = max(waits, key=lambda each: each[0])
            waits_for, asks = queue_reason(most.capacity)[0], most.asks
        number = sum(count for count, _ in waits)
        return StateFunction(first or _REST, name, number, runs, *ends, mean_us, durations, waits_for, asks)


def _short_id(packed: bytes) -> bytes:
    """Return the short id of the function of a row; empty for the row that sums up all other functions."""
    return packed if any(packed) else _REST


def _most_waiting(functions: Mapping[ObjectId, int]) -> list[tuple[ObjectId, int]]:
    """Return the functions with the most waiting tasks, at most `SAMPLED_MOST`, so that the cost is limited."""
    known = list(islice(functions, SEARCHED_MOST))
    if len(known) > SAMPLED_MOST:
        known = sorted(known, key=functions.__getitem__, reverse=True)[:SAMPLED_MOST]
    return [(function_id, functions[function_id]) for function_id in known]


def _work(means_us: list[tuple[int, int]], tasks: int) -> tuple[int, int]:
    """Extrapolate from a sample to `tasks` tasks: return their microseconds, and how many have no known duration."""
    known = sum(count for count, mean_us in means_us if mean_us)
    if not known:
        return 0, tasks
    measured = tasks * known // sum(count for count, _ in means_us)
    return sum(count * mean_us for count, mean_us in means_us) * measured // known, tasks - measured
