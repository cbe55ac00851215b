"""WorkerLoads: the queued work of each worker: which workers have capacity, and which one gets the next task.

Work is counted in whole microseconds, so that the sum stays exact when ended work is subtracted.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from scaler.kit import ActorRef
from scaler.wire.messages.columns import ROWS_MOST

WORK_AHEAD_US = 50_000
"""A worker with this much expected work, in microseconds, gets no further tasks. During this work, the round trip to
the scheduler costs no time; it takes about 1 ms if the scheduler is idle, and some 10 ms under full load. More work
would be worse, because tasks at a worker cannot move at once.
"""


def tasks_to_recall(loads: Sequence[tuple[int, bool]]) -> list[int]:
    """Return how many tasks to recall from each worker; all 0 if no worker is idle.

    Once the recalled tasks are assigned again, any two workers that are not stuck differ by at most one task.

    Args:
        loads: for each worker, the number of its tasks, and whether it is stuck. A stuck worker keeps only one task.
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


class _Load:
    __slots__ = ("ended", "host", "is_recalling", "queue_size", "tasks", "work_us")

    def __init__(self, queue_size: int, tasks: int, work_us: int, host: Hashable) -> None:
        self.host = host
        self.ended = 0
        self.is_recalling = False
        self.queue_size = queue_size
        self.tasks = tasks
        self.work_us = work_us


