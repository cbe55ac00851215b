"""Where tasks go: plain data structures without messages, so that they can be tested by themselves.

Two things are known here: how long tasks of a function take (`Durations`), and what each worker has ahead, which says
who has room and who gets the next task (`Places`).

Work is counted in whole microseconds, as the wire has it: what is added when a task is assigned is taken off again when
it ends, and with whole numbers the sum is then exactly what it was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from scaler.ids import ObjectId

W = TypeVar("W")

WORK_AHEAD_US = 50_000
"""A worker that has so much work gets no more. It hides the way from the scheduler and back, which is about a
thousandth of a second when idle and some hundredths under full load; what is given ahead cannot be given to another
worker at once."""

LOOK_SECONDS = 0.025
"""Between two looks at the balance: half of the work ahead, which most workers finish meanwhile."""

FUNCTIONS_REMEMBERED = 1024
"""The functions whose durations are known; the ones that were heard of last."""


@dataclass(frozen=True)
class Rules:
    """What the scheduler's settings say about the placing of tasks."""

    waiting_most: int = -1
    """so many tasks may wait when no worker has a free place; -1: any number"""
    round_seconds: float = 1.0
    """the shortest time between two rounds of balancing; 0: there are none"""
    looks: int = 2
    """how many looks in a row must find workers idle while tasks wait at others"""

    def refusal(self, waiting: int, workers: int) -> str:
        """Return why a task is refused that would be one too many, and what to do about it."""
        if not workers:
            found = "no worker is connected"
        else:
            found = "none of them has" if workers > 1 else "it does not have"
            found = f"{_count(workers, 'worker')} {'are' if workers > 1 else 'is'} connected, and {found} a free place"
        return (
            f"the task was refused: {_count(waiting, 'task')} wait{'s' * (waiting == 1)}, "
            f"max_number_of_tasks_waiting is {self.waiting_most}, and {found}; "
            "submit it again later, add workers, or raise that setting"
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def moving_mean(mean: float | None, batch_total: float, batch_count: int) -> float:
    """Return the mean after `batch_count` more values of `batch_total` together; recent ones weigh most.

    It rises fast and falls slowly: to take a long task for a short one costs its length, since others then wait behind
    it; to take a short one for a long one costs a way to the scheduler and back.
    """
    batch_mean = batch_total / batch_count
    if mean is None:
        return batch_mean
    weight = 0.5 if batch_mean > mean else min(0.5, 0.1 * batch_count)
    return mean + weight * (batch_mean - mean)


def tasks_to_recall(loads: Sequence[tuple[int, bool]]) -> list[int]:
    """Return how many tasks each worker should give back when some worker is idle; none, when none is.

    The work is leveled: of two workers, none keeps two tasks more than the other gets. A worker that seems to be stuck
    in a long task keeps that one only, for nobody knows when it goes on.

    Args:
        loads: for each worker, how many tasks it has, and whether it is stuck.
    """
    if not any(tasks == 0 for tasks, _ in loads):
        return [0] * len(loads)
    total = sum(max(0, tasks - is_stuck) for tasks, is_stuck in loads)
    moving = [place for place, (tasks, is_stuck) in enumerate(loads) if not (is_stuck and tasks)]
    moving.sort(key=lambda place: loads[place][0], reverse=True)
    level, more = divmod(total, len(moving))
    keeps = [1] * len(loads)
    for rank, place in enumerate(moving):
        keeps[place] = max(1, level + (rank < more))
    return [max(0, tasks - keep) for (tasks, _), keep in zip(loads, keeps, strict=True)]


class Durations:
    """How long tasks take, by function. Every operation takes constant time."""

    def __init__(self) -> None:
        self._means_us: OrderedDict[ObjectId, float] = OrderedDict()
        self._doubted: set[ObjectId] = set()

    def __len__(self) -> int:
        return len(self._means_us)

    def learn(self, function_id: ObjectId, total_us: int, count: int) -> None:
        """`count` tasks of a function, at least one, took `total_us` together."""
        means_us = self._means_us
        means_us[function_id] = moving_mean(means_us.get(function_id), total_us, count)
        means_us.move_to_end(function_id)
        self._doubted.discard(function_id)
        if len(means_us) > FUNCTIONS_REMEMBERED:
            self._doubted.discard(means_us.popitem(last=False)[0])

    def doubt(self, function_id: ObjectId) -> None:
        """Take a function for unknown until the next of its tasks has ended: one takes longer than was thought."""
        if function_id in self._means_us:
            self._doubted.add(function_id)

    def expected_us(self, function_id: ObjectId) -> int:
        """Return how much work one more task of a function is.

        If that is not known, it fills a worker: many tasks that may be long are spread one by one.
        """
        mean_us = self._means_us.get(function_id)
        return WORK_AHEAD_US if mean_us is None or function_id in self._doubted else round(mean_us)


class _Load:
    __slots__ = ("ended", "host", "is_held", "queue_size", "tasks", "work_us")

    def __init__(self, queue_size: int, tasks: int, work_us: int, host: object) -> None:
        self.host = host
        self.ended = 0
        self.is_held = False
        self.queue_size = queue_size
        self.tasks = tasks
        self.work_us = work_us


class Places(Generic[W]):
    """Workers and what they have. Every operation takes constant time, however many workers there are.

    A worker has room when it has no task; else, while it has less than `WORK_AHEAD_US` of work and fewer tasks than its
    queue may have. One that was asked to give tasks back gets none until another one of its tasks has ended, whatever
    was expected of them. `_levels[n]` holds the workers that have n tasks, and room.
    """

    def __init__(self) -> None:
        self._workers: dict[W, _Load] = {}
        self._hosts: dict[object, set[W]] = {}
        """the workers of each host"""
        self._levels: list[dict[W, _Load]] = [{}]
        self._lowest = 0
        """no level below has a worker"""
        self._with_room = 0
        """how many workers there are in all levels"""
        self._tasks = 0
        """how many tasks all workers have"""

    def __len__(self) -> int:
        return len(self._workers)

    def __contains__(self, worker: W) -> bool:
        return worker in self._workers

    def join(self, worker: W, queue_size: int, tasks: int = 0, work_us: int = 0, host: object = None) -> None:
        """Add a worker of a host, or set it anew."""
        self.leave(worker)
        load = self._workers[worker] = _Load(queue_size, tasks, work_us, host)
        self._hosts.setdefault(host, set()).add(worker)
        self._tasks += tasks
        self._put(worker, load)

    def leave(self, worker: W) -> None:
        """Remove a worker, if it is there."""
        load = self._workers.pop(worker, None)
        if load is not None:
            self._tasks -= load.tasks
            self._take_out(worker, load)
            beside = self._hosts[load.host]
            beside.remove(worker)
            if not beside:
                del self._hosts[load.host]

    def free(self, worker: W, tasks: int, work_us: int) -> None:
        """Tasks of a worker have ended, which counted as so much work when they were taken."""
        load = self._workers.get(worker)
        if load is not None:
            load.ended += tasks
            load.is_held = False
            self._reduce(worker, load, tasks, work_us)

    def give_back(self, worker: W, tasks: int, work_us: int) -> None:
        """Tasks of a worker are given to others, which counted as so much work when they were taken."""
        load = self._workers.get(worker)
        if load is not None:
            self._reduce(worker, load, tasks, work_us)

    def _reduce(self, worker: W, load: _Load, tasks: int, work_us: int) -> None:
        self._take_out(worker, load)
        self._tasks -= min(tasks, load.tasks)
        load.tasks = max(0, load.tasks - tasks)
        load.work_us = max(0, load.work_us - work_us)
        self._put(worker, load)

    def take_again(self, worker: W, tasks: int, work_us: int) -> None:
        """Tasks of a worker that were freed go on. They need no room: a worker may have more tasks than places then."""
        self.give_back(worker, -tasks, -work_us)

    def take(self, work_us: int) -> W | None:
        """Give a task of so much work to the worker with the fewest tasks. Returns it, or None if nobody has room."""
        if not self._with_room:
            return None
        levels, level = self._levels, self._lowest
        while not levels[level]:
            level += 1
        self._lowest = level
        self._tasks += 1
        worker, load = levels[level].popitem()
        level += 1
        load.tasks = level
        load.work_us += work_us
        if load.work_us < WORK_AHEAD_US and level < load.queue_size:
            if level == len(levels):
                levels.append({})
            levels[level][worker] = load
        else:
            self._with_room -= 1
        return worker

    def take_near(self, near: W, work_us: int) -> W | None:
        """The same, but a worker of the host of `near` comes first, if one has room; looks at all workers there."""
        known, levels = self._workers.get(near), self._levels
        beside = self._hosts[known.host] if known is not None else ()
        free = [w for w in beside if (n := self._workers[w].tasks) < len(levels) and w in levels[n]]
        if not free:
            return self.take(work_us)
        worker = min(free, key=lambda each: (self._workers[each].tasks, each is not near))
        load = self._workers[worker]
        self._take_out(worker, load)
        self._tasks += 1
        load.tasks += 1
        load.work_us += work_us
        self._put(worker, load)
        return worker

    def free_places(self) -> int:
        """Return how many more tasks the workers' queues can hold, however long they are; looks at all workers."""
        return sum(max(0, load.queue_size - load.tasks) for load in self._workers.values())

    def is_uneven(self) -> bool:
        """Return whether a worker is idle while tasks wait at others."""
        return bool(self._levels[0]) and self.has_waiting()

    def has_waiting(self) -> bool:
        """Return whether tasks wait at any worker."""
        return self._tasks > len(self._workers) - len(self._levels[0])

    def ended(self) -> dict[W, int]:
        """Return, for each worker where tasks wait, a number that rises when one of its tasks ends."""
        return {worker: load.ended for worker, load in self._workers.items() if load.tasks > 1}

    def level(self, ended: Mapping[W, int]) -> dict[W, int]:
        """Return which workers shall give back how many tasks. They get none until a task of theirs has ended.

        Args:
            ended: what `ended` returned some time ago; a worker where nothing has ended since is stuck.
        """
        loads = [(load.tasks, ended.get(worker) == load.ended) for worker, load in self._workers.items()]
        return self._hold(dict(zip(self._workers, tasks_to_recall(loads), strict=True)))

    def unblock(self, ended: Mapping[W, int]) -> dict[W, int]:
        """Return how many tasks the stuck workers shall give back: all that wait there. The rest is as in `level`."""
        loads = self._workers.items()
        return self._hold({w: load.tasks - 1 for w, load in loads if load.tasks and ended.get(w) == load.ended})

    def _hold(self, asked: dict[W, int]) -> dict[W, int]:
        asked = {worker: count for worker, count in asked.items() if count}
        for worker in asked:
            load = self._workers[worker]
            self._take_out(worker, load)
            load.is_held = True
        return asked

    def load(self, worker: W) -> tuple[int, int]:
        """Return how many tasks the worker has, and how much work they are."""
        load = self._workers[worker]
        return load.tasks, load.work_us

    def _put(self, worker: W, load: _Load) -> None:
        level = load.tasks
        if level and (load.work_us >= WORK_AHEAD_US or level >= load.queue_size or load.is_held):
            return
        while len(self._levels) <= level:
            self._levels.append({})
        self._levels[level][worker] = load
        self._lowest = min(self._lowest, level)
        self._with_room += 1

    def _take_out(self, worker: W, load: _Load) -> None:
        if load.tasks < len(self._levels) and self._levels[load.tasks].pop(worker, None) is not None:
            self._with_room -= 1
