"""Outcome: turns a result from the wire into the user's value or exception.

Called by futures and maps, in a thread of the user, because unpickling runs user code.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from scaler.client.calls.inputs import Keys, KeysWithHints
from scaler.errors import (
    DeserializeObjectError,
    MissingObjects,
    NoWorkerError,
    ProcessorDiedError,
    ProtocolError,
    RemoteTraceback,
    SerializeObjectError,
    TaskFailedError,
    TaskNotFoundError,
    WorkerDiedError,
)
from scaler.ids import PREFIX_BYTES, index_of
from scaler.pickling.culprits import why_unreadable
from scaler.pickling.serialization import DEFAULT_SERIALIZER, Frames, Serializer, from_frames
from scaler.texts import shown, text_of
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import PROFILE, TaskStatus
from scaler.wire.messages.vocabulary import split_failed_input

_ERRORS: dict[int, type[Exception]] = {
    TaskStatus.PROCESSOR_DIED: ProcessorDiedError,
    TaskStatus.WORKER_DIED: WorkerDiedError,
    TaskStatus.NO_WORKER: NoWorkerError,
    TaskStatus.NOT_FOUND: TaskNotFoundError,
    TaskStatus.MISSING_OBJECTS: MissingObjects,
    TaskStatus.INTERNAL_ERROR: TaskFailedError,
    TaskStatus.TIMED_OUT: TimeoutError,
    TaskStatus.OUT_OF_MEMORY: ProcessorDiedError,
}
LINE_LENGTH = 200
"""The maximum number of characters of an error's text when it is shown in one line."""

_FRAME_WITHOUT_SOURCE = re.compile(r'^([ |]*)File "(.+)", line (\d+), in (.+)\n(?!\1  )', re.MULTILINE)
_LONGEST = 500
_COMMAND = "<string>"
"""The file name that tracebacks show for code of `python -c`."""


def read_value(serializer: Serializer, frames: Frames) -> tuple[Any, BaseException | None]:
    """Return (value, None) if the value in `frames` can be read here, else (None, error)."""
    try:
        return from_frames(serializer, frames), None
    except DeserializeObjectError as error:
        return None, error


def unread_result(error: BaseException, name: str) -> BaseException:
    """Return the error of a result that cannot be read here, with the name of the task and a remedy."""
    cause = error.__cause__
    if type(error) is not DeserializeObjectError or cause is None:
        return error
    text = f"task {name}: its result cannot be read here: {why_unreadable(cause)}"
    if isinstance(cause, ModuleNotFoundError):
        text += "; install the module where this program runs, or have the task return plain values"
    better = DeserializeObjectError(text)
    better.__cause__ = cause
    return better


def read_error(result: TaskResult, name: str, keys: Keys = ()) -> BaseException:
    """Return the exception of a result that has no value. `keys`: the keys of the task's graph, if it has one."""
    if result.status == TaskStatus.FAILED:
        return _read_failure(result, name, keys)
    if result.status == TaskStatus.CANCELED:
        return cancelled(name, bool(keys))
    failed, sentence = split_failed_input(result.payload)
    if failed:
        name = _name_of_needed(failed, name, keys)
    text, _, where = sentence.decode("utf-8", "replace").partition("\n")
    error_type = _ERRORS.get(result.status)
    if error_type is None:
        return TaskFailedError(f"task {name} ended with the unknown status {result.status}: {text}")
    error = error_type(f"task {name}: {text or TaskStatus(result.status).name.lower().replace('_', ' ')}")
    if where:
        error.__cause__ = RemoteTraceback(with_sources(where))
    return error


def _name_of_needed(failed: bytes, name: str, keys: Keys) -> str:
    if not keys:  # a task with futures as arguments: its name says which one has failed
        return name
    try:
        first = keys[index_of(failed)]
    except LookupError:
        first = failed.hex()
    return f"{first}, which task {name} needs"


def error_key(task_id: bytes, keys: Keys) -> bytes:
    """Return what identifies a task in the warning about unread errors. All tasks of a graph have the same key."""
    return task_id[:PREFIX_BYTES] if keys else task_id


def headline(result: TaskResult, name: str) -> str:
    """Describe in one line how a task failed. Nothing is unpickled."""
    if result.status == TaskStatus.FAILED:
        raised = _exception_line(result)
        return f"{raised} in {name}" if raised else f"task {name}"
    return headline_of(read_error(result, name))


