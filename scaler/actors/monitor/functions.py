"""Functions: the topic `functions`: the tasks of each function, as agents count their runs and the balancer what waits.

Used by the monitor, which tells it of each report. Agents send one row for each function of which they have a task or
ended one, so this is the only part of a report that is read here. Must never: keep more functions than its bound.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable

from scaler.actors.messages.monitor import Backlog
from scaler.actors.monitor.overview import why_tasks_wait
from scaler.actors.object_store import ObjectTable
from scaler.ids import ObjectId, public_id
from scaler.wire.messages.monitor import FUNCTION_ROW, StateFunction
from scaler.wire.messages.worker import AgentState
from scaler.wire.reasons import NOT_ABLE

SHOWN_MOST = 256
KEPT_MOST = 4096
"""The totals of so many functions are kept: those that ended last."""

_REST = b""
_DURATIONS = struct.Struct("<32I")
_UINT32_MOST = 2**32 - 1
_OUTCOMES = 4


class _Total:
    """What was counted of one function since the first subscription."""

    __slots__ = ("counts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = [0] * 37
        """success, failed, canceled, other, microseconds, buckets"""


class Functions:
    """All functions, by short id; the empty one is that of all those that have no row of their own."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._totals: OrderedDict[bytes, _Total] = OrderedDict()
        self._short: dict[ObjectId, bytes] = {}
        """short ids of the functions that are stored"""
        self._names: dict[bytes, str] = {}

    def add(self, state: AgentState) -> None:
        """An agent has reported."""
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
        """Add the function that was counted longest ago to the rest."""
        oldest = next(short_id for short_id in self._totals if short_id != _REST)
        folded = self._totals.pop(oldest)
        rest = self._totals.setdefault(_REST, _Total(""))
        rest.counts = list(map(int.__add__, rest.counts, folded.counts))

    def name_of(self, short_id: bytes) -> str:
        """Return the name of a function, if it is known."""
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

    def items(self, states: Iterable[AgentState], backlog: Backlog) -> tuple[list[StateFunction], int]:
        """Return the items of the topic, and how many functions there are."""
        running: dict[bytes, int] = {}
        for state in states:
            for packed, here, *_ in FUNCTION_ROW.iter_unpack(state.functions):
                if here:
                    short_id = _short_id(packed)
                    running[short_id] = running.get(short_id, 0) + here
        waiting = {self._short_of(each): count for each, count in _scaled(backlog).items()}
        known = {**dict.fromkeys(running, 0), **dict.fromkeys(waiting, 0), **dict.fromkeys(self._totals, 0)}
        known.pop(_REST, None)
        order = sorted(known, key=lambda each: self._rank(each, running, waiting), reverse=True)
        usual, stuck = why_tasks_wait(backlog), self._untakeable(backlog)
        items = [
            self._item((each,), running, waiting, NOT_ABLE if each in stuck else usual) for each in order[:SHOWN_MOST]
        ]
        rest = [*order[SHOWN_MOST:], _REST]
        if len(rest) > 1 or _REST in self._totals:
            items.append(self._item(rest, running, waiting, usual))
        return items, len(known)

    def _untakeable(self, backlog: Backlog) -> frozenset[bytes]:
        """Return the functions most of whose waiting tasks no worker could take."""
        if not backlog.workers:
            return frozenset()
        counted, stuck = backlog.functions, backlog.untakeable_functions
        return frozenset(self._short_of(each) for each, count in stuck.items() if 2 * count > counted[each])

    def _short_of(self, function_id: ObjectId) -> bytes:
        known = self._short.get(function_id)
        return public_id(function_id) if known is None else known

    def _rank(self, short_id: bytes, running: dict[bytes, int], waiting: dict[bytes, int]) -> tuple[int, int]:
        total = self._totals.get(short_id)
        ended = 0 if total is None else sum(total.counts[:_OUTCOMES])
        return running.get(short_id, 0) + waiting.get(short_id, 0), ended

    def _item(
        self, short_ids: Iterable[bytes], running: dict[bytes, int], waiting: dict[bytes, int], reason: str
    ) -> StateFunction:
        """Return the item of one function, or of all the others."""
        counts, waits, runs, first = [0] * 37, 0, 0, None
        for short_id in short_ids:
            first = short_id if first is None else _REST
            waits += waiting.get(short_id, 0)
            runs += running.get(short_id, 0)
            total = self._totals.get(short_id)
            if total is not None:
                counts = list(map(int.__add__, counts, total.counts))
        success, failed, canceled, other, total_us, *buckets = counts
        measured = success + failed
        mean_us = min(_UINT32_MOST, round(total_us / measured)) if measured else 0
        durations = _DURATIONS.pack(*(min(_UINT32_MOST, count) for count in buckets)) if measured else b""
        name = self.name_of(first or _REST)
        ends = (success, failed, canceled, other)
        return StateFunction(first or _REST, name, waits, runs, *ends, mean_us, durations, reason if waits else "")


def _short_id(packed: bytes) -> bytes:
    """Return the short id of a row; that of all other functions is empty."""
    return packed if any(packed) else _REST


def _scaled(backlog: Backlog) -> dict[ObjectId, int]:
    """Return how many tasks of each function wait: of a large number of tasks, only some were looked at."""
    if backlog.counted in (0, backlog.waiting):
        return backlog.functions
    return {each: count * backlog.waiting // backlog.counted for each, count in backlog.functions.items()}
