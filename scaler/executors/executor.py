"""The executor contract: everything that an agent knows of the executor that runs the tasks of its node.

An agent speaks the protocol with the scheduler; it runs no tasks. Each worker of its node is one actor of an executor,
a child of the agent's supervisor named `worker_child(index)`. This page is the whole contract between the two.

    scheduler <--> Link --mail in--> worker 0 .. n-1 --mail out--> Link <--> scheduler
                                       |        ^
                            NeedObject v        | ObjectFound, ObjectLost
                                     ObjectCache

Mail in, for each worker (items of the wire come as batches, `Batch[RunTask]` and so on):

- `RunTask`: run these, at most one at a time, the highest `priority` first and in order within one; those that come
  while tasks of several accounts wait come after them all, so that no client's task is overtaken by those of another.
  A task carries its function, arguments, `name`, `priority`, `account`, attempt, and what it asks for: `options`, which
  are `RunOptions`; an executor leaves aside what it does not know. The address of the scheduler is in `Node.config`.
  Clients inside the task find that, and say when it waits, by `scaler.task_context.current`, which the executor sets
  where the task runs.
- `RunCancel`: end these runs, whether they wait or run. Each is answered by a `RunResult` with `CANCELED`, or by the
  result that was quicker. A run that is not here was answered before, or is none of this worker's: it has no result.
- `RecallRequest`: give back those of these that have not started. One that has started stays, and nothing is said.
- `ObjectFound`, `ObjectLost`: the answers to `NeedObject`. What is lost may have been stored since it was asked for:
  ask once more, and then fail those that waited with `MISSING_OBJECTS`.
- `ForgetObjects`: these objects are deleted, for tasks that begin from now on. Their ids may come again.
- `CollectionDue`: an interval is over; what was not used in it may be dropped, and asked for again.
- `ProcessorNews`: the client in a task says that it only waits, or something is on its way to that client. Only for an
  executor with `ExecutorFeature.SUSPENSION`, or without `ExecutorFeature.WAITS`: then it is what says that a run waits, or does not any more.
- `SayRuns`: only for an executor with `ExecutorFeature.WATCH`: add to the view each process of this worker, which run it executes,
  and for how long.
- `HoldTasks`: only for an executor with `ExecutorFeature.ROOM`: until it is taken back, only such tasks begin as it lets begin,
  whatever waits before them, each when the one before has ended.
- `BeginAnew`: only for an executor with `ExecutorFeature.FRESH`: each process that is there ends after the tasks that it has, and
  tasks that come after this run in others. One stays while a client in it has open tasks.

Mail out, to the link:

- `RunResult`: exactly one result for each run that was handed here, unless it was given back. A function that raises,
  or whose arguments or result cannot be read or written, is a result with `FAILED`. What it returned is copied before
  the next task begins, which may change it.
- `RecallResponse`: these runs were given back; the executor does not have them any more.
- `RunsNotHere`: a `RunCancel` or `RecallRequest` named these runs, and they are not here. Optional: a run that the
  link still takes for open is then answered with `NOT_FOUND`, so that the scheduler does not wait for it.
- `RunBlocked`, `RunUnblocked`: this run waits for other tasks and holds no place, so that another one runs; it holds
  one again, for which it waits unless it gave up its wait. Any depth works on one worker.
- `RunOutput`: a line that a task has written, or how far it is, before its result. Optional.
- `ExecutorProcessGone`: a process is gone in which clients may have been.
- `CapacityChanged`: so many tasks can run at once now. Only with `ExecutorFeature.ELASTIC`, and only if `Node.is_elastic`.

Mail out, to the object cache: `NeedObject`.

An executor with `ExecutorFeature.CRASH` that starts processes and waits for them has their ids in `scaler.process.strays.own`: the
agent reaps all other children of its process.

Must never: block the agent's thread, or run user code in it. `tests/conformance/` has a test for each sentence here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Protocol

from scaler.config import ConfigError
from scaler.kit import ChildSpec
from scaler.process.shell import Shell
from scaler.settings import ClusterConfig

ENTRY_POINTS = "scaler.engines"
"""The group of entry points in which a package names its executors."""

PROCESSES = "processes"
FUTURES = "futures"
"""The engine of a text without a name of an engine: `module:factory`."""

LOCAL_ENGINES = (PROCESSES, "inline")
"""The engines whose tasks run in the agent's process or in forks of it, and so hash texts as it does."""

LINK, OBJECTS = "link", "objects"
"""The names of the agent's own actors among the peers of an executor's children."""


