"""One call: runs a task in the calling thread, for the engine `inline` and other engines."""

from __future__ import annotations

import os
from functools import partial
from time import perf_counter_ns

from scaler.pickling.serialization import INLINE_BYTES, Frames, frozen, read_arguments, result_to_frames, size_of
from scaler.processor.execution.failure import describe_failure
from scaler.processor.execution.meter import CallMeter, elapsed_us
from scaler.processor.execution.place import encoded_facts
from scaler.processor.execution.values import LoadedValues
from scaler.processor.lifecycle.ending import end_forked
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask


def run_call(task: RunTask, values: LoadedValues) -> RunResult:
    """Run a task whose function and objects are in `values`. Return the result; it may describe an exception."""
    status, payload, failure = TaskStatus.SUCCESS, b"", ""
    frames: Frames = ()
    meter: CallMeter | None = None
    process = os.getpid()
    started_ns, ended_ns = perf_counter_ns(), 0
    try:
        serializer, function, value = values.functions.get(task.function_id) or values.read_function(task.function_id)
        if task.options and RunOptions.decode(task.options).profiling:
            function = meter = CallMeter(function)
        positional, keywords = read_arguments(task.payload, value, partial(values.stored, serializer), task.frames)
        started_ns = perf_counter_ns()
        returned = function(*positional, **keywords)
        ended_ns = perf_counter_ns()
        if os.getpid() != process:
            end_forked(None)
        frames = frozen(result_to_frames(serializer, returned))
        if len(frames) == 1 and size_of(frames) <= INLINE_BYTES:
            payload, frames = bytes(frames[0]), ()
    except BaseException as error:  # noqa: BLE001 - also SystemExit and KeyboardInterrupt end only the task
        ended_ns = ended_ns or perf_counter_ns()
        if os.getpid() != process:
            end_forked(error)
        known = values.functions.get(task.function_id)
        place = encoded_facts(known and known.call)
        described = describe_failure(error)._replace(task_id=task.task_id, place=place)
        status, payload, frames, failure = TaskStatus.FAILED, described.encode(), (), described.short
    duration_us = elapsed_us(started_ns, ended_ns)
    profile = meter.profile if meter is not None else b""
    return RunResult(task.task_id, task.worker, task.attempt, status, payload, duration_us, frames, profile, failure)
