"""FunctionTotals: the topic `functions`: open and ended tasks of each function, and its measured runs.

The scheduler counts ended tasks (`FunctionEnds`), the balancer counts waiting tasks, and agents report running tasks
and, while a viewer is connected, their runs. The topic shows the functions with the most open tasks, then those whose
runs took the most time. So that it costs little with 10,000 functions, the totals of all functions are updated with
each report, and those of the functions that are not shown are the difference.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain, islice

from scaler.actors.messages.monitor import Backlog
from scaler.actors.messages.tasks import UINT64_MOST
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.policy.queue_reasons import queue_reason
from scaler.actors.vocabulary.capacity import ResourceGroup
from scaler.actors.vocabulary.events import Events
from scaler.actors.vocabulary.function_ends import FUNCTIONS_MOST
from scaler.ids import ObjectId, public_id
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.monitor import DURATIONS, FUNCTION_ROW, StateFunction
from scaler.wire.messages.worker import AgentState

SHOWN_MOST = 256

SAMPLED_MOST, SEARCHED_MOST = 500, 10_000
"""The most functions from whose tasks the work of a group is estimated, and the most that are searched for these."""

_REST = b""
_UINT32_MOST = 2**32 - 1


class _Runs:
    """The measured runs of one function, or of all functions, since the first subscription."""

    __slots__ = ("buckets", "count", "least_us", "most_us", "total_us")

    def __init__(self) -> None:
        self.count = self.total_us = self.most_us = 0
        self.least_us = _UINT32_MOST
        self.buckets = [0] * 32

    def add(self, total_us: int, least_us: int, most_us: int, buckets: Sequence[int]) -> None:
        """Add the runs that an agent reports."""
        self.count += sum(buckets)
        self.total_us += total_us
        self.least_us, self.most_us = min(self.least_us, least_us), max(self.most_us, most_us)
        self.buckets = list(map(int.__add__, self.buckets, buckets))

    def without(self, others: Iterable[_Runs]) -> _Runs:
        """Return these runs except some of them. The bounds of the others are not exact: they are those of a bucket."""
        rest = _Runs()
        rest.count, rest.total_us, rest.buckets = self.count, self.total_us, self.buckets
        for each in others:
            rest.count -= each.count
            rest.total_us -= each.total_us
            rest.buckets = list(map(int.__sub__, rest.buckets, each.buckets))
        used = [number for number, count in enumerate(rest.buckets) if count]
        if used:
            rest.least_us = max(self.least_us, 1 << used[0] >> 1)
            rest.most_us = min(self.most_us, (1 << used[-1]) - 1) if used[-1] < len(rest.buckets) - 1 else self.most_us
        return rest

    def columns(self) -> tuple[tuple[int, int, int, int], bytes]:
        """Return the number of runs with their total, shortest and longest duration, and the packed histogram."""
        if not self.count:
            return (0, 0, 0, 0), b""
        durations = DURATIONS.pack(*(min(_UINT32_MOST, each) for each in self.buckets))
        total_us, count = min(UINT64_MOST, self.total_us), min(UINT64_MOST, self.count)
        return (count, total_us, self.least_us, self.most_us), durations


_NO_RUNS = _Runs()


class FunctionTotals:
    """The totals of all functions, by short id. The empty id has the sum of the functions that are not shown."""

    def __init__(self, table: ObjectTable, events: Events) -> None:
        self._table, self._events, self._ends = table, events, events.ended_of
        self._runs: OrderedDict[bytes, _Runs] = OrderedDict()
        """the runs of at most `FUNCTIONS_MOST` functions, the last reported one last"""
        self._all_runs = _Runs()
        self._slowest: dict[bytes, None] = {}
        """the functions whose runs took the most time: all that took at least `_slow_us`"""
        self._slow_us = 0
        self._short: dict[ObjectId, bytes] = {}
        self._ids: dict[bytes, ObjectId] = {}
        """the ids of stored and waiting functions, of which no task may have ended"""
        self._learned: tuple[int, ObjectId | None] = (0, None)
        """the number and the last one of the stored functions when their short ids were learned"""
        self._running: Counter[bytes] = Counter()
        """the number of tasks at workers by function, from the latest reports of agents"""

    # Runs

    def add(self, state: AgentState) -> None:
        """Add the runs in an agent's report to the totals."""
        for packed, _here, total_us, least_us, most_us, *buckets in FUNCTION_ROW.iter_unpack(state.functions):
            if any(buckets):
                self._all_runs.add(total_us, least_us, most_us, buckets)
                if any(packed):
                    self._add_runs(packed, total_us, least_us, most_us, buckets)

    def _add_runs(self, short_id: bytes, total_us: int, least_us: int, most_us: int, buckets: list[int]) -> None:
        runs = self._runs.get(short_id)
        if runs is None:
            runs = self._runs[short_id] = _Runs()
            if len(self._runs) > FUNCTIONS_MOST:
                self._drop_oldest_runs()
        else:
            self._runs.move_to_end(short_id)
        runs.add(total_us, least_us, most_us, buckets)
        if runs.total_us >= self._slow_us:
            self._slowest[short_id] = None
            if len(self._slowest) > 2 * SHOWN_MOST:
                self._rank(self._slowest)

    def _drop_oldest_runs(self) -> None:
        oldest, _ = self._runs.popitem(last=False)
        if oldest in self._slowest:
            self._rank(self._runs)

    def _rank(self, short_ids: Iterable[bytes]) -> None:
        """Find the slowest functions. `short_ids`: all functions, or some with the slowest among them."""
        slowest = nlargest(SHOWN_MOST, short_ids, key=lambda each: self._runs[each].total_us)
        self._slowest = dict.fromkeys(slowest)
        self._slow_us = self._runs[slowest[-1]].total_us if len(slowest) == SHOWN_MOST else 0

    # Names

    def name_of(self, short_id: bytes) -> str:
        """Return the name of the function with a short id; empty if the function is unknown."""
        ended = self._ends.by_short_id.get(short_id)
        if ended is not None and ended.name:
            return ended.name
        if short_id and short_id not in self._ids:
            self._learn_ids()
        function_id = self._ids.get(short_id)
        return "" if function_id is None else self._table.function_name(function_id)

    def _learn_ids(self) -> None:
        functions = self._table.functions
        present = len(functions), next(reversed(functions), None)
        if present != self._learned:
            self._learned = present
            for function_id in functions.keys() - self._short.keys():
                self._short_of(function_id)

    def _short_of(self, function_id: ObjectId) -> bytes:
        known = self._short.get(function_id)
        if known is None:
            if len(self._short) > 2 * len(self._table.functions) + FUNCTIONS_MOST:
                self._short.clear()
                self._ids.clear()
                self._learned = (0, None)
            known = self._short[function_id] = public_id(function_id)
            self._ids[known] = function_id
        return known

    # Open tasks

    def see_running(self, states: Iterable[AgentState]) -> None:
        """Count the running tasks in the latest reports of all agents."""
        running = self._running = Counter[bytes]()
        for state in states:
            for packed, here, *_ in FUNCTION_ROW.iter_unpack(state.functions):
                if here:
                    running[packed if any(packed) else _REST] += here

    def _opened(self, backlog: Backlog) -> dict[bytes, int]:
        """Return the number of open tasks by function: of those that run and, by the empty id, of unknown functions."""
        opened = dict(self._running)
        for group in backlog.groups:
            for function_id, count in group.functions.items():
                short_id = self._short_of(function_id)
                opened[short_id] = opened.get(short_id, 0) + count
        return opened

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
        runs = self._runs.get(short_id)
        return 0 if runs is None else round(runs.total_us / runs.count)

    # Published

    def items(self, backlog: Backlog) -> tuple[list[StateFunction], int]:
        """Return the items of the topic `functions`, and the number of functions."""
        opened, ends = self._opened(backlog), self._ends
        n_open = sum(opened.values())
        opened.pop(_REST, None)
        order = nlargest(SHOWN_MOST + 1, opened, key=opened.__getitem__)
        items = [self._item(each, backlog) for each in self._shown(order[:SHOWN_MOST])]
        total = len(ends) + ends.n_rest + sum(short_id not in ends.by_short_id for short_id in opened)
        rest = self._rest(items, n_open, backlog, order[SHOWN_MOST:])
        if total > len(items) or rest.running or rest.runs:
            items.append(rest)
        return items, total

    def _shown(self, opened: Sequence[bytes]) -> list[bytes]:
        """Return the functions to show: the opened ones, then those whose runs took the most time, then the newest."""
        known = self._ends.by_short_id
        slowest = sorted(self._slowest, key=lambda each: self._runs[each].total_us, reverse=True)
        newest = islice(reversed(known), SHOWN_MOST)
        return [*dict.fromkeys(chain(opened, (each for each in slowest if each in known), newest))][:SHOWN_MOST]

    def _runs_of(self, short_id: bytes) -> _Runs:
        return self._runs.get(short_id, _NO_RUNS)

    def _item(self, short_id: bytes, backlog: Backlog) -> StateFunction:
        ended, function_id = self._ends.by_short_id.get(short_id), self._ids.get(short_id)
        waiting = 0 if function_id is None else sum(each.functions.get(function_id, 0) for each in backlog.groups)
        ends = _outcomes(ended.counts) if ended is not None else (0, 0, 0)
        counts = (waiting, self._running[short_id], *ends)
        runs, durations = self._runs_of(short_id).columns()
        why = self._why(short_id, backlog) if waiting else ("", "")
        return StateFunction(short_id, self.name_of(short_id), *counts, *runs, durations, *why)

    def _why(self, short_id: bytes, backlog: Backlog) -> tuple[str, str]:
        """Return the reason why most waiting tasks of a function wait, and the resources that they request."""
        function_id = self._ids[short_id]
        group = max(backlog.groups, key=lambda each: each.functions.get(function_id, 0))
        return queue_reason(group.capacity)[0], group.asks

    def _rest(
        self, items: Sequence[StateFunction], n_open: int, backlog: Backlog, others: Sequence[bytes]
    ) -> StateFunction:
        """Return the item of all functions that are not shown. `others`: the first of these if it has open tasks."""
        success, failed, canceled = _outcomes(self._events.ended)
        running = self._running.total() - sum(each.running for each in items)
        waiting = n_open - running - sum(each.waiting + each.running for each in items)
        ends = (
            success - sum(each.success for each in items),
            failed - sum(each.failed for each in items),
            canceled - sum(each.canceled for each in items),
        )
        shown = (self._runs[each.function] for each in items if each.runs)
        runs, durations = self._all_runs.without(shown).columns()
        why = self._why(others[0], backlog) if waiting and others and others[0] in self._ids else ("", "")
        return StateFunction(_REST, "", waiting, running, *ends, *runs, durations, *why)


def _outcomes(counts: Sequence[int]) -> tuple[int, int, int]:
    """Return how many tasks have succeeded, have failed in any way, and were cancelled."""
    success, canceled = counts[TaskStatus.SUCCESS], counts[TaskStatus.CANCELED]
    return success, sum(counts) - success - canceled, canceled


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
