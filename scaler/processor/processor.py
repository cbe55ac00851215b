"""The processor: runs user code, in the main thread of its own process.

It replies to each task with one result, in the order of the tasks. The progress page shows which task it executes.

    uplink --> objects, tasks --> arguments --> call --> result --> uplink

To interrupt a cancelled task, the agent names it in the progress page and sends a signal, whose handler raises
`TaskInterrupt` in the main thread, only while that task runs. An exception of a task never leaves that task's result.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from time import monotonic_ns, perf_counter_ns
from types import FrameType
from typing import Any, NoReturn

from scaler import task_context
from scaler.amounts import GPU, GPUS_VARIABLE, read_amounts, visible_gpus
from scaler.errors import MissingObjects, TaskInterrupt
from scaler.ids import ObjectId
from scaler.pickling import culprits as culprits  # noqa: PLC0414 - before a task can open too many files
from scaler.pickling import pickled_classes
from scaler.pickling.serialization import (
    INLINE_BYTES,
    PICKLED,
    Frames,
    Serializer,
    name_of,
    read_arguments,
    result_to_frames,
    small_plain,
)
from scaler.process.memory import trim_memory
from scaler.process.strays import has_children, has_strays
from scaler.processor.channel import LOST_EXIT_CODE, BlockLostError, Channel, ChannelClosedError
from scaler.processor.execution.failure import describe_failure, describe_stack
from scaler.processor.execution.meter import CallMeter, elapsed_us
from scaler.processor.execution.outputs import OutputSender
from scaler.processor.execution.place import encoded_facts
from scaler.processor.execution.random_generators import RandomGenerators
from scaler.processor.execution.task_context import ProcessorSpec, ProcessorTaskContext
from scaler.processor.execution.values import LoadedValues
from scaler.processor.lifecycle import signals
from scaler.processor.lifecycle.ending import end_forked
from scaler.processor.lifecycle.limits import ProcessLimits, check_memory
from scaler.processor.lifecycle.preparation import finder
from scaler.processor.progress_page import ProgressPage
from scaler.processor.uplink import UnsentRows, Uplink
from scaler.settings import ClusterConfig
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.processor import CollectGarbage, EndProcessor, ProcessorReady
from scaler.wire.messages.rows import frames_of, row_id, unpack
from scaler.wire.messages.seeds import NO_SEED
from scaler.wire.messages.worker import RunResult, RunTask

logger = logging.getLogger(__name__)

NO_FRAMES: Frames = ()
NO_ARGUMENTS: Sequence[Any] = ()
NO_KEYWORDS: Mapping[str, Any] = {}
_IMPORTS = "<frozen importlib._bootstrap>"


Numbers = tuple[int, ...]


def numbers_of(task: RunTask) -> Numbers:
    """Return the numbers of the GPUs of a task."""
    return RunOptions.decode(task.options).devices if task.options else ()


class VisibleDevices:
    """The GPUs that tasks see.

    Libraries read the variable that names these GPUs only once. So after a task with GPUs, a process runs no task with
    other GPUs.
    """

    def __init__(self) -> None:
        self._initial_variable = os.environ.get(GPUS_VARIABLE)
        self._names = visible_gpus(self._initial_variable or "")
        self._last_numbers: Numbers = ()
        """the numbers of the GPUs of the last task that had GPUs"""

    def can_run(self, numbers: Numbers) -> bool:
        """Return whether a task with these GPUs can run in this process."""
        return not numbers or self._last_numbers in ((), numbers)

    def show(self, numbers: Numbers) -> None:
        """Let the next tasks see these GPUs; if `numbers` is empty, the GPUs that this process saw at its start."""
        if numbers:
            self._last_numbers = numbers
            os.environ[GPUS_VARIABLE] = ",".join(map(self._name, numbers))
        elif self._initial_variable is None:
            os.environ.pop(GPUS_VARIABLE, None)
        else:
            os.environ[GPUS_VARIABLE] = self._initial_variable

    def _name(self, number: int) -> str:
        """Return the name of a GPU by its number among the GPUs that the process saw at its start."""
        return self._names[number] if number < len(self._names) else str(number)


class Processor:
    """The main loop of a worker process: receives tasks, runs them one at a time, and sends the results."""

    def __init__(self, channel: Channel, progress: ProgressPage, spec: ProcessorSpec, config: ClusterConfig) -> None:
        self._words = progress.words
        uplink = self._uplink = Uplink(channel)
        puts, per_second = (uplink.put_line, uplink.put_report), config.task_output_lines_per_second
        self.outputs = OutputSender(progress.words, *puts, per_second)
        callbacks = uplink.send, uplink.await_permission, config.hard_processor_suspend
        limit_seconds = config.task_timeout_seconds
        task_context.key_file, task_context.trust_users = config.key_file or "", config.trust_users
        self.waiting = ProcessorTaskContext(
            spec, config.address, progress.words, *callbacks, limit_seconds=limit_seconds
        )
        self._worker, self._is_extra = spec.worker, spec.is_extra
        self._is_over = False
        self._limits = ProcessLimits(config)
        self._devices = VisibleDevices()
        self._run_all = self._run_within_limits if self._limits.has_any else self._run_tasks
        self._take: dict[type, Callable[[Any], None]] = {
            Batch[RunTask]: self._run_with_devices if GPU in read_amounts(config.capabilities) else self._run_all,
            Batch[ObjectResponse]: self._store,
            Batch[ObjectInstruction]: self._forget,
            Batch[CollectGarbage]: self._collect_garbage,
            Batch[EndProcessor]: self._end,
        }
        self._number = 0
        self._withheld = 0
        """the number of received tasks that were withheld, and so not started"""
        self.generators = RandomGenerators()
        self._values = LoadedValues(finder(config.functions), self.generators.preserved)
        self._functions = self._values.functions
        self.waiting.name_of = self._values.name_of
        self.waiting.send_report = self.outputs.report
        self._after_task: Callable[[int], None] = _nothing
        self._is_logging = logger.isEnabledFor(logging.DEBUG)
        self._seeds: RunOptions | None = None
        """the options of the present range if its rows have seeds; else None"""
        self._may_interrupt = False
        self._drops_result = False
        """whether the result of the executed task is dropped: the task was interrupted, or this process was forked"""
        self._interrupted_at = ""
        """the traceback of the last interrupted task"""
        self._is_forked = False
        self._write: Callable[[Serializer, Any], Frames] = result_to_frames
        self._describe: Callable[[BaseException], TaskFailure] = partial(describe_failure, worker=spec.worker)

    def run(self, after_task: Callable[[int], None], connect: Callable[[], object]) -> None:
        """Serve until the agent closes the channel.

        Args:
            after_task: called after each task with the start of the task in nanoseconds. After the last task of a batch
                it is called twice: first with 0; then, when the results have been sent, with the start of the task.
            connect: opens the connection that clients in tasks will probably need.
        """
        self._after_task = after_task
        self._uplink.start()
        with contextlib.suppress(ChannelClosedError):
            self._uplink.send([ProcessorReady(os.getpid())])
            if self._is_extra:
                connect()
            try:
                for batch in self._uplink.receive():
                    self._take[type(batch)](batch)
                    if self._is_over:
                        self._uplink.send_results()
                        return
            except BlockLostError as error:
                self._exit_after_loss(error)

    def _exit_after_loss(self, error: BlockLostError) -> NoReturn:
        """End the process, and blame the task that needs the lost object: otherwise that task would be retried
        forever.
        """
        self._uplink.send_results()
        logger.error("cannot receive an object that a task needs: %s", error)
        self._words[0] = self._number + 1
        os._exit(LOST_EXIT_CODE)

    def _end(self, _end: Batch[EndProcessor]) -> None:
        if self.waiting.is_needed():
            self._uplink.send([ProcessorReady(os.getpid())])
        else:
            self._is_over = True

    # Objects

    def _store(self, responses: Batch[ObjectResponse]) -> None:
        for response in responses:
            self._values.store(response.object_id, response.frames)

    def _forget(self, instructions: Batch[ObjectInstruction]) -> None:
        self._values.forget(instruction.object_id for instruction in instructions)

    def _collect_garbage(self, batch: Batch[CollectGarbage]) -> None:
        gc.collect()
        self._after_task(monotonic_ns())  # a finalizer may have printed
        trim_memory(min(item.trim_above_bytes for item in batch))

    # Tasks

    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        words, after_task, waiting, uplink = self._words, self._after_task, self.waiting, self._uplink
        number, left = self._number, len(tasks)
        for task in tasks:
            left -= 1
            if task.rows:
                number = self._run_rows(task, number, left)
                continue
            number += 1
            if uplink.is_batching:
                uplink.send_results()  # this one may take longer
            words[4] = now_ns = monotonic_ns()
            words[0] = number
            if words[1] < number <= words[2]:
                result = RunResult(task.task_id, task.worker, task.attempt, TaskStatus.CANCELED, b"", 0, ())
                self._withheld += 1
            else:
                waiting.run = task
                result = self._run(task)
                if waiting.children:
                    waiting.forget_children()
                after_task(now_ns if left else 0)
            uplink.put(result, not left)
            if task.options and RunOptions.decode(task.options).at_most_once:
                uplink.send_results()  # while it counts as executed: a done task that was not reported would run again
        words[0] = 0
        self._number = number
        uplink.send_urgent()
        after_task(words[4])  # cleaning up after the last task delays no result

    def _run_rows(self, task: RunTask, number: int, left: int) -> int:
        """Run the rows of a range. They are numbered like tasks, from `number` + 1. Return the number of the last row.

        Args:
            left: how many tasks follow the range.
        """
        words, waiting, after_task, uplink = self._words, self.waiting, self._after_task, self._uplink
        if uplink.is_batching:
            uplink.send_before(task)
        rows = uplink.open_rows(task)
        add, n_rows, first = rows.blocks.append, task.rows, number + 1
        waiting.run = task
        self._seeds = self._seeds_of(task)
        row = started_ns = 0
        for block, frames in zip(unpack(task.payload, n_rows), frames_of(task), strict=True):
            number = first + row
            words[4] = now_ns = monotonic_ns()
            words[0] = number
            if rows.is_over or words[1] < number <= words[2]:
                break
            waiting.row, started_ns = row, now_ns
            result = self._run_row(task, row, block, frames, now_ns)
            if isinstance(result, bytes):
                add(result)
            else:
                self._add_row_result(rows, row, result)
            if waiting.children:
                waiting.forget_children()
            after_task(now_ns)
            row += 1
        if row < n_rows or not uplink.close_rows(left):
            self._end_rows_early(rows, row, started_ns)
        return first + n_rows - 1

    def _end_rows_early(self, rows: UnsentRows, n_started: int, started_ns: int) -> None:
        """Report the last row that ran, which was a task of its own by then, and the rows that have not started.

        Args:
            started_ns: when the last row started.
        """
        uplink, task = self._uplink, rows.task
        if n_started:
            uplink.end_rows()
        else:
            rows.is_over = True
        uplink.close_rows(0)
        duration_us = elapsed_us(started_ns, monotonic_ns())
        for row, payload in enumerate(rows.blocks, rows.n_sent):
            status = rows.statuses.get(row, TaskStatus.SUCCESS)
            failure = "" if status == TaskStatus.SUCCESS else rows.failure
            run = row_id(task.task_id, row), task.worker, task.attempt
            uplink.put(RunResult(*run, status, payload, duration_us, (), b"", failure), is_last=False)
        n_unstarted = task.rows - n_started
        if n_unstarted:
            run = row_id(task.task_id, n_started), task.worker, task.attempt
            uplink.put(RunResult(*run, TaskStatus.CANCELED, b"", 0, (), rows=n_unstarted), is_last=False)
            self._withheld += n_unstarted

    def _seeds_of(self, task: RunTask) -> RunOptions | None:
        """Return the options of a range whose rows have seeds. For another range, refresh the generators and return
        None.
        """
        options = RunOptions.decode(task.options)
        if options.seed:
            return options
        self.generators.start_call(NO_SEED)
        return None

    def _run_row(self, task: RunTask, row: int, block: bytes, carried: Frames, started_ns: int) -> bytes | RunResult:
        """Run a row. Return its value as bytes, or a complete result if the row failed or its value is large."""
        frames, error = NO_FRAMES, None
        try:
            try:
                known = self._functions.get(task.function_id)
                serializer, function, value = known or self._values.read_function(task.function_id)
                self._may_interrupt = True
                if block[:1] == PICKLED:
                    positional = value(block)
                else:
                    n_modules = len(sys.modules)
                    positional, _keywords = read_arguments(block, value, _no_object, carried)
                    if len(sys.modules) != n_modules:
                        self.generators.refresh()
                if self._seeds is not None:  # after the arguments were read, which may run user code
                    self.generators.start_call(self._seeds.seed_of(row_id(task.task_id, row)))
                returned = function(*positional)
                small = None if self._drops_result else small_plain(serializer, returned)
                if small is None:
                    frames = self._write(serializer, returned)
                    if len(frames) == 1 and type(frames[0]) is bytes and len(frames[0]) <= INLINE_BYTES:
                        small = frames[0]
                self._may_interrupt = False
                if small is not None and not self._drops_result:
                    return small
                check_memory(frames, self._worker)
            except BaseException as raised:  # noqa: BLE001 - also SystemExit and KeyboardInterrupt end only the row
                self._may_interrupt = False
                error = self._describe(raised)
        except (TaskInterrupt, KeyboardInterrupt) as raised:  # raised before the first line of the handler above
            self._may_interrupt = False
            error = self._describe(raised)
        return self._row_result(task, row, frames, error, started_ns)

    def _row_result(
        self, task: RunTask, row: int, frames: Frames, error: TaskFailure | None, started_ns: int
    ) -> RunResult:
        row_task = replace(task, task_id=row_id(task.task_id, row), rows=0, payload=b"", frames=())
        duration_us = elapsed_us(started_ns, monotonic_ns())
        if self._drops_result:
            return self._cancelled_result(row_task, duration_us, b"")
        status, payload, failed = TaskStatus.SUCCESS, b"", ""
        if error is not None:
            status, payload, frames, failed = self._failed(error, row_task)
        return RunResult(row_task.task_id, task.worker, task.attempt, status, payload, duration_us, frames, b"", failed)

    def _add_row_result(self, rows: UnsentRows, row: int, result: RunResult) -> None:
        if result.frames or result.status == TaskStatus.CANCELED:
            self._uplink.end_rows()
            self._uplink.put(result, is_last=False)
        else:
            rows.failure = result.failure
            rows.statuses[row] = result.status
            rows.blocks.append(result.payload)

    def _run_within_limits(self, tasks: Batch[RunTask]) -> None:
        """Run tasks, a few at a time. At a limit, end the process; the slot then gets back the tasks that have not run.

        The process stays while clients in it have open tasks, which would be lost.
        """
        done = 0
        while done < len(tasks) and not self._is_over:
            following = done + self._limits.tasks_until_check(self._number - self._withheld)
            with self._limits.of_memory():
                self._run_tasks(Batch[RunTask](tasks[done:following]))
            done = following
            self._is_over = self._limits.are_reached(self._number - self._withheld) and not self.waiting.is_needed()

    def _run_with_devices(self, tasks: Batch[RunTask]) -> None:
        """Run the tasks up to, but not including, the first task whose GPUs this process cannot open. A fresh process
        runs the others.

        The process stays while clients in it have open tasks, which would be lost.
        """
        for numbers, row in groupby(tasks, numbers_of):
            self._is_over = not (self._devices.can_run(numbers) or self.waiting.is_needed())
            if not self._is_over:
                self._devices.show(numbers)
                self._run_all(Batch[RunTask](row))
            if self._is_over:
                return
        self._devices.show(())

    def _run(self, task: RunTask) -> RunResult:
        status, payload, frames, failed, meter = TaskStatus.SUCCESS, b"", NO_FRAMES, "", None
        started_ns, ended_ns = perf_counter_ns(), 0
        try:
            try:
                known = self._functions.get(task.function_id)
                serializer, function, value = known or self._values.read_function(task.function_id)
                if self._is_logging:
                    logger.debug("task %s (%s) starts", task.name or name_of(function), task.task_id.hex())
                self._may_interrupt = True
                n_modules, positional, keywords = len(sys.modules), NO_ARGUMENTS, NO_KEYWORDS
                if task.payload:
                    stored = partial(self._values.stored, serializer)
                    positional, keywords = read_arguments(task.payload, value, stored, task.frames)
                if task.options or self.generators.seed.seed:
                    function, meter = self._with_options(task, function)
                elif len(sys.modules) != n_modules:
                    self.generators.refresh()
                started_ns = perf_counter_ns()
                returned = function(*positional, **keywords)
                ended_ns = perf_counter_ns()
                frames = self._write(serializer, returned)
                self._may_interrupt = False
                if len(frames) == 1 and type(frames[0]) is bytes and len(frames[0]) <= INLINE_BYTES:
                    payload, frames = frames[0], ()
                else:
                    check_memory(frames, self._worker)
            except BaseException as error:  # noqa: BLE001 - also SystemExit and KeyboardInterrupt end only the task
                self._may_interrupt = False
                ended_ns = ended_ns or perf_counter_ns()
                status, payload, frames, failed = self._failed(self._describe(error), task)
        except (TaskInterrupt, KeyboardInterrupt) as error:  # raised before the first line of the handler above
            self._may_interrupt = False
            ended_ns = ended_ns or perf_counter_ns()
            status, payload, frames, failed = self._failed(self._describe(error), task)
        duration_us = elapsed_us(started_ns, ended_ns)
        profile = meter.profile if meter is not None else b""
        if self._drops_result:
            return self._cancelled_result(task, duration_us, profile)
        if self._is_logging:
            logger.debug("task %s: %s after %d us", task.task_id.hex(), status.name.lower(), duration_us)
        return RunResult(task.task_id, task.worker, task.attempt, status, payload, duration_us, frames, profile, failed)

    def _failed(self, failure: TaskFailure, task: RunTask) -> tuple[TaskStatus, bytes, Frames, str]:
        """Return status, payload, frames and text for the result of a task that has raised an exception."""
        known = self._functions.get(task.function_id)
        place = encoded_facts(known and known.call, self._worker)
        return TaskStatus.FAILED, failure._replace(task_id=task.task_id, place=place).encode(), (), failure.short

    def _with_options(self, task: RunTask, function: Callable[..., Any]) -> tuple[Callable[..., Any], CallMeter | None]:
        """Prepare the random generators for a task. Return the function to call, and the meter of a profiled task."""
        options = RunOptions.decode(task.options)
        self.generators.start_call(options.seed_of(task.task_id))
        if not options.profiling:
            return function, None
        meter = CallMeter(function)
        return meter, meter

    def forked(self) -> None:
        """Prepare a process that a task has forked: it sends nothing, and ends when the task's function ends."""
        self._is_forked = self._drops_result = True
        self._write = _end_forked
        self._describe = end_forked
        self._uplink.detach()
        self.outputs.forked()
        signals.forked()

    # Interrupting

    def interrupt(self, _signal: int, frame: FrameType | None) -> None:
        """Raise `TaskInterrupt` in the executed task, if the agent has named this task for an interrupt.

        This raises at most once per task, and only while `_run` or `_run_row` is prepared for an exception. Otherwise
        the agent sends the signal again.
        """
        words = self._words
        number = words[0]
        if self._may_interrupt and words[3] == number and not _is_unsafe_to_interrupt(frame):
            self._may_interrupt = False
            self._drops_result = True
            self._interrupted_at = describe_stack(frame)
            words[3] = 0
            raise TaskInterrupt("the task was cancelled, or ended by a limit")

    def keyboard(self, _signal: int, frame: FrameType | None) -> None:
        """Handle SIGINT: raise `KeyboardInterrupt` in the executed task, but not in code of Scaler."""
        if self._may_interrupt and not _is_unsafe_to_interrupt(frame, spares_imports=False):
            raise KeyboardInterrupt

    def _cancelled_result(self, task: RunTask, duration_us: int, profile: bytes) -> RunResult:
        """Return the result of an interrupted task, whatever its function returned or raised afterwards.

        If the task has left processes running, send the result and exit, which ends these processes.
        """
        if self._is_forked:  # while the result was written
            end_forked(None)
        self._drops_result = False
        self.waiting.cancel_children()
        if self._is_logging:
            logger.debug("task %s: interrupted after %d us", task.task_id.hex(), duration_us)
        where = self._interrupted_at.encode()
        status = TaskStatus.CANCELED
        result = RunResult(task.task_id, task.worker, task.attempt, status, where, duration_us, (), profile)
        if has_children() or has_strays():
            logger.info("an interrupted task has left processes behind: this processor ends with them")
            self._uplink.send([result])
            os._exit(0)
        return result