def failure_text(result: TaskResult | None, error: BaseException | None, name: str) -> str:
    """Return the word `failed` and the error in one line, for the `repr` of a future. Nothing is unpickled.

    Args:
        error: the error that this process has set in place of a result.
    """
    if result is not None and result.status == TaskStatus.FAILED:
        text = _exception_line(result)
    elif result is not None and result.status:
        text = headline_of(read_error(result, name))
    else:
        text = "" if error is None else headline_of(error)
    return f"failed: {text}" if text else "failed"


def _exception_line(result: TaskResult) -> str:
    """Return the exception of a task in one line; empty if the exception cannot be read."""
    try:
        failure = TaskFailure.decode(result.payload)
    except ProtocolError:
        return ""
    return _in_one_line(failure.type_name, failure.text)


def headline_of(error: BaseException) -> str:
    """Return an error in one line."""
    return _in_one_line(type(error).__name__, text_of(error))


def _in_one_line(type_name: str, text: str) -> str:
    line = " ".join(f"{type_name}: {text[:LINE_LENGTH]}".split())
    return f"{line}..." if len(text) > LINE_LENGTH else line


def for_coroutine(stopped: StopIteration, name: str) -> RuntimeError:
    """Return the error of a task that raised `StopIteration`, which no coroutine can raise: it would be its end."""
    error = RuntimeError(f"task {name} raised StopIteration")
    error.__cause__ = stopped
    return error


def missing_result() -> BaseException:
    """Return the error of a large result that the scheduler no longer has."""
    return MissingObjects(
        "the result is no longer stored: `clear` deleted it, or the scheduler deleted it because this client was "
        "silent or disconnected for too long; submit the task again"
    )


