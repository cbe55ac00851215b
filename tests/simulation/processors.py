"""Processors: what is behind the slots of a simulated agent: processes that run `programs`, one task after the other.

    Slot <--> ProxyModel <--> ProcessorModel, with the context of its tasks and a client, both real

A processor obeys its progress page, may be interrupted, stopped and killed, and answers in the order of its tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from scaler.executors.executor import Node, worker_child
from scaler.executors.processes.executor import POOL, LocalProcesses
from scaler.executors.processes.messages import (
    AddProcessor,
    CleanProcessor,
    DismissProcessor,
    DropObjects,
    InterruptProcessor,
    KillProcessor,
    ProcessorBlocked,
    ProcessorComing,
    ProcessorDown,
    ProcessorKept,
    ProcessorNotComing,
    ProcessorResumable,
    ProcessorUnblocked,
    ProcessorUp,
    ResumeProcessor,
    SendObject,
    SendTasks,
    SuspendProcessor,
    TasksFinished,
)
from scaler.ids import ObjectId, split_ids
from scaler.kit import Actor, ActorRef, ChildSpec, Peers, handles
from scaler.pickling.serialization import (
    INLINE_BYTES,
    DefaultSerializer,
    from_frames,
    read_arguments,
    size_of,
    to_frames,
)
from scaler.processor.execution.failure import describe_failure
from scaler.processor.execution.task_context import ProcessorSpec, ProcessorTaskContext
from scaler.processor.progress_page import ProgressPage
from scaler.shared_memory import INLINE_FRAMES_BYTES, SharedBlock
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.processor import ResumeRequest, TaskBlocked, TaskUnblocked
from scaler.wire.messages.rows import calls_of, pack
from scaler.wire.messages.worker import RunResult, RunTask
from tests.simulation.programs import NEST, Script, value_of
from tests.simulation.users import Call, User
from tests.simulation.world import Action, Event, Party, ViolationError

if TYPE_CHECKING:
    from tests.simulation.parties import AgentParty

CHANNEL_SECONDS = 0.0001
LIMIT_SECONDS = 3.0
"""So long after its limit a task has ended: it is interrupted then, and its process killed a second later."""
START_SECONDS = 0.05
ROWS_SECONDS = 0.1
"""No result of a row waits longer for those of the next rows; in every second run 41 times as long: rows are, too."""
HELD_SECONDS = 0.006
"""No result of a single task waits longer for those of the next ones, in two of five runs; in half of these 41 times as
long: more dies meanwhile."""
DEFAULT = DefaultSerializer()


def script_of(task: RunTask) -> Script:
    """Return what a task does, without its other arguments."""
    arguments, _ = read_arguments(task.payload, _read, lambda _object_id, _is_own: None, task.frames)
    script: Script = arguments[0]
    return script


def _read(*frames: Any) -> Any:
    return from_frames(DEFAULT, frames)


class PageModel(ProgressPage):
    """A progress page without shared memory."""

    def __init__(self) -> None:
        self.words = [0] * 8  # type: ignore[assignment]

    def close(self) -> None:
        pass


class ModelledProcesses(LocalProcesses):
    """The executor of local processes, with modelled processes."""

    def __init__(self, agent: AgentParty) -> None:
        super().__init__()
        self._agent = agent

    def children(self, node: Node) -> Sequence[ChildSpec]:
        def pool(peers: Peers) -> PoolModel:
            return PoolModel(self._agent, [peers[worker_child(index)] for index in range(len(node.names))])

        return [ChildSpec(POOL, PoolModel, pool) if spec.name == POOL else spec for spec in super().children(node)]


class PoolModel(Actor):
    """Keeps one processor for each slot, and starts those that slots ask for."""

    def __init__(self, agent: AgentParty, slots: list[ActorRef]) -> None:
        self._agent = agent
        self._slots = slots
        self._count = 0

    def on_start(self) -> None:
        self._agent.pool = self
        for index in range(len(self._slots)):
            self.add(index, is_extra=False)

    @handles(AddProcessor)
    def _add(self, add: AddProcessor) -> None:
        self.add(add.slot, is_extra=True)

    def add(self, slot: int, is_extra: bool) -> None:
        self._count += 1
        processor = ProcessorModel(self._agent, self._count, slot, self._slots[slot], is_extra)
        processor.proxy = self.spawn(ProxyModel(processor))
        self._agent.processors.append(processor)
        self._slots[slot].send(ProcessorComing(processor.number, is_extra))


class ProxyModel(Actor):
    """The address of a processor."""

    def __init__(self, processor: ProcessorModel) -> None:
        self._processor = processor

    @handles(SendTasks, SendObject, DropObjects, ResumeProcessor, DismissProcessor)
    def _in_order(self, mail: Any) -> None:
        self._processor.soon(partial(self._processor.take, mail), CHANNEL_SECONDS)

    @handles(InterruptProcessor, SuspendProcessor, KillProcessor)
    def _by_signal(self, mail: Any) -> None:
        processor = self._processor
        processor.world.at(CHANNEL_SECONDS, partial(processor.take_signal, mail))

    @handles(CleanProcessor)
    def _clean(self, clean: CleanProcessor) -> None:
        """There is no garbage."""


class _Range:
    """A range in a processor, and the results of its rows that have not left."""

    def __init__(self, task: RunTask, first: int) -> None:
        self.task, self.first = task, first
        self.results: list[RunResult] = []
        self.is_over = False

    def result(self, running: int) -> RunResult:
        task, results = self.task, self.results
        statuses = bytes(each.status for each in results)
        payload, duration_us = pack([each.payload for each in results]), sum(each.duration_us for each in results)
        run = task.task_id, task.worker, task.attempt, TaskStatus.SUCCESS, payload, duration_us, ()
        return RunResult(*run, rows=len(results), statuses=statuses if any(statuses) else b"", running=running)


class ProcessorModel(Party):
    """One processor."""

    def __init__(self, agent: AgentParty, number: int, index: int, slot: ActorRef, is_extra: bool) -> None:
        super().__init__(agent.world, f"{agent.name}.p{number}", agent.host)
        self.agent = agent
        self.number = number
        self.index = index
        self.is_extra = is_extra
        self.is_up = False
        self.page = PageModel()
        self.proxy: ActorRef
        self._slot = slot
        self._objects: dict[ObjectId, list[Any]] = {}
        self._tasks: list[tuple[RunTask, dict[ObjectId, list[Any]]]] = []
        """each row of a range is one"""
        self._ranges: dict[int, _Range] = {}
        """by the number of each row that has not been answered: its range"""
        self._unsent: list[RunResult] = []
        """results of single tasks that have not left; they are of before these rows"""
        self._send_timer: Event | None = None
        self._rows_seconds = ROWS_SECONDS * (1 + 40 * (agent.world.seed % 2))
        self._held_seconds = HELD_SECONDS * {3: 1, 4: 41}.get(agent.world.seed % 5, 0)
        self._answered = 0
        self._timer: Event | None = None
        self._script: Script | None = None
        self._wait: Any = None
        self._is_asking = False
        self._calls: list[Call] = []
        self._is_over: Callable[[], bool] = bool
        self._then: Action = self._go_on
        self.user: User | None = None
        spec = ProcessorSpec(number, agent.node.agent_token, is_extra, agent.name)
        config = agent.node.config
        self.context = self._context = ProcessorTaskContext(
            spec,
            config.address,
            self.page.words,  # type: ignore[arg-type]
            self._say,
            self._ask,
            config.hard_processor_suspend,
            threading.current_thread(),
        )
        self.soon(self._up, START_SECONDS)

    @property
    def waiting(self) -> int:
        """How many tasks wait in it, behind the one that it runs."""
        return max(0, len(self._tasks) - self._answered - 1)

    # To the agent

    def _tell(self, message: Any) -> None:
        self.agent.tell(self._slot, message)

    def _up(self) -> None:
        self.is_up = True
        self._tell(ProcessorUp(self.number, self.proxy, self.page, self.is_extra))

    def _say(self, items: list[Any]) -> None:
        self._send_results()
        for item in items:
            if type(item) is TaskBlocked:
                seconds = item.timeout_ms / 1000 if item.timeout_ms else inf
                self._tell(ProcessorBlocked(self.number, item.number, bool(item.is_stuck), item.wait, seconds))
            elif type(item) is ResumeRequest:
                self._tell(ProcessorResumable(self.number, item.number))
            elif type(item) is TaskUnblocked:
                self._tell(ProcessorUnblocked(self.number, item.number))

    def wake(self, descriptor: int) -> None:
        if self.user is not None:
            self.user.driver.wake()

    def is_readable(self, descriptor: int) -> bool:
        return self.user is not None and self.user.driver.is_readable(descriptor)

    # From the agent

    def take(self, mail: Any) -> None:
        if type(mail) is SendTasks:
            for task in mail.tasks:
                needs, before = self._needs(task), len(self._tasks)
                self._tasks += [(row, needs) for row in calls_of(task)]
                if task.rows:
                    self._ranges |= dict.fromkeys(range(before + 1, len(self._tasks) + 1), _Range(task, before + 1))
            self._next()
        elif type(mail) is SendObject:
            stored = mail.stored
            self._objects[stored.object_id] = list(stored.frames if stored.block is None else stored.block.map())
        elif type(mail) is DropObjects:
            for object_id in mail.object_ids:
                self._objects.pop(object_id, None)
        elif type(mail) is ResumeProcessor:
            if self._is_asking and mail.task == self.page.words[0]:
                self._is_asking = False
                self._then()
        elif self._context.is_needed():
            self._tell(ProcessorKept(self.number))
        else:
            self.end("ended in good order")

    def _needs(self, task: RunTask) -> dict[ObjectId, list[Any]]:
        needed = [task.function_id, *map(ObjectId, split_ids(task.object_ids))]
        missing = [object_id.hex() for object_id in needed if object_id not in self._objects]
        if missing:
            raise ViolationError(f"{self.name} was handed a task without its objects {missing}")
        return {object_id: self._objects[object_id] for object_id in needed}

    def take_signal(self, mail: Any) -> None:
        if not self.is_alive:
            return
        if type(mail) is KillProcessor:
            self.end(f"was killed: {mail.reason}")
        elif type(mail) is InterruptProcessor:
            self.do(self._interrupted)
        elif mail.is_suspended:
            self.pause()
        elif self.is_paused:
            self.go_on()
            self.do(self._context.continued)

    def _interrupted(self) -> None:
        words, script = self.page.words, self._script
        if not words[0] or words[3] != words[0] or script is None or script.resists:
            return
        words[3] = 0
        self._stop_timer()
        self._leave_wait()
        self._context.cancel_children()
        self._answer(TaskStatus.CANCELED, b"", ())

    # Tasks

    def _next(self) -> None:
        words = self.page.words
        if words[0] or self._answered >= len(self._tasks):
            return
        number = self._answered + 1
        is_withheld, rows = words[1] < number <= words[2], self._ranges.get(number)
        if rows is not None and (is_withheld or rows.is_over):
            self._skip_rows(rows)
            return
        if is_withheld:
            self._answer(TaskStatus.CANCELED, b"", ())
            return
        words[4] = int(self.world.monotonic() * 1e9)
        words[0] = number
        task, objects = self._tasks[number - 1]
        self._context.run = task
        arguments, _ = read_arguments(
            task.payload, _read, lambda object_id, _is_own: from_frames(DEFAULT, objects[object_id]), task.frames
        )
        self._begin(task, arguments[0], arguments[1:])

    def _skip_rows(self, rows: _Range) -> None:
        """Begin no further row of a range: the range ends early, unless none has begun."""
        first = self._answered + 1
        if first > rows.first:
            self._send_results()
        rows.is_over = True
        row, _ = self._tasks[first - 1]
        while self._ranges.get(self._answered + 1) is rows:
            del self._ranges[self._answered + 1]
            skipped, _ = self._tasks[self._answered]
            self.agent.record.end(script_of(skipped).key, skipped.attempt, True)
            self._answered += 1
        what = row.task_id, row.worker, row.attempt, TaskStatus.CANCELED, b"", 0, ()
        self._unsent.append(RunResult(*what, rows=self._answered + 1 - first))
        self._send_results()
        self.soon(self._next, 0.00002)

    def _begin(self, task: RunTask, script: Script, values: list[Any]) -> None:
        self._script, self._values = script, values
        runs = self.agent.record.start(script, task.task_id, task.attempt, self.name, self.agent.name)
        if runs <= script.deaths:
            self._timer = self.soon(partial(self.end, "crashed by its task"), script.seconds)
        elif script.kind == NEST:
            self._timer = self.soon(partial(self._nest, runs), script.seconds / 2)
        else:
            self._timer = self.soon(self._finish, script.seconds)

    def _nest(self, runs: int) -> None:
        if self.user is None or self.user.is_leaving:
            config = self.agent.node.config
            self.user = User(self, self.name, config.address, self.agent.record, beat=config.heartbeat_interval_seconds)
        assert self._script is not None
        user, run = self.user, f"/{self._script.token}.{runs}{self._script.parent_run}"
        self._calls = []
        for child in self._script.children:
            if self._script.is_chain and self._calls:
                self._calls.append(user.submit_after(child, self._calls[-1:], is_lazy=False, parent_run=run))
            else:
                self._calls.append(user.submit(child, parent_run=run))
        self._wait_until(lambda: all(call.future.done() for call in self._calls), self._fetch)

    def _fetch(self) -> None:
        for call in self._calls:
            call.fetch()
        self._wait_until(lambda: all(call.is_here for call in self._calls), self._go_on)

    def _wait_until(self, is_over: Callable[[], bool], then: Action) -> None:
        """What the main thread does in `ScalerFuture.result`."""
        assert self.user is not None
        self._is_over, self._then = is_over, then
        if not is_over():
            self._wait = self._context.wait(self.user.link, is_over)
            self._wait.__enter__()
        else:
            then()

    def after(self) -> None:
        """What ends a wait comes with an event of the client."""
        if self._wait is not None and self._is_over():
            wait, self._wait = self._wait, None
            wait.__exit__()
            if not self._is_asking:
                self._then()

    def _ask(self, _number: int) -> None:
        """In a real processor this waits for the agent's permission."""
        self._is_asking = True

    def _leave_wait(self) -> None:
        self._is_asking = False
        if self._wait is not None:
            wait, self._wait = self._wait, None
            wait.__exit__()
            self._is_asking = False

    def _go_on(self) -> None:
        assert self._script is not None
        self._timer = self.soon(self._finish, self._script.seconds / 2)

    def _finish(self) -> None:
        script = self._script
        assert script is not None
        try:
            for call in self._calls:
                call.check()
                if call.script.key in self.agent.record.excused:
                    self.agent.record.excused.add(script.key)
                    raise ValueError(f"the nested task {call.script.key} was lost")
            self.agent.record.raise_if_due(script)
            value = value_of(script, self._values)
        except ValueError as error:
            self.agent.record.has_raised(script)
            self._context.forget_children()
            self._answer(TaskStatus.FAILED, describe_failure(error).encode(), ())
            return
        self._context.forget_children()
        frames = to_frames(DEFAULT, value)
        if len(frames) == 1 and len(frames[0]) <= INLINE_BYTES:
            self._answer(TaskStatus.SUCCESS, bytes(frames[0]), ())
        else:
            self._answer(TaskStatus.SUCCESS, b"", self._in_a_block([bytes(frame) for frame in frames]))

    def _in_a_block(self, frames: Sequence[bytes]) -> Sequence[Any]:
        """Return large frames as an agent gets them: in shared memory."""
        if size_of(frames) <= INLINE_FRAMES_BYTES:
            return frames
        return SharedBlock.of(frames).map(remember=True)

    def _answer(self, status: TaskStatus, payload: bytes, frames: Sequence[Any]) -> None:
        task, _ = self._tasks[self._answered]
        self.agent.record.end(script_of(task).key, task.attempt, status == TaskStatus.CANCELED)
        words = self.page.words
        seconds = self.world.monotonic() - words[4] / 1e9 if words[0] else 0.0
        self._check_limit(script_of(task), status, seconds)
        self._answered += 1
        words[0] = 0
        self._script, self._calls, self._timer = None, [], None
        if self.user is not None:
            self.user.calls.clear()
            self.user.unread.clear()
        duration_us = min(int(seconds * 1e6), 2**32 - 1)
        result = RunResult(task.task_id, task.worker, task.attempt, status, payload, duration_us, frames, b"")
        self._put(result, RunOptions.decode(task.options))
        self.soon(self._next, 0.00002)

    def _put(self, result: RunResult, options: RunOptions) -> None:
        """Say a result. That of a row waits for the end of its range, and that of a single task perhaps for the next
        ones, but not for long.
        """
        rows = self._ranges.pop(self._answered, None)
        is_alone = result.frames or result.status == TaskStatus.CANCELED
        if rows is not None and not rows.is_over and not is_alone:
            rows.results.append(result)
            may_wait, seconds = len(rows.results) < rows.task.rows, self._rows_seconds
            if not may_wait:
                rows.is_over = True
                self._unsent.append(rows.result(0))
        else:
            if rows is not None and not rows.is_over:
                self._end_range(rows)
            self._unsent.append(result)
            may_wait = self._answered < len(self._tasks) and not (result.frames or self._must_leave(options))
            seconds = self._held_seconds
        if not (may_wait and seconds):
            self._send_results()
        elif self._send_timer is None:
            self._send_timer = self.soon(self._send_results, seconds)

    def _must_leave(self, options: RunOptions) -> bool:
        """Return whether a result leaves before the next task begins: else its task begins again if that one dies."""
        return options.at_most_once

    def _send_results(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        rows = self._ranges.get(self._answered + 1)
        if rows is not None and not rows.is_over and (rows.results or self.page.words[0]):
            self._end_range(rows)
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._tell(TasksFinished(self.number, Batch[RunResult](unsent)))

    def _end_range(self, rows: _Range) -> None:
        """End the range that runs early: its next row goes on alone, and no later one begins."""
        rows.is_over = True
        self._unsent.append(rows.result(len(rows.results) + 1))

    def _check_limit(self, script: Script, status: TaskStatus, seconds: float) -> None:
        was_stopped = max(self.stopped_at, self.agent.stopped_at) > self.world.now - seconds
        if (
            script.limit
            and status != TaskStatus.CANCELED
            and seconds > script.limit + LIMIT_SECONDS
            and not was_stopped
        ):
            raise ViolationError(
                f"task {script.key} ran to its end in {seconds:.1f} s, its limit is {script.limit:g} s"
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Its end

    def end(self, reason: str) -> None:
        """The process ends, and the agent hears of it after all that it has said."""
        if not self.is_alive:
            return
        executing = self.page.words[0]
        self.die()
        rows = self._ranges.get(self._answered + 1)
        has_results = rows is not None and rows.results and not rows.is_over
        if executing or self._script is not None or has_results or self._unsent:
            self.agent.record.lose(self.name)
            self.agent.record.processors.add(self.name)
        self.agent.world.log(f"{self.name} {reason}")
        if self.is_up:
            self.agent.tell(self._slot, ProcessorDown(self.number, executing, reason))
        else:
            self.agent.tell(self._slot, ProcessorNotComing(self.number, self.is_extra, is_tried_again=True))
        if not (self.is_up and self.is_extra):  # what has failed to start is tried again
            self.agent.soon(partial(self.agent.replace_processor, self.index, self.is_extra), CHANNEL_SECONDS)

    def die(self, is_silent: bool = False) -> None:
        if self._script is not None and self.is_alive:
            self.agent.record.hit(self._script.key)
            self.agent.record.die(self._script.key, self.world.monotonic() - self.page.words[4] / 1e9)
        super().die()
        self.agent.processors.remove(self)
        self.agent.network.process_ended(self, is_silent)