def _no_object(_object_id: ObjectId, _is_own: bool) -> NoReturn:
    raise MissingObjects("a row of a range cannot use stored objects")  # the scheduler accepts no such rows


def _nothing(_started_ns: int) -> None:
    pass


def _end_forked(_serializer: Serializer, _returned: Any) -> NoReturn:
    end_forked(None)


def _is_unsafe_to_interrupt(frame: FrameType | None, spares_imports: bool = True) -> bool:
    """Return whether an exception in this frame could do lasting harm.

    This holds in code of Scaler that the task has called, unless that code only waits. With `spares_imports` it also
    holds in an import, because some modules cannot be imported twice.
    """
    is_waiting = _is_of_threading(frame, "wait")
    while frame is not None and frame.f_globals is not _OURS:
        name = frame.f_globals.get("__name__")
        if spares_imports and frame.f_code.co_filename == _IMPORTS:
            return True
        if _is_of_threading(frame, "start"):
            is_waiting = False  # it waits for a moment, in the middle of other work
        if type(name) is str and name.startswith("scaler.") and name not in _PURE and not is_waiting:
            return frame.f_code is not CallMeter.__call__.__code__ or _is_unsafe_to_interrupt(
                frame.f_back, spares_imports
            )
        frame = frame.f_back
    return False


def _is_of_threading(frame: FrameType | None, function: str) -> bool:
    return frame is not None and frame.f_globals is threading.__dict__ and frame.f_code.co_name == function


_OURS = globals()
_PURE = frozenset({pickled_classes.__name__, read_arguments.__module__, LoadedValues.__module__})
"""The modules of Scaler in which a task may be interrupted: they pickle and unpickle, and keep no unfinished value."""