class WorkerLoads:
    """The load of each worker. Every operation takes constant time for any number of workers.

    A worker has capacity if it has no task, or less than `WORK_AHEAD_US` of work and fewer tasks than its queue allows.
    After a recall a worker gets no tasks until one of its tasks has ended. `_levels[n]` has the workers with capacity
    and n tasks.
    """

    def __init__(self) -> None:
        self._workers: dict[ActorRef, _Load] = {}
        self._hosts: dict[Hashable, dict[ActorRef, None]] = {}
        self._levels: list[dict[ActorRef, _Load]] = [{}]
        self._lowest = 0
        """an index below which all levels are empty"""
        self.with_room = 0
        """the number of workers with capacity, which is the number of workers in all levels"""
        self.tasks = 0
        """the number of tasks of all workers"""
        self._queue_sizes = 0
        self._paused: dict[Hashable, int] = {}
        self._overflow = 0
        """the number of tasks above the queue sizes of their workers, because blocked tasks have resumed"""

    def __len__(self) -> int:
        return len(self._workers)

    def __contains__(self, worker: ActorRef) -> bool:
        return worker in self._workers

    def join(self, worker: ActorRef, queue_size: int, tasks: int = 0, work_us: int = 0, host: Hashable = None) -> None:
        """Add a worker of a host, or replace the load of a known worker."""
        self.leave(worker)
        load = self._workers[worker] = _Load(queue_size, tasks, work_us, host)
        self._hosts.setdefault(host, {})[worker] = None
        self._count(load, 1)
        self._put(worker, load)

    def leave(self, worker: ActorRef) -> None:
        """Remove a worker. Unknown workers are ignored."""
        load = self._workers.pop(worker, None)
        if load is not None:
            self._count(load, -1)
            self._take_out(worker, load)
            beside = self._hosts[load.host]
            del beside[worker]
            if not beside:
                del self._hosts[load.host]

    def pause_at(self, host: Hashable, workers: int) -> None:
        """Set the number of paused workers of a host, connected or not. Paused workers get tasks as before."""
        if workers:
            self._paused[host] = workers
        else:
            self._paused.pop(host, None)

    @property
    def paused_workers(self) -> int:
        """The number of paused workers."""
        return sum(min(held, len(self._hosts.get(host, ()))) for host, held in self._paused.items())

    def first_paused(self) -> ActorRef | None:
        """Return the worker with the fewest tasks among all workers of the hosts that have paused workers.

        Return None if a worker of any other host has capacity.
        """
        there = [worker for host in self._paused for worker in self._hosts.get(host, ())]
        if self.with_room > sum(map(self.has_room, there)):
            return None
        return min(there, key=lambda worker: self._workers[worker].tasks, default=None)

    def free(self, worker: ActorRef, tasks: int, work_us: int) -> None:
        """Reduce the load of a worker by tasks that have ended, and by their expected work."""
        load = self._workers.get(worker)
        if load is not None:
            load.ended += tasks
            load.is_recalling = False
            self._reduce(worker, load, tasks, work_us)

    def remove_recalled(self, worker: ActorRef, tasks: int, work_us: int) -> None:
        """Reduce the load of a worker by tasks that were recalled, and by their expected work."""
        load = self._workers.get(worker)
        if load is not None:
            self._reduce(worker, load, tasks, work_us)

    def _reduce(self, worker: ActorRef, load: _Load, tasks: int, work_us: int) -> None:
        self._take_out(worker, load)
        before = load.tasks
        after = load.tasks = before - tasks if before > tasks else 0
        self.tasks += after - before
        queue_size = load.queue_size
        if before > queue_size or after > queue_size:
            self._overflow += max(0, after - queue_size) - max(0, before - queue_size)
        load.work_us = load.work_us - work_us if load.work_us > work_us else 0
        self._put(worker, load)

    def resume(self, worker: ActorRef, tasks: int, work_us: int) -> None:
        """Increase the load of a worker by blocked tasks that resume. They need no capacity: its queue may overflow."""
        self.remove_recalled(worker, -tasks, -work_us)

    def take(self, work_us: int, tasks: int = 1) -> ActorRef:
        """Add tasks, with `work_us` in total, to the worker with the fewest tasks. Some worker must have capacity."""
        levels, level = self._levels, self._lowest
        lowest = levels[level]
        while not lowest:
            level = self._lowest = level + 1
            lowest = levels[level]
        self.tasks += tasks
        worker, load = lowest.popitem()
        load.tasks = level = level + tasks
        load.work_us = work_us = load.work_us + work_us
        if work_us < WORK_AHEAD_US and level < load.queue_size:
            while level >= len(levels):
                levels.append({})
            levels[level][worker] = load
        else:
            self.with_room -= 1
            self._overflow += max(0, level - load.queue_size)
        return worker

    def room_in_next(self) -> int:
        """Return how many tasks the worker that `take` would choose has room for; an idle worker takes any range."""
        level = self._lowest
        while not self._levels[level]:
            level += 1
        return next(reversed(self._levels[level].values())).queue_size - level if level else ROWS_MOST

    def take_near(self, near: ActorRef, work_us: int) -> ActorRef:
        """Add a task to the worker with the fewest tasks on the host of `near`, or on any host if that host is full."""
        known = self._workers.get(near)
        worker = self.take_at(known.host, work_us, near) if known is not None else None
        return self.take(work_us) if worker is None else worker

    def take_at(self, host: Hashable, work_us: int, first: ActorRef | None = None) -> ActorRef | None:
        """Add a task to the host's worker with the fewest tasks. Return the worker; None if no worker has capacity.

        If several workers have the fewest tasks, and `first` is among them, `first` gets the task.
        """
        free = [worker for worker in self._hosts.get(host, ()) if self.has_room(worker)]
        if not free:
            return None
        worker = min(free, key=lambda each: (self._workers[each].tasks, each is not first))
        load = self._workers[worker]
        self._take_out(worker, load)
        self._overflow += load.tasks >= load.queue_size
        self.tasks += 1
        load.tasks += 1
        load.work_us += work_us
        self._put(worker, load)
        return worker

    def has_room(self, worker: ActorRef) -> bool:
        """Return whether a worker has capacity."""
        tasks = self._workers[worker].tasks
        return tasks < len(self._levels) and worker in self._levels[tasks]

    def free_places(self) -> int:
        """Return how many more tasks fit into the queues of all workers, regardless of the expected work."""
        return self._queue_sizes - self.tasks + self._overflow

    def is_uneven(self) -> bool:
        """Return whether a worker is idle while tasks wait at other workers."""
        idle = len(self._levels[0])
        return idle > 0 and self.tasks > len(self._workers) - idle

    def has_waiting(self) -> bool:
        """Return whether tasks wait at any worker."""
        return self.tasks > len(self._workers) - len(self._levels[0])

    def ended(self) -> dict[ActorRef, int]:
        """Return the number of ended tasks of each worker where tasks wait."""
        return {worker: load.ended for worker, load in self._workers.items() if load.tasks > 1}

    def level(self, ended: Mapping[ActorRef, int]) -> dict[ActorRef, int]:
        """Return how many tasks to recall from each worker, so that all workers have about the same number of tasks.

        Args:
            ended: an earlier result of `ended`; a worker where no task has ended since then is stuck.
        """
        loads = [(load.tasks, ended.get(worker) == load.ended) for worker, load in self._workers.items()]
        return self._mark_recalling(dict(zip(self._workers, tasks_to_recall(loads), strict=True)))

    def unblock(self, ended: Mapping[ActorRef, int]) -> dict[ActorRef, int]:
        """Return how many tasks to recall from each worker where no task has ended since `ended`: all tasks but one."""
        loads = self._workers.items()
        return self._mark_recalling(
            {w: load.tasks - 1 for w, load in loads if load.tasks and ended.get(w) == load.ended}
        )

    def _mark_recalling(self, asked: dict[ActorRef, int]) -> dict[ActorRef, int]:
        asked = {worker: count for worker, count in asked.items() if count}
        for worker in asked:
            load = self._workers[worker]
            self._take_out(worker, load)
            load.is_recalling = True
        return asked

    def load(self, worker: ActorRef) -> tuple[int, int]:
        """Return the number of a worker's tasks, and the expected work of these tasks in microseconds."""
        load = self._workers[worker]
        return load.tasks, load.work_us

    def _count(self, load: _Load, sign: int) -> None:
        self.tasks += sign * load.tasks
        self._queue_sizes += sign * load.queue_size
        self._overflow += sign * max(0, load.tasks - load.queue_size)

    def _put(self, worker: ActorRef, load: _Load) -> None:
        level = load.tasks
        if level and (load.work_us >= WORK_AHEAD_US or level >= load.queue_size or load.is_recalling):
            return
        while len(self._levels) <= level:
            self._levels.append({})
        self._levels[level][worker] = load
        self._lowest = min(self._lowest, level)
        self.with_room += 1

    def _take_out(self, worker: ActorRef, load: _Load) -> None:
        if load.tasks < len(self._levels) and self._levels[load.tasks].pop(worker, None) is not None:
            self.with_room -= 1
