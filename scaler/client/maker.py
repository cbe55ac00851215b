"""CallMaker: prepares calls for both clients: their functions, arguments, ids, terms and stored objects.

Called by clients, in any thread of the user; the clients pass the prepared calls to the link. The maker holds no
reference to a client, which would keep the client from being garbage-collected.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scaler import task_context
from scaler.client.calls.arguments import ArgumentPacker, cure_of, freeze_for
from scaler.client.calls.client_pickling import in_a_task_for
from scaler.client.calls.entry import RUN_OPTIONS, GraphCalls, Terms
from scaler.client.calls.functions import ClientFunctions, Function, options_of_call
from scaler.client.calls.options import TaskOptions, for_one
from scaler.client.link.link import ClientLink
from scaler.client.object_reference import ObjectReference
from scaler.errors import NoWorkerError, SerializeObjectError
from scaler.ids import NO_ACCOUNT, IdSource, ObjectId, TaskId
from scaler.pickling.pickled_functions import pickle_main_by_value
from scaler.pickling.serialization import JSON_SERIALIZER, Frames, Serializer, size_of, to_frames
from scaler.pickling.shipped_modules import Shipped
from scaler.texts import shown
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.priority import MOST, with_user_priority
from scaler.wire.messages.seeds import shown_seed

if TYPE_CHECKING:
    from scaler.client.aio.future import AsyncFuture
    from scaler.client.future import ScalerFuture

L = TypeVar("L", bound=ClientLink)
F = TypeVar("F", "ScalerFuture[Any]", "AsyncFuture[Any]")

logger = logging.getLogger("scaler.client")

_FIRST = TaskOptions(priority=MOST)
_SEEDS_MOST = 1024


class CallMaker(Generic[L, F]):
    """Prepares the calls of one client, and stores its objects. `shipped`: modules that travel with functions."""

    new_future: Callable[[TaskId, L, Serializer, object, str], F]
    """a function that creates the future of a task; its fourth argument is the client, which the future keeps alive"""

    def __init__(self, link: L, serializer: Serializer, profiling: bool, shipped: Shipped | None = None) -> None:
        pickle_main_by_value()
        self.link = link
        self.serializer = serializer
        self.profiling = profiling
        self.options = TaskOptions(profiling=profiling)
        self.stored: dict[ObjectId, ObjectInstruction] = {}
        self.new_id = IdSource()
        self._seeded: dict[tuple[ObjectId, tuple[int, ...], bool], bool] = {}
        """(function, seed, whether tasks have numbers of their own) -> whether the warning about a repeat was logged"""
        self._freeze = freeze_for(link.endpoint)
        self.packer = ArgumentPacker(serializer, link.address, self._freeze, link.limit, link)
        self.functions = ClientFunctions(serializer, link.endpoint, self.packer, shipped)

    def terms(self, options: TaskOptions, name: str = "", *, spawns: bool = False) -> Terms:
        """Return the terms of tasks that are submitted now with `options`: priority, name, options of the run, and
        account.

        Args:
            name: overrides the name in the options.
            spawns: whether each task draws numbers of its own from the seed, as in a map or graph.
        """
        run_options = options.spawning_options if spawns else options.run_options
        context = task_context.current
        priority = context.child_priority
        if options.priority is not None:
            priority = with_user_priority(priority, options.priority)
        account, owner_tag = context.account if self.link.is_nested else NO_ACCOUNT
        return priority, name or options.name or "", run_options, account, owner_tag

    def function_of(self, fn: Callable[..., Any], terms: Terms) -> Function:
        """Return the function of a call or map, ready to be sent. Log a warning if the seed was used before."""
        function = self.functions.get(fn)
        if terms[RUN_OPTIONS]:
            self._note_seed(function, RunOptions.decode(terms[RUN_OPTIONS]))
        return function

    def _note_seed(self, function: Function, options: RunOptions) -> None:
        """Log a warning if a call draws the same numbers as an earlier one; once for each function and seed."""
        if not options.seed or options.worker:
            return
        seeded = self._seeded
        seed: tuple[int, ...] = options.seed
        used = (function.instruction.object_id, seed, options.seed_spawns)
        if used not in seeded:
            if len(seeded) >= _SEEDS_MOST:
                seeded.clear()
            seeded[used] = False
        elif not seeded[used]:
            seeded[used] = True
            logger.warning(
                "%s is called again with seed=%s and draws the same numbers again; if you do not want that, give each "
                "call a seed of its own, such as seed=%s",
                function.instruction.name,
                shown_seed(seed),
                shown_seed((*seed, 1)),
            )

    def call(self, owner: object, name: str, args: Sequence[Any], kwargs: dict[str, Any], options: TaskOptions) -> F:
        """Submit a call of a function that the workers have under this name."""
        self.link.check_open()
        function = self.functions.named(name)
        priority, task_name, run_options, account, owner_tag = self.terms(for_one(options))
        terms = priority, task_name, options_of_call(run_options, name), account, owner_tag
        future = self.new_future(TaskId(self.new_id()), self.link, JSON_SERIALIZER, owner, task_name or name)
        self.link.submit(function.entry(future.task_id, future, args, kwargs, terms))
        return future

    def futures_of(
        self, owner: object, graph: Mapping[str, Any], calls: GraphCalls, tasks: Mapping[str, TaskId | None]
    ) -> dict[str, F]:
        """Return key -> future for a graph that is ready to be sent. If a key's value is data, its future has ended."""
        futures: dict[str, F] = {}
        for key, task_id in tasks.items():
            future = futures[key] = self.new_future(
                task_id or TaskId(self.new_id()), self.link, self.serializer, owner, key
            )
            if task_id is None:
                future.settle(graph[key])
            else:
                calls.sinks[task_id], future.keys = future, calls.keys
        return futures

    def pinned(self, options: TaskOptions, function: str, worker: str) -> Terms:
        """Return the terms of a task that only `worker` may run.

        The name of the task ends with the name of the worker. By default the task runs before the client's other tasks.
        """
        priority, name, run_options, account, owner_tag = self.terms(options.over(_FIRST))
        own = RunOptions.decode(run_options)._replace(worker=worker)
        return priority, f"{name or function} on {worker}", own.encode(), account, owner_tag

    def store(
        self, obj: Any, name: str | None, reference_class: type[ObjectReference] = ObjectReference
    ) -> tuple[ObjectReference, ObjectInstruction]:
        """Return a reference to an object as it is now, and the message item that creates the object at the scheduler.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if the object cannot be serialised.
            ObjectTooLargeError: if the object is too large to be sent.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of an object must be a str, not {shown(name)}")
        what = "the object" if name is None else f"the object {name!r}"
        try:
            frames = self.serialised(obj)
        except SerializeObjectError as error:
            raise SerializeObjectError(f"{what}: {error}{cure_of(error)}") from error.__cause__
        self.packer.limit.check(what, frames)
        object_id = ObjectId(self.new_id())
        name = name or f"{type(obj).__name__}-{object_id.hex()[-8:]}"
        instruction = ObjectInstruction(InstructionKind.CREATE, object_id, name, frames)
        self.stored[object_id] = instruction
        return reference_class(name, object_id, size_of(frames), self.stored), instruction

    def store_object(self, reference: ObjectReference, instruction: ObjectInstruction) -> ObjectReference:
        """Store an object at the scheduler until its reference is garbage collected and no task uses it."""
        weakref.finalize(reference, self.release, instruction.object_id).atexit = False
        self.link.store_object(instruction)
        return reference

    def release(self, object_id: ObjectId) -> None:
        """Release a stored object whose reference was garbage collected."""
        self.stored.pop(object_id, None)
        self.link.release(object_id)

    def serialised(self, obj: Any) -> Frames:
        """Return the frames of an object as it is now, serialised for tasks."""
        with in_a_task_for(self.link.address):
            return self._freeze(to_frames(self.serializer, obj))


def results_of(futures: Mapping[str, Any]) -> dict[str, Any]:
    """Return worker -> result of its task, without workers that have left. Raises the error of the first failure."""
    errors = {worker: future.exception() for worker, future in futures.items()}
    return {worker: each.result() for worker, each in futures.items() if not isinstance(errors[worker], NoWorkerError)}
