"""The executor contract: everything that an agent knows of the executor that runs the tasks of its node.

An agent speaks the protocol with the scheduler and runs no tasks. Each worker of its node is one actor of an executor,
a child of the agent's supervisor named `worker_child(index)`. This page is the whole contract between the two.

    scheduler <--> Link --mail in--> worker 0 .. n-1 --mail out--> Link <--> scheduler
                                       |        ^
                            NeedObject v        | ObjectFound, ObjectUnavailable
                                     ObjectCache

Mail in, for each worker (items of the wire come as batches, `Batch[RunTask]` and so on):

- `RunTask`: run these tasks, at most one at a time, the highest `priority` first, and in order within one priority.
  While tasks of several accounts wait, new tasks queue behind all of them, so that no client's task is overtaken by
  another client's. A task carries its function, arguments, `name`, `priority`, `account`, attempt, and `options`, which
  are `RunOptions`; an executor ignores options that it does not know. The address of the scheduler is in `Node.config`.
  Clients inside the task read it from `scaler.task_context.current`, and report to that context when the task waits.
  The executor sets the context where the task runs.
- `RunCancel`: end these runs, waiting or running. Answer each with a `RunResult` that is `CANCELED`, or with the task's
  own result if the task ends first. A run that this worker does not have gets no result: it was answered before, or
  runs elsewhere.
- `RecallRequest`: return those of the named tasks that have not started. A task that has started continues, and the
  request for it gets no answer.
- `ObjectFound`, `ObjectUnavailable`: the answers to `NeedObject`. An unavailable object may have been stored since the
  request: request it once more. If it is unavailable again, fail the tasks that wait for it, with `MISSING_OBJECTS`.
- `ForgetObjects`: these objects are deleted; tasks that start from now on must not see them. Their ids may be used
  again.
- `CollectionDue`: an interval has ended; objects that were not used in it may be dropped, and requested again later.
- `ProcessorNews`: the client in a task only waits, or an item is on its way to that client. Sent only to an executor
  with `ExecutorFeature.SUSPENSION`, and to one without `ExecutorFeature.WAITS`, for which only this news shows whether
  a run is blocked.
- `ReportRuns`: only with `ExecutorFeature.WATCH`: add each process of this worker to the view, with the run that it
  executes, and the time of the run so far.
- `PauseTasks`: only with `ExecutorFeature.ROOM`: until the pause ends, start only tasks that this message permits, one
  at a time, even if other tasks have waited for longer.
- `RestartProcesses`: only with `ExecutorFeature.FRESH`: end each present process after its present tasks, and run
  tasks that arrive later in new processes. A process stays while a client in it has open tasks.

Mail out, to the link:

- `RunResult`: exactly one result for each run that was sent to this worker, unless the run was recalled. If a function
  raises, or its arguments or result cannot be read or written, the result is `FAILED`. The returned value is copied
  before the next task starts, because that task may change the value. Only with `ExecutorFeature.ROWS`: a result of a
  range may end the range early (its field `running`), and its next row is then a run of its own.
- `RecallResponse`: these runs were recalled; the executor no longer has them.
- `RunsNotHere`: a `RunCancel` or `RecallRequest` named these runs, and the worker has none of them. Optional: if
  such a run is still open at the link, the link reports `NOT_FOUND`, so that the scheduler does not wait for the run.
- `RunBlocked`: this run waits for other tasks and has given up its slot, so that another task runs. `RunUnblocked`: it
  has a slot again. A run waits for a slot before it resumes, unless it gave up its wait. One worker can run nested
  tasks of any depth.
- `RunOutput`: a line that a task has printed, or its progress, before its result. Optional.
- `ExecutorProcessGone`: a process has ended, and clients may have been in it.
- `CapacityChanged`: the number of tasks that can run at once has changed. Only with `ExecutorFeature.ELASTIC`, and only
  if `Node.is_elastic`.

Mail out, to the object cache: `NeedObject`.

An executor with `ExecutorFeature.CRASH` that starts processes, and itself waits for their end, keeps their ids in
`scaler.process.strays.own`: the agent reaps all other children of its process.

An executor must never block the agent's thread, or run user code in it. `tests/conformance/` has a test for each
sentence here.
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
"""The group of entry points under which a package registers its executors."""

PROCESSES = "processes"
FUTURES = "futures"
"""The engine that is used if the setting is the name of a factory, `module:factory`, instead of an engine."""

LOCAL_ENGINES = (PROCESSES, "inline")
"""The engines whose tasks run in the agent's process or in its forks: there, a text has the same hash everywhere."""

LINK, OBJECTS = "link", "objects"
"""The names of the link and of the object cache, in this order, among the peers of an executor's children."""


