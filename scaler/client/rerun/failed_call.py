"""FailedCall: the function and the arguments of a task that failed, and how they are called in this process.

The arguments are read as in a worker process (`scaler.processor.execution`). During the call, the random generators and
`current_task` are set as for the task. The former state of the generators is restored after the call.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaler import task_context
from scaler.client.rerun.differences import report_differences
from scaler.errors import RerunError
from scaler.ids import ObjectId
from scaler.pickling.serialization import (
    BYTES_HEAD,
    NAMED,
    Frames,
    Serializer,
    from_frames,
    name_of,
    read_arguments,
    sent_with,
)
from scaler.pickling.shipped_modules import differing_sources, offer
from scaler.processor.execution.place import ProcessFacts
from scaler.processor.execution.random_generators import KeptState, RandomGenerators
from scaler.processor.execution.values import reader_of
from scaler.shared_memory import private_frames
from scaler.task_context import CurrentTask
from scaler.wire.codec.structs import RunOptions

ATTEMPT = 0
"""The attempt number that `current_task()` shows during a rerun: no run on a worker has this number."""


_generators = RandomGenerators()
"""The random generators of this process, shared by all calls: each new object would wait for torch's import."""


_kept: dict[object, KeptState] = {}
"""rerun -> the state of the random generators to restore at its end, in the order in which the reruns started"""
_keeping = threading.Lock()


class ReadCall(NamedTuple):
    """A function and its arguments, unpickled."""

    function: Callable[..., Any]
    positional: Sequence[Any]
    keywords: Mapping[str, Any]
    task: CurrentTask


@dataclass(frozen=True)
class FailedCall:
    """The call of a task that failed.

    Args:
        label: the name of the call in messages, such as `task f`.
        name: the name of the task; empty: the name of its function.
        function: the frames of the function object.
        payload: the block of arguments; results of other tasks are objects or values in it.
        frames: the frames that belong to the block.
        objects: id of an object among the arguments -> its frames.
        place: facts about the process in which the task failed; None if they are unknown.
        notes: further differences, as sentences.
    """

    label: str
    name: str
    task_id: bytes
    function: Frames
    payload: bytes
    frames: Frames
    options: bytes
    objects: Mapping[bytes, Frames]
    place: ProcessFacts | None
    notes: Sequence[str] = field(default=())

    def read(self) -> ReadCall:
        """Return the function and its arguments. Print how this process differs from the one in which the task failed.

        Raises:
            RerunError: if the function is called by name, and is not in this program.
            DeserializeObjectError: if the function or an argument cannot be read here.
        """
        if self.function[0] == NAMED:
            raise RerunError(
                f"{self.label} cannot run here: it calls the function "
                f"{bytes(self.function[1]).decode('utf-8', 'replace')!r} by name, and only the workers have it"
            )
        serializer, function = self._read_function()
        positional, keywords = read_arguments(
            self.payload, reader_of(serializer), lambda *which: self._stored(serializer, *which), self.frames
        )
        seed = RunOptions.decode(self.options).seed_of(self.task_id)
        task = CurrentTask(self.task_id, self.name or name_of(function), ATTEMPT, "", None, *seed)
        return ReadCall(function, positional, keywords, task)

    def _read_function(self) -> tuple[Serializer, Callable[..., Any]]:
        function: Any = None
        serializer, modules, _ = sent_with(self.function)
        try:
            offer(modules)
            function = from_frames(serializer, self.function[1:])
        finally:  # also if it cannot be read: then the differences may be the reason
            others = differing_sources(modules)
            notes = [f"modules: {', '.join(others)} of this program, with other source code"] if others else []
            report_differences(self.label, self.place, function, [*self.notes, *notes])
        return serializer, function

    def _stored(self, serializer: Serializer, object_id: ObjectId, is_own: bool) -> Any:
        """Return the value of an object. As on a worker, its buffers are writable only if the task has its own copy."""
        frames = self.objects[object_id]
        if is_own:
            return from_frames(serializer, private_frames(frames, BYTES_HEAD))
        return from_frames(serializer, [frames[0], *(memoryview(frame).toreadonly() for frame in frames[1:])])


def check_may_repeat(label: str, options: bytes, *, again: bool) -> None:
    """Raise `RerunError` if a task must not run a second time, unless `again` is true."""
    if RunOptions.decode(options).at_most_once and not again:
        raise RerunError(
            f"{label} has the option at_most_once, and may have done its work before it failed: call "
            "rerun(again=True) if it may run a second time"
        )


def run(call: FailedCall) -> Any:
    """Call the function of a failed task in this thread. The traceback has only two frames of this package."""
    __tracebackhide__ = True
    with _generators_put_back():
        function, positional, keywords, task = call.read()
        with task_context.rerunning(task):
            _generators.start_call(RunOptions.decode(call.options).seed_of(call.task_id))
            return function(*positional, **keywords)


@contextlib.contextmanager
def _generators_put_back() -> Iterator[None]:
    """Context manager: restore the state of the random generators, even if reruns of several threads overlap."""
    call = object()
    with _keeping:
        _kept[call] = KeptState()
    try:
        yield
    finally:
        with _keeping:
            calls = [*_kept]
            later, state = calls[calls.index(call) + 1 :], _kept.pop(call)
            if later:  # it started during this call, and restores the state before both
                _kept[later[0]] = state
            else:
                _generators.refresh()  # generators of modules that were imported meanwhile
                state.restore()
