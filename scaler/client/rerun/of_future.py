"""Failed call of a future: its function, arguments and objects, which the future keeps.

Results of other tasks among the arguments are fetched from the scheduler. Results inside a graph, which are not stored,
are computed again on the workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from scaler import task_context
from scaler.client.calls.entry import Call, FailedWork, GraphCalls, graph_of, needs_of, node_id
from scaler.client.calls.inputs import Input, Keys, ResultArgument
from scaler.client.large_values import ResultFetch
from scaler.client.object_reference import ObjectReference
from scaler.client.outcome import headline_of, read_error
from scaler.client.rerun.failed_call import FailedCall, check_may_repeat
from scaler.errors import ProtocolError, RerunError
from scaler.ids import ObjectId, TaskId, index_of, split_ids
from scaler.pickling.serialization import OBJECT, VALUE, Frames, put_results, read_arguments
from scaler.processor.execution.place import ProcessFacts
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import split_failed_input

if TYPE_CHECKING:
    from scaler.client.link.link import ClientLink


class FailedFuture(Protocol):
    """The attributes of a future that this module reads."""

    name: str
    failed: FailedWork | None
    keys: Keys

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...


@dataclass
class PreparedCall:
    """A failed call whose missing values are being fetched or computed again.

    Attributes:
        call: the failed call.
        objects: id of an object of the call -> its value, for the values that have arrived.
        fetches: id of an object -> a description of its value, and the fetch of the value.
    """

    call: FailedCall
    objects: dict[bytes, Frames]
    fetches: dict[ObjectId, tuple[str, ResultFetch]] = field(default_factory=dict)


def fetched(future: FailedFuture, link: ClientLink, *, again: bool) -> FailedCall:
    """Return the call of a future whose task failed, with all values. Raises like `prepare`.

    If the wait for a value ends with an error, the tasks that compute missing values are cancelled.
    """
    prepared = prepare(future, link, again=again)
    call = prepared.call
    try:
        for object_id, (what, fetch) in prepared.fetches.items():
            with task_context.current.wait(link, fetch.done):
                error = fetch.exception()
            if error is None and fetch.refusal is not None:
                error = read_error(fetch.refusal, what)
            if error is not None:
                raise RerunError(
                    f"{what}, an argument of {call.label}, is no longer available, so submit both tasks again: {error}"
                ) from error
            prepared.objects[object_id] = fetch.result()
    except BaseException:  # raised again: also an interrupt
        for object_id in prepared.fetches:
            link.cancel(TaskId(object_id))
        raise
    return call


def prepare(future: FailedFuture, link: ClientLink, *, again: bool) -> PreparedCall:
    """Return the call of a future whose task failed, and request the values that the call needs.

    Raises:
        RerunError: if the task has not failed, a part of its call is lost, or it must not run again.
    """
    failed = future.failed
    if not future.done():
        raise RerunError(f"task {future.name} is open: rerun() needs a task that has failed; wait for its end first")
    if future.cancelled():
        raise RerunError(f"task {future.name} was cancelled: rerun() needs a task that has failed; submit it again")
    if failed is None:
        error = future.exception()
        if error is None:
            raise RerunError(f"task {future.name} has not failed: call its function to run it here")
        raise RerunError(
            f"rerun() needs the function and arguments of task {future.name}, which are not kept if a task fails "
            f"before it runs, or when it runs again for a lost result ({headline_of(error)}): submit the task again"
        )
    return _prepare(failed, f"task {future.name}", future.keys, link, again=again)


def _prepare(failed: FailedWork, label: str, keys: Keys, link: ClientLink, *, again: bool) -> PreparedCall:
    result, call = failed
    failure, graph = _failure_of(result), graph_of(call)
    place = ProcessFacts.decode(failure.place) if failure is not None else None
    culprit = TaskId(failure.task_id if failure is not None else split_failed_input(result.payload)[0])
    if culprit not in (b"", result.task_id):
        if graph is None or culprit not in graph:
            return _prepare_input(call, label, link, again=again)
        call, label = graph.call(culprit), f"task {_key_of(culprit, keys)}"
    check_may_repeat(label, call[0].options, again=again)
    return _TaskCall(call, label, link).prepared(place)


def _failure_of(result: TaskResult) -> TaskFailure | None:
    """Return the failure of a task whose function raised; None if it did not, or the failure cannot be read."""
    try:
        return TaskFailure.decode(result.payload) if result.status == TaskStatus.FAILED else None
    except ProtocolError:
        return None


def _key_of(task_id: bytes, keys: Keys) -> str:
    try:
        return keys[index_of(task_id)]
    except LookupError:
        return ""


def _prepare_input(call: Call, label: str, link: ClientLink, *, again: bool) -> PreparedCall:
    for future in call[3]:
        if isinstance(future, ResultArgument) and future.failed is not None:
            return _prepare(future.failed, f"task {future.name}", future.keys, link, again=again)
    raise RerunError(
        f"{label} was not called, because another task, whose result it needs, has no value: call rerun() of the "
        "future of that other task"
    )


def _objects_of(call: Call, label: str) -> dict[bytes, Frames]:
    """Return id -> frames of the objects of a call, including those that references stand for. Raises `RerunError` if
    an object is lost.
    """
    task, _, objects, kept = call
    found: dict[bytes, Frames] = {each.object_id: each.frames for each in objects}
    read = _ids_in(task)
    for reference in kept:
        if not isinstance(reference, ObjectReference):
            continue
        if reference.object_id in read and reference.object_id not in found:
            found[reference.object_id] = _frames_of(reference, label)
    return found


def _ids_in(task: Task) -> set[bytes]:
    """Return the ids of the objects among the arguments. A reference that was passed with `as_is()` does not count."""
    found: set[bytes] = set()
    read_arguments(task.payload, lambda *_parts: (), lambda object_id, _is_own: found.add(object_id), task.frames)
    return found


def _frames_of(reference: ObjectReference, label: str) -> Frames:
    stored: Any = reference._stored  # noqa: SLF001 - as `check_stored`
    instruction = stored.get(reference.object_id) if stored is not None else None
    if instruction is not None:
        frames: Frames = instruction.frames
        return frames
    why = "its client has called clear() or disconnect()" if stored is not None else "another client has sent it"
    raise RerunError(
        f"the object {reference.name!r}, an argument of {label}, is not in this program: {why}. Send it again with "
        "send_object, and submit the task with the new reference"
    )


class _TaskCall:
    """The call of a task, with the values of the results that it needs."""

    def __init__(self, call: Call, label: str, link: ClientLink) -> None:
        self._call, self._label, self._link = call, label, link
        self._fetches: dict[ObjectId, tuple[str, ResultFetch]] = {}
        self._values: list[tuple[int, bytes]] = []
        """for each needed result: the kind and the data of the argument that replaces it, for `put_results`"""

    def prepared(self, place: ProcessFacts | None) -> PreparedCall:
        task, function, *_ = self._call
        payload, frames, options = task.payload, task.frames, task.options
        name = "" if task.named_by_key else task.name  # as at the worker
        kept = _objects_of(self._call, self._label)
        if task.inputs:
            graph = graph_of(self._call)
            self._values = self._results() if graph is None else self._computed_again(graph)
            payload, _ = put_results(payload, self._values.__getitem__)
        called = FailedCall(self._label, name, task.task_id, function.frames, payload, frames, options, kept, place)
        return PreparedCall(called, kept, self._fetches)

    def _computed_again(self, graph: GraphCalls) -> list[tuple[int, bytes]]:
        """Submit the calls again whose results a task of a graph needs: only the workers had these results."""
        task_id = self._call[0].task_id
        needs = graph.needs_of(task_id)
        for task in needs.tasks:
            if not task.unwanted:
                fetch: Any = ResultFetch(self._link)
                needs.sinks[task.task_id] = fetch
                what = f"the result of the node {_key_of(task.task_id, graph.keys)!r}"
                self._fetches[ObjectId(task.task_id)] = what, fetch
        self._link.submit_graph(needs)
        dependencies = map(graph.id_of, graph.dependencies(graph.position_of(task_id)))
        return [(OBJECT, node_id(needs.graph_id, index_of(each))) for each in dependencies]

    def _results(self) -> list[tuple[int, bytes]]:
        inputs = {needed.task_id: needed for _, needed in needs_of(self._call[3])}
        return [self._result(inputs[TaskId(task_id)]) for task_id in split_ids(self._call[0].inputs)]

    def _result(self, needed: Input) -> tuple[int, bytes]:
        result = needed.result
        if result is None or result.status:
            raise RerunError(
                f"{_label_of(needed)}, an argument of {self._label}, is no longer available, so submit both tasks again"
            )
        if not result.size:
            return VALUE, result.payload
        object_id = ObjectId(needed.task_id)
        if object_id not in self._fetches:
            fetch = ResultFetch(self._link)
            self._fetches[object_id] = _label_of(needed), fetch
            self._link.fetch(object_id, fetch, True)
        return OBJECT, object_id


def _label_of(needed: Input) -> str:
    return f"the result of task {needed.name}"