class ExecutorFeature(Enum):
    """The features that an executor may support in addition to the required parts of the contract."""

    CRASH = "crash"
    """a task that ends its process fails with `PROCESSOR_DIED`, and the worker continues"""
    INTERRUPT = "interrupt"
    """a cancelled task is stopped while it runs, instead of only losing its result"""
    TIME_LIMIT = "time limit"
    """a task that runs longer than `task_timeout_seconds` ends with `TIMED_OUT`"""
    SUSPENSION = "suspension"
    """the process of a blocked task is stopped if `hard_processor_suspend` is set"""
    MEMORY = "memory"
    """the executor returns unused memory to the system"""
    WAITS = "waits"
    """a task reports each wait through `task_context`; without this, only its client does (`ProcessorNews`)"""
    WATCH = "watch"
    """a worker reports which runs it executes, and in which processes (`ReportRuns`)"""
    ELASTIC = "elastic"
    """`capacity` changes, and with it the number of workers that take tasks (`CapacityChanged`)"""
    PROCESSES = "worker processes"
    """tasks run in processes of this node, which the executor starts, prepares and limits according to the settings"""
    ROOM = "room for results"
    """a worker starts no task while there is no memory for its result (`PauseTasks`)"""
    FRESH = "fresh processes"
    """a worker replaces its processes by new ones on request (`RestartProcesses`)"""
    ROWS = "tasks of many rows"
    """a worker takes ranges, and ends a range early if one of its rows needs separate handling"""


_NEEDS = {
    "task_timeout_seconds": ExecutorFeature.TIME_LIMIT,
    "hard_processor_suspend": ExecutorFeature.SUSPENSION,
    "preload": ExecutorFeature.PROCESSES,
    "initializer": ExecutorFeature.PROCESSES,
    "max_tasks_per_processor": ExecutorFeature.PROCESSES,
    "max_waiting_per_worker": ExecutorFeature.PROCESSES,
    "processor_memory_bytes": ExecutorFeature.PROCESSES,
}
"""setting -> the feature that an executor needs if this setting has a value"""


@dataclass(frozen=True)
class Node:
    """The node for which an executor runs tasks."""

    shell: Shell
    """the agent's loop, which can watch descriptors for an executor"""
    config: ClusterConfig
    names: tuple[str, ...]
    """the names of the workers"""
    agent_token: bytes
    """the token with which clients inside the tasks prove to the scheduler which agent runs them"""
    is_elastic: bool = False
    """whether only the first workers take tasks: as many of them as the executor has capacity for"""


class Executor(Protocol):
    """Runs the tasks of one node."""

    @property
    def parts(self) -> frozenset[ExecutorFeature]:
        """The optional features that the executor supports."""

    @property
    def capacity(self) -> int | None:
        """How many tasks the executor can run at once; None if unknown.

        This number is the default for the node's number of workers. If it is unknown, the default is one worker for
        each core. With `ExecutorFeature.ELASTIC`, the number changes later.
        """

    @property
    def capabilities(self) -> Mapping[str, int]:
        """The resources of the node that tasks may request, with the amount of each: `{"gpu": 2}`. Read once."""

    def children(self, node: Node) -> Sequence[ChildSpec]:
        """Return the specifications of the executor's actors, with one for each worker, named `worker_child(index)`.

        The agent's actors are among their peers, as `LINK` and `OBJECTS`. If an actor fails, the agent ends.
        """


def worker_child(index: int) -> str:
    """Return the name under which the agent finds the actor of a worker."""
    return f"worker-{index}"


def load_executor(config: ClusterConfig) -> Executor:
    """Return the executor that runs the tasks of a node.

    The engine `NAME` or `NAME://REST` is found by the entry point `NAME` in the group `scaler.engines`, which is called
    with the whole text.

    Raises:
        ConfigError: if no engine has this name (the text lists the installed engines), or the engine cannot be loaded
            or cannot do what the settings ask for.
    """
    engine = config.engine
    name = engine.partition("://")[0]
    if ":" in name:  # a factory of the user: module:factory
        name, engine = FUTURES, f"{FUTURES}://{engine}"
    executor = _found(name)(engine)
    for setting, part in _NEEDS.items():
        if getattr(config, setting) and part not in executor.parts:
            raise ConfigError(f"the engine {name!r} has no {part.value}: leave {setting} out, or take another engine")
    return executor


def _found(name: str) -> Callable[[str], Executor]:
    if name == PROCESSES:  # the default, loaded without a search of all installed packages
        usual: Callable[[str], Executor] = import_module("scaler.executors.processes.executor").LocalProcesses
        return usual
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none (is scaler installed here?)"
        raise ConfigError(f"there is no engine {name!r}; installed are: {known}")
    try:
        make: Callable[[str], Executor] = found[name].load()
    except ImportError as error:
        raise ConfigError(f"the engine {name!r} cannot be loaded: {error}") from error
    return make