def not_sent(error: Exception) -> BaseException:
    """Return the error of a call that cannot be encoded as a message."""
    kind = TypeError if isinstance(error, (TypeError, AttributeError)) else ValueError
    made = kind(f"this call cannot be sent to the scheduler: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


SCHEDULER_ENDED = "its scheduler ended before it was read"
SESSION_ENDED = "the session of its client ended before it was read"


def lost_result(why: str, times: int) -> BaseException:
    """Return the error of a large result that was lost `times` times."""
    return MissingObjects(
        f"the result was lost {times} times, the last time because {why}. The task does not run again: look into the "
        "logs of schedulers and clusters for the reason"
    )


def cancelled(name: str, is_of_graph: bool, why: str = "") -> CancelledError:
    """Return the error of a cancelled task. `why`: the reason; empty if the user called `cancel`."""
    text = f"task {name}: its graph was cancelled" if is_of_graph else f"task {name}: it was cancelled"
    return CancelledError(f"{text}, because {why}" if why else text)


def client_ended() -> CancelledError:
    """Return the error of the tasks that are open when their client ends."""
    return CancelledError("its client has ended: wait for the future first")


def unrepeatable_result(why: str, _times: int) -> BaseException:
    """Return the error of a large result that was lost and whose task must not run again."""
    return MissingObjects(
        f"the result was lost because {why}; the task is not run again because of its option at_most_once"
    )


def _would_end_the_program(exception: SystemExit | KeyboardInterrupt, name: str, traceback: str) -> BaseException:
    what = "raised KeyboardInterrupt"
    if isinstance(exception, SystemExit):
        what = f"called sys.exit({shown(exception.code)})"
    error = TaskFailedError(f"task {name} {what}: return a result or raise an error instead")
    error.__cause__ = RemoteTraceback(f"task {name}:\n{traceback}")
    return error


def _read_failure(result: TaskResult, name: str, keys: Keys) -> BaseException:
    try:
        failure = TaskFailure.decode(result.payload)
    except ProtocolError as error:
        return TaskFailedError(f"task {name} failed, and its failure cannot be read: {error}")
    failure = failure._replace(traceback=with_sources(failure.traceback))
    if failure.task_id not in (b"", result.task_id):
        name = _name_of_needed(failure.task_id, name, keys)
    reason, hint = "it cannot be pickled", _hint_of(failure.task_id or result.task_id, keys)
    if failure.exception:
        try:
            exception = from_frames(DEFAULT_SERIALIZER, [failure.exception])
        except DeserializeObjectError as unreadable:
            reason = str(unreadable)
        else:
            if isinstance(exception, (SystemExit, KeyboardInterrupt)):
                return _would_end_the_program(exception, name, failure.traceback)
            if type(exception) in (DeserializeObjectError, SerializeObjectError):
                exception = type(exception)(f"task {name}: {exception}")
            if isinstance(exception, BaseException):
                _explain(exception, f"task {name}:\n{failure.traceback}", hint)
                return exception
            reason = f"its pickle contains a {type(exception).__name__}"
    return TaskFailedError(
        f"task {name} raised {failure.type_name}: {failure.text}\n"
        f"The exception itself did not arrive ({reason}). Its traceback:\n{failure.traceback}{hint}"
    )


def _hint_of(task_id: bytes, keys: Keys) -> str:
    return keys.hints.get(keys.get(index_of(task_id), ""), "") if isinstance(keys, KeysWithHints) else ""


def _explain(exception: BaseException, text: str, hint: str) -> None:
    """Add the remote traceback and a hint to an exception. In Python 3.10 the hint is appended to the traceback."""
    cause = RemoteTraceback(text)
    # Not by assignment, which an exception may refuse, as frozen data classes do.
    BaseException.__setattr__(exception, "__cause__", cause)
    if hint:
        try:
            BaseException.add_note(exception, hint)  # type: ignore[attr-defined]  # since 3.11
        except (AttributeError, TypeError):  # Python 3.10, or a class that refuses attributes
            cause.text += hint


# Source lines that only this program has.


def with_sources(traceback: str) -> str:
    """Insert into a traceback the source lines that only this program has, such as those of notebooks."""
    return _FRAME_WITHOUT_SOURCE.sub(_with_line, traceback)


def _with_line(frame: re.Match[str]) -> str:
    lead, file, number, function = frame.groups()
    try:
        source = _line_of(file, int(number), function).strip()[:_LONGEST]
    except Exception:  # noqa: BLE001 - linecache may fail for names and files that libraries invent
        source = ""
    return f"{frame[0]}{lead}  {source}\n" if source else frame[0]


def _line_of(file: str, number: int, function: str) -> str:
    if file == _COMMAND:  # `exec` uses the same name, so linecache of Python 3.13 may be wrong
        source = _command()
        if any(code.co_name == function and number in _lines_of(code) for code in _codes_of(source)):
            return source.splitlines()[number - 1]
    elif file in linecache.cache or file.endswith(".py"):
        return linecache.getline(file, number)
    return ""


def _command() -> str:
    """Return the source of `python -c`; Python itself keeps this source from 3.13 on."""
    arguments = sys.orig_argv
    return arguments[arguments.index("-c") + 1] if sys.argv[:1] == ["-c"] and "-c" in arguments else ""


@lru_cache(1)
def _codes_of(source: str) -> tuple[CodeType, ...]:
    return tuple(_within(compile(source, _COMMAND, "exec")))


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)


def _lines_of(code: CodeType) -> set[int | None]:
    return {line for _, _, line in code.co_lines()}


# Measurements.


@dataclass(frozen=True)
class ProfilingInfo:
    """The time and memory of a task's call. Reading the arguments and sending the result are not included."""

    duration_us: int
    cpu_time_us: int
    """the CPU time of all threads of the process during the call, in microseconds, without child processes"""
    peak_memory: int
    """the greatest rise of the resident set above its size before the call, in bytes, exact to a few hundred KiB. On
    Linux the kernel measures the rise; elsewhere the size is sampled every few milliseconds. Memory that Python kept
    from earlier tasks and uses again for small objects does not count.
    """

    @property
    def duration_s(self) -> float:
        """The wall time of the call, in seconds."""
        return self.duration_us / 1e6

    @property
    def cpu_time_s(self) -> float:
        """The CPU time of the call, in seconds."""
        return self.cpu_time_us / 1e6

    @property
    def memory_peak(self) -> int:
        """Alias of `peak_memory`."""
        return self.peak_memory


def read_profile(data: bytes, name: str, has_ended: bool) -> ProfilingInfo:
    """Return the measurements of a task. Raises `ValueError` if the task has not ended, or was not measured."""
    if not has_ended:
        raise ValueError(f"task {name} has not ended, so it has no measurements yet")
    if not data:
        raise ValueError(
            f"task {name} was not measured: turn measuring on with profiling=True in Client() or in options(). "
            "A task that was cancelled or lost its process has no measurements"
        )
    return ProfilingInfo(*PROFILE.unpack(data))