class ExecutorFeature(Enum):
    """The optional parts of the contract."""

    CRASH = "crash"
    """a task that ends its process fails with `PROCESSOR_DIED`, and the worker goes on"""
    INTERRUPT = "interrupt"
    """a cancelled task is stopped while it runs, instead of only losing its result"""
    TIME_LIMIT = "time limit"
    """a task that runs longer than `task_timeout_seconds` ends with `TIMED_OUT`"""
    SUSPENSION = "suspension"
    """`hard_processor_suspend`: the process of a blocked task is stopped"""
    MEMORY = "memory"
    """unused memory is returned to the system"""
    WAITS = "waits"
    """a task that waits by `task_context` says so itself; without this part only its client does, through the scheduler
    (`ProcessorNews`)"""
    WATCH = "watch"
    """a worker says which runs it executes, and in which processes (`SayRuns`)"""
    ELASTIC = "elastic"
    """`capacity` changes, and the number of workers that take tasks with it (`CapacityChanged`)"""
    PROCESSES = "worker processes"
    """tasks run in processes of this node that the executor starts, prepares and limits as the settings say"""
    ROOM = "room for results"
    """a worker begins nothing while there is no room for what it would return (`HoldTasks`)"""
    FRESH = "fresh processes"
    """a worker replaces its processes by fresh ones when it is told to (`BeginAnew`)"""
    ROWS = "tasks of many rows"
    """a worker takes them, says when it splits one (`SplitRows`), and splits all when it is told to (`SplitAll`)"""


_NEEDS = {
    "task_timeout_seconds": ExecutorFeature.TIME_LIMIT,
    "hard_processor_suspend": ExecutorFeature.SUSPENSION,
    "preload": ExecutorFeature.PROCESSES,
    "initializer": ExecutorFeature.PROCESSES,
    "max_tasks_per_processor": ExecutorFeature.PROCESSES,
    "max_waiting_per_worker": ExecutorFeature.PROCESSES,
    "processor_memory_bytes": ExecutorFeature.PROCESSES,
}
"""The settings that only some executors can do."""


@dataclass(frozen=True)
class Node:
    """The node for which an executor runs tasks."""

    shell: Shell
    """the agent's loop: an executor may watch descriptors with it"""
    config: ClusterConfig
    names: tuple[str, ...]
    """of the workers"""
    agent_token: bytes
    """with this token, clients inside the tasks prove to the scheduler where they are"""
    is_elastic: bool = False
    """whether the number of workers that take tasks, the first ones, follows the capacity of the executor"""


class Executor(Protocol):
    """Runs the tasks of a node."""

    @property
    def parts(self) -> frozenset[ExecutorFeature]:
        """The optional parts that it supports."""

    @property
    def capacity(self) -> int | None:
        """How many tasks it can run at once, if it knows: so many workers the node has if the settings name no number.
        None: one for each core of this machine.
        With `ExecutorFeature.ELASTIC`, it is the number to begin with.
        """

    @property
    def capabilities(self) -> Mapping[str, int]:
        """The resources of the node that tasks may ask for, and how much of each: `{"gpu": 2}`. Asked once."""

    def children(self, node: Node) -> Sequence[ChildSpec]:
        """Return the specifications of its actors, among them one for each worker, named `worker_child(index)`.

        They find the agent's actors among their peers, as `LINK` and `OBJECTS`. A failure of any ends the agent.
        """


def worker_child(index: int) -> str:
    """Return the name under which the agent finds the actor of a worker."""
    return f"worker-{index}"


def load_executor(config: ClusterConfig) -> Executor:
    """Return the executor that runs the tasks of a node.

    Its name is that of an entry point in the group `scaler.engines`, which is called with the whole text of the
    setting `engine`: `NAME` or `NAME://REST`.

    Raises:
        ConfigError: if there is none of that name (the text says which there are), if it cannot be loaded, or if it
            cannot do what the settings ask for.
    """
    engine = config.engine
    name = engine.partition("://")[0]
    if ":" in name:  # a factory of the user's: module:factory
        name, engine = FUTURES, f"{FUTURES}://{engine}"
    executor = _found(name)(engine)
    for setting, part in _NEEDS.items():
        if getattr(config, setting) and part not in executor.parts:
            raise ConfigError(f"the engine {name!r} has no {part.value}: leave {setting} out, or take another engine")
    return executor


def _found(name: str) -> Callable[[str], Executor]:
    """Return what makes the executor of this name."""
    if name == PROCESSES:  # the usual one, without a look at all packages that are installed
        usual: Callable[[str], Executor] = import_module("scaler.executors.processes.executor").LocalProcesses
        return usual
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none; is scaler installed here?"
        raise ConfigError(f"there is no engine {name!r}; installed are: {known}")
    try:
        make: Callable[[str], Executor] = found[name].load()
    except ImportError as error:
        raise ConfigError(f"the engine {name!r} cannot be loaded: {error}") from error
    return make
