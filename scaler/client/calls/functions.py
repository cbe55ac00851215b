"""Functions as the client sends them: serialised, with the hash of their content as id, and their signatures.

Called by the client for each submit and once per map. `Function.entry` makes a task from a function and arguments. A
function whose pickle cannot change is serialised once. Any other function is serialised each time, because a closure
or a global that it reads may have changed. The client never calls the function.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from scaler import task_context
from scaler.amounts import call_of
from scaler.client.calls.arguments import ArgumentPacker, Pack, is_of_one_process
from scaler.client.calls.client_pickling import in_a_task_for
from scaler.client.calls.entry import NO_TERMS, Entry, Sink, Terms, needs_of
from scaler.client.calls.hints import hints
from scaler.client.calls.imports import RequiredModules
from scaler.client.calls.inputs import ResultArgument
from scaler.client.calls.options import OPTIONS
from scaler.client.calls.stale_modules import StaleModules
from scaler.client.foreign_words import keyword_hint
from scaler.client.object_reference import NestedReferenceError, ObjectReference
from scaler.endpoint import Endpoint
from scaler.errors import ObjectTooLargeError, SerializeObjectError
from scaler.graph.gathering import GatheringCall, separate_arguments
from scaler.ids import TaskId, content_id
from scaler.pickling.loaded_modules import ReloadWatch
from scaler.pickling.pickled_functions import read_from, what_pickle_depends_on
from scaler.pickling.serialization import (
    JSON_SERIALIZER,
    NAMED,
    DefaultSerializer,
    Frames,
    Serializer,
    frozen,
    function_to_frames,
    name_of,
    size_of,
)
from scaler.pickling.shipped_modules import Module, Shipped
from scaler.texts import shown
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.rows import pack as pack_rows

REMEMBERED_FUNCTIONS = 512
ANY_NUMBER = sys.maxsize

NO_KEYWORDS: Mapping[str, Any] = {}
NO_FRAMES: Frames = ()
NO_OBJECTS: Sequence[ObjectInstruction] = ()
"""The objects of an entry whose arguments are all in the block."""

_HANDLES = (ResultArgument, ObjectReference)
"""The classes of arguments that stand for a value at the scheduler."""


class Function:
    """A function, ready to be sent.

    Attributes:
        least: the fewest positional arguments of a call without keyword arguments.
        most: the most positional arguments of a call.
    """

    __slots__ = (
        "_code",
        "_function",
        "_gathering",
        "_modules",
        "_object_id",
        "_pack_values",
        "_packer",
        "_plain_block",
        "_serializer",
        "_state",
        "instruction",
        "least",
        "most",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        state: tuple[Any, ...] | None,
        serializer: Serializer,
        packer: ArgumentPacker,
        modules: bytes = b"",
    ) -> None:
        _refuse_coroutines(function)
        known = None if modules else read_from(function, state)
        if known is None:
            hints.look_at_function(function)
        try:
            frames = known or frozen(function_to_frames(serializer, function, modules))
        except SerializeObjectError as error:
            cure = "; make it inside the function" if is_of_one_process(error) else ""
            raise SerializeObjectError(f"{error}{cure}") from error.__cause__
        self.instruction = ObjectInstruction(
            InstructionKind.CREATE_FUNCTION, content_id(frames), name_of(function), frames
        )
        self._function = function
        self._code = getattr(function, "__code__", None)
        self._state = state
        self._object_id = self.instruction.object_id
        self._packer, self._serializer, self._modules = packer, serializer, modules
        self._gathering: Function | None = None
        self._plain_block, self._pack_values = packer.plain_block, packer.pack_values
        self.least, self.most = _positional_counts(function)

    def entry(
        self,
        task_id: TaskId,
        sink: Sink,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] = NO_KEYWORDS,
        terms: Terms = NO_TERMS,
        pack: Pack | None = None,
    ) -> Entry:
        """Return a task that calls the function with these arguments. Raises as `ArgumentPacker.pack`.

        Args:
            sink: the receiver of the result; if it is a future, its `needs` are set.
            pack: packs arguments that may need a pickler; None: the packer of the client.

        Raises:
            TypeError: if the function does not take these arguments.
        """
        if keywords or not self.least <= len(arguments) <= self.most:
            self.check(arguments, keywords)
        block = self._plain_block(arguments) if not keywords else None
        if block is None:
            return self._packed_entry(task_id, sink, arguments, keywords, terms, pack or self._pack_values)
        priority, name, options, account, owner = terms
        task = Task(task_id, self._object_id, block, b"", priority, name, options, account, NO_FRAMES, 0, owner)
        return task, sink, self.instruction, NO_OBJECTS, ()

    def _packed_entry(
        self,
        task_id: TaskId,
        sink: Sink,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        terms: Terms,
        pack: Pack,
    ) -> Entry:
        try:
            block, frames, object_ids, objects, kept, inputs = pack(arguments, keywords)
        except SerializeObjectError as error:
            is_nested = isinstance(error.__cause__, NestedReferenceError)
            separated = separate_arguments(arguments, keywords, _HANDLES) if is_nested else None
            if separated is None or not separated.is_needed:
                raise SerializeObjectError(self.about(str(error))) from error.__cause__
            pack = partial(pack, labels=separated.labels_sent)
            return self._gather().entry(task_id, sink, separated.sent, NO_KEYWORDS, terms, pack)
        except ObjectTooLargeError as error:
            raise error.renamed(self.about(f"{error.value}:")[:-1]) from None
        priority, name, options, account, owner = terms
        of_all = priority, name, options, account, frames, 0, owner
        task = Task(task_id, self._object_id, block, object_ids, *of_all, inputs=inputs)
        if inputs and isinstance(sink, ResultArgument):
            sink.needs = needs_of(kept)
        return task, sink, self.instruction, objects, kept

    def block(self, arguments: Sequence[Any]) -> bytes | None:
        """Return the block of arguments that need no pickler, as in an entry; None if an argument needs a pickler.

        Raises:
            TypeError: if the function does not take this number of arguments.
        """
        if not self.least <= len(arguments) <= self.most:
            self.check(arguments, NO_KEYWORDS)
        return self._plain_block(arguments)

    def range_entry(self, task_id: TaskId, sink: Sink, blocks: Sequence[bytes], frames: Frames, terms: Terms) -> Entry:
        """Return a task with one row for each block of arguments; for a single block, a task without rows.

        `frames` are the frames of the first row, then those of the second, and so on: the same number for each row.
        """
        priority, name, options, account, owner = terms
        payload, rows = (pack_rows(blocks), len(blocks)) if len(blocks) > 1 else (blocks[0], 0)
        task = Task(task_id, self._object_id, payload, b"", priority, name, options, account, frames, rows, owner)
        return task, sink, self.instruction, NO_OBJECTS, ()

    def _gather(self) -> Function:
        """Return the function that puts results and objects into containers and calls the user's function."""
        if self._gathering is None:
            gathering = GatheringCall(self._function, self.instruction.name)
            with in_a_task_for(self._packer.address):
                self._gathering = Function(gathering, None, self._serializer, self._packer, self._modules)
        return self._gathering

    def about(self, problem: str) -> str:
        """Return an error text with the name of the function in front. In a text such as "argument 2: ...", the name of
        the parameter is added, too.
        """
        return f"{self.instruction.name}: {self._with_name(problem)}"

    def _with_name(self, problem: str) -> str:
        number = problem.removeprefix("argument ").partition(":")[0]
        function = getattr(self, "_function", None)
        if type(function) is GatheringCall:
            function = function.function
        parameters = list(getattr(_signature(function), "parameters", {}).values())
        if not number.isdigit() or not 0 < int(number) <= len(parameters):
            return problem
        parameter = parameters[int(number) - 1]
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return problem
        return problem.replace(":", f" ({parameter.name!r}):", 1)

    def check(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Raise `TypeError` unless the function takes these arguments."""
        if not keywords and self.least <= len(arguments) <= self.most:
            return
        signature = _signature(self._function)
        if signature is None:
            return
        try:
            signature.bind(*arguments, **keywords)
        except TypeError as error:
            hint, unknown = "", [name for name in keywords if not self._may_take(name)]
            if ours := [text for name in unknown if (text := keyword_hint(name, (), OPTIONS, "submit"))]:
                hint = ours[0]
            elif unknown and repr(unknown[0]) not in str(error):
                hint = f"; it takes no argument {unknown[0]!r}"
            raise TypeError(f"{self.instruction.name}: {error}{hint}") from None

    def take_name(self, keywords: dict[str, Any]) -> str:
        """Remove the task's name from the keyword arguments and return it, unless the function itself takes `name`.

        The name is empty if the task has the name of the function.

        Raises:
            TypeError: if the name is not a `str`.
        """
        if self._may_take("name"):
            return ""
        name = keywords.pop("name")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of a task must be a str, not {shown(name)}")
        return "" if name is None or name == self.instruction.name else name

    def _may_take(self, keyword: str) -> bool:
        """Return whether the function takes this keyword argument, or its signature is unknown."""
        signature = _signature(self._function)
        if signature is None:
            return True
        parameter = signature.parameters.get(keyword)
        if parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            return True
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())

    def is_still(self, function: Callable[..., Any]) -> bool:
        """Return whether this object was made from `function`, whose pickle has not changed since then."""
        return (
            self._function is function
            and self._code is getattr(function, "__code__", None)
            and self._state == what_pickle_depends_on(function)
        )


def _refuse_coroutines(function: Callable[..., Any]) -> None:
    """Raise `TypeError` for `async def`: calling it only makes a coroutine or an asynchronous generator."""
    if type(function) is FunctionType:
        is_one = bool(function.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
    else:
        is_one = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if is_one:
        name = name_of(function)
        raise TypeError(
            f"{name} is a coroutine function (async def), and a task has no event loop: submit a function that calls "
            f"asyncio.run({name}(...))"
        )


def _signature(function: Any) -> inspect.Signature | None:
    try:
        # The wrapper of a decorator will be called, so its arguments count, not those of the wrapped function.
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _positional_counts(function: Callable[..., Any]) -> tuple[int, int]:
    """Return the fewest and the most positional arguments of a call.

    If a keyword argument is required, the fewest are more than the most, so that no number fits.
    """
    if type(function) is FunctionType:
        code = function.__code__
        if code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
            return ANY_NUMBER, 0
        most = ANY_NUMBER if code.co_flags & inspect.CO_VARARGS else code.co_argcount
        return code.co_argcount - len(function.__defaults__ or ()), most
    signature = _signature(function)
    if signature is None:
        return 0, ANY_NUMBER
    least = most = 0
    for parameter in signature.parameters.values():
        required = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = ANY_NUMBER
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            least += required
            most += 1
        elif parameter.kind is parameter.KEYWORD_ONLY and required:
            return ANY_NUMBER, 0
    return least, most


class NamedFunction(Function):
    """A function that is called by its name, in any programming language. Its arguments are JSON."""

    __slots__ = ()

    def __init__(self, name: str, packer: ArgumentPacker) -> None:
        frames = (NAMED, name.encode())
        self.instruction = ObjectInstruction(InstructionKind.CREATE_FUNCTION, content_id(frames), name, frames)
        self._object_id = self.instruction.object_id
        self._plain_block, self._pack_values = packer.plain_block, packer.pack_values
        self.least, self.most = ANY_NUMBER, 0

    def check(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        for argument in (*arguments, *keywords.values()):
            if isinstance(argument, (ObjectReference, ResultArgument)):
                raise TypeError(
                    f"{self.instruction.name}: the arguments of a call by name must be JSON values, not {argument!r}: "
                    "pass the value itself"
                )


@lru_cache(REMEMBERED_FUNCTIONS)
def options_of_call(options: bytes, name: str) -> bytes:
    """Return the `RunOptions` of a call by name. They require a worker that serves the name."""
    run_options = RunOptions.decode(options)
    return run_options._replace(capabilities=tuple(sorted((*run_options.capabilities, (call_of(name), 0))))).encode()


class ClientFunctions:
    """Serialises the functions of one client, and remembers them. Safe to use from several threads.

    Args:
        shipped: the modules that travel with the functions.
    """

    def __init__(
        self, serializer: Serializer, endpoint: Endpoint, packer: ArgumentPacker, shipped: Shipped | None = None
    ) -> None:
        self._shipped = shipped or Shipped()
        self._serializer = serializer
        self._packer = packer
        self._address = endpoint.address
        # Another serializer may behave differently from one call to the next.
        self._may_remember = type(serializer) is DefaultSerializer
        self._remembered: dict[int, Function] = {}
        self._named: dict[str, NamedFunction] = {}
        self._packer_of_named = ArgumentPacker(JSON_SERIALIZER, self._address, limit=packer.limit)
        self._stale_modules = StaleModules(self._shipped)
        self._imports = RequiredModules(endpoint)
        self._watch: ReloadWatch | None = None
        if not (endpoint.is_in_process or task_context.current.address):  # tasks reload no modules
            self._watch = ReloadWatch(self._look)

    def named(self, name: object) -> NamedFunction:
        """Return the function that workers serve under this name. Raise `ConfigError` if the name is not valid."""
        known = self._named.get(name) if isinstance(name, str) else None
        if known is None:
            call_of(name)
            if len(self._named) >= REMEMBERED_FUNCTIONS:
                self._named = {}
            known = self._named[str(name)] = NamedFunction(str(name), self._packer_of_named)
        return known

    def ship(self, modules: Iterable[Module]) -> None:
        """Send these modules with all functions prepared from now on. Raise `ConfigError` if a module cannot travel."""
        self._shipped.add(modules)
        self._remembered = {}

    def look(self) -> None:
        """Look for modules that were edited and reloaded. If there are any, serialise functions again. Raises as
        `ship`.
        """
        if self._watch is not None:
            self._watch.look()

    def _look(self) -> None:
        if self._stale_modules.look() | self._shipped.look():
            self._remembered = {}

    def sources(self) -> dict[str, bytes]:
        """Return the sources of the modules that travel with each function, by module name."""
        return self._shipped.sources()

    def workers_are_new(self) -> None:
        """Forget which old versions of modules the workers may have, because all worker processes are new."""
        self._stale_modules.forget()

    def get(self, function: Callable[..., Any]) -> Function:
        """Return `function`, serialised.

        Raises:
            TypeError: if `function` is not callable.
            SerializeObjectError: if `function` cannot be serialised, or needs an edited module that cannot travel.
            ObjectTooLargeError: if `function`, with the values that it holds, is too large to be sent.
        """
        if self._watch is not None:
            self._watch.check_if_due()
        known = self._remembered
        remembered = known.get(id(function))
        if remembered is not None:
            if remembered.is_still(function):
                return remembered
            self.look()
            known = self._remembered
        if not callable(function):
            raise TypeError(
                f"the first argument must be callable, not {shown(function)}: pass the function and its "
                "arguments separately, submit(fn, x) and not submit(fn(x))"
            )
        state = what_pickle_depends_on(function) if self._may_remember else None
        with in_a_task_for(self._address):
            modules = self._shipped.packed()
            made = Function(function, state, self._serializer, self._packer, modules)
        instruction = made.instruction
        if state is None:
            hints.look_at_pickle(function, size_of(instruction.frames) - len(modules), instruction.object_id)
        self._packer.limit.check(f"the function {instruction.name} with the values that it holds", instruction.frames)
        if self._watch is not None:
            own = self._stale_modules.note(function, instruction.frames)
            self._imports.note(instruction.frames, own)
        if state is not None:
            if len(known) >= REMEMBERED_FUNCTIONS:
                known.clear()  # a program with so many functions makes new ones all the time
            known[id(function)] = made  # ineffective if another thread has noticed an edit meanwhile
        return made
