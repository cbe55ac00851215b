"""Failure: describes the exception of a task in a form that can be sent. No exception object can make the module fail.

An exception may outlive its task, for example in a module, a cache or a future. Its frames would keep alive the local
variables of all tasks that have raised it. So the frames are released once the exception is described, and the
number of frames that are formatted is bounded.
"""

from __future__ import annotations

import builtins
import inspect
import pickle
import traceback
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from scaler.errors import DeserializeObjectError, SerializeObjectError, class_name
from scaler.pickling import pickled_classes
from scaler.pickling.culprits import why_unreadable
from scaler.pickling.serialization import exception_from_parts, name_of, read_arguments, to_frames
from scaler.pickling.versions import differences
from scaler.processor.execution import terminal
from scaler.processor.execution.values import LoadedValues
from scaler.wire.codec.structs import TaskFailure

T = TypeVar("T")

TEXT_CHARACTERS = 64 * 1024
"""The length to which a message or a traceback is cut before it is sent."""
EXCEPTION_BYTES = 4 * 1024 * 1024
"""The size up to which a pickled exception is sent. Of a larger exception, only the text is sent."""

CHAIN_MOST = 20
"""The most exceptions of a chain that are formatted: the raised exception, and those just before it."""
SHOWN_MOST = 100
"""The most exceptions that are formatted for one failure, including the members of exception groups."""
FRAMES_MOST = 1000
"""The most frames of an exception that are formatted: the innermost ones."""
_GROUP_WIDTH = 15
"""The most members of an exception group that `traceback` formats. It states how many further members there are."""
_CLEAN_MOST = 100
"""The number of successive exceptions with frames that were released before, after which `_release_frames` stops."""

BASES_MOST = 32
"""The most base classes of an exception that are sent."""

_OWN_FILES = {
    str(Path(__file__).parents[1] / "processor.py"),
    *(str(Path(__file__).with_name(f"{name}.py")) for name in ("meter", "values", "one_call")),
    *map(str, Path(pickled_classes.__file__).parent.glob("*.py")),
}


def describe_failure(error: BaseException, worker: str = "") -> TaskFailure:
    """Describe an exception: type, message, traceback and, if it can be unpickled, its pickle. Release its frames.

    Args:
        worker: the name of the worker that called the function; empty if there is no worker.
    """
    raised = error
    if type(error) is DeserializeObjectError and error.__cause__ is not None:
        error = _about_value(error, error.__cause__, worker)
    elif type(error) is SerializeObjectError and _is_of_result(error):
        error = _about_result(error)
    if worker:
        _try(terminal.explain, error, None)
    name = _try(_type_name, error, "an exception whose type has no name")
    described = TaskFailure(
        name,
        _clean(_try(str, error, "<its text cannot be shown>")),
        _clean(_try(_traceback, error, "") or _try(_frames, error, "") + f"{name}: <it cannot be shown>\n")
        + _try(_hint, error, "")
        + (f"(on worker {worker})\n" if worker else ""),
        _try(_pickled, error, b""),
        _try(_bases, error, ()),
    )
    _release_frames(raised)
    return described


def _is_of_result(error: SerializeObjectError) -> bool:
    frames = error.__traceback__
    return frames is not None and frames.tb_next is not None and frames.tb_next.tb_frame.f_code is to_frames.__code__


def _about_result(error: SerializeObjectError) -> SerializeObjectError:
    better = SerializeObjectError(
        f"its result cannot be sent: {error}; return plain values, or data from which it can be made again"
    )
    better.__cause__ = error.__cause__
    return better


def _hint(error: BaseException) -> str:
    """Return a hint if the error probably comes from changing a value that several tasks share; else ""."""
    if type(error) in (ValueError, TypeError) and "read-only" in str(error):
        return (
            "(Values of send_object and of graphs are shared by the tasks of a worker process, so their arrays and "
            "buffers are read-only: change a copy.)\n"
        )
    return ""


def _about_value(error: DeserializeObjectError, cause: BaseException, worker: str) -> DeserializeObjectError:
    """Return the error with a message that says which value cannot be read, why, and what to do."""
    what = _try(_unreadable_part, error, "")
    if not what:
        return error
    who = f"worker {worker!r}" if worker else "this process"
    if isinstance(cause, ModuleNotFoundError):
        text = _about_module(what, str(cause.name), who)
    else:
        text = f"{what} cannot be read by {who}: {why_unreadable(cause)}"
        if isinstance(cause, (AttributeError, ImportError)) and "__reduce__" not in text:
            text += (
                "; the module there may be another version: send yours along with client.upload(module) or "
                "Client(modules=[module]), or install the same version where the cluster runs"
            )
        elif class_name(type(cause)) == "multiprocessing.context.AuthenticationError":
            text += (
                "; it belongs to a multiprocessing.Manager, which accepts only the authkey of the program that "
                "made it. Workers have this key only if this program has started their cluster: elsewhere, set "
                "multiprocessing.current_process().authkey to the same bytes in that program and by an initializer"
            )
    if differing := differences():
        text += f"; the sender of the task has other versions of packages that it uses: {differing}"
    better = DeserializeObjectError(text)
    better.__cause__ = cause
    return better


def _about_module(what: str, missing: str, who: str) -> str:
    top = missing.partition(".")[0]
    return (
        f"{what} needs the module {missing!r}, which {who} does not find: send it along with "
        f"client.upload({top}) or Client(modules=[{top}]), if it is your own; or install it where the cluster runs, "
        "set PYTHONPATH there, or start scaler_cluster in the folder of the module "
        f"(it was started in {_folder()!r})"
    )


def _unreadable_part(error: BaseException) -> str:
    """Find in the frames of the error what could not be read. Return a name for this function or argument, or ""."""
    frames = [frame for frame, _ in islice(traceback.walk_tb(error.__traceback__), 2)]
    code = frames[-1].f_code
    if code is LoadedValues.read_function.__code__:
        return "the function"
    if code is not read_arguments.__code__:
        return ""
    function = inspect.unwrap(frames[0].f_locals["function"])
    return f"{_parameter(function, frames[1].f_locals)} of {name_of(function)}()"


def _parameter(function: Callable[..., object], reads: Mapping[str, Any]) -> str:
    """Return a name for the argument that could not be read. `reads` has the local variables of `read_arguments`."""
    start, size = reads["start"], reads["name_bytes"]
    if size:
        return f"the argument {reads['block'][start - size : start].decode()!r}"
    index = len(reads["positional"])
    try:
        bound = inspect.signature(function).bind_partial(*range(index + 1)).arguments
    except (TypeError, ValueError):  # functions without a signature
        bound = {}
    name = next((f" ({name!r})" for name, value in bound.items() if value == index), "")
    return f"argument {index + 1}{name}"


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "a removed folder"


def describe_stack(frame: FrameType | None) -> str:
    """Return the traceback of the task that executes `frame`, without frames of Scaler."""
    frames = []
    while frame is not None and frame.f_code.co_filename not in _OWN_FILES:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    try:
        return _clean("".join(traceback.StackSummary.extract(reversed(frames)).format()))
    except Exception:  # noqa: BLE001 - whatever its source is
        return ""


def _try(describe: Callable[[BaseException], T], error: BaseException, default: T) -> T:
    """Return `describe(error)`, or `default` if it raises: any access to an exception may run code of its class."""
    try:
        return describe(error)
    except BaseException:  # noqa: BLE001 - see above
        return default


def _clean(text: str) -> str:
    """Return a text without lone surrogates, cut to `TEXT_CHARACTERS`."""
    if len(text) > TEXT_CHARACTERS:
        half = TEXT_CHARACTERS // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return text.encode(errors="backslashreplace").decode()


def _type_name(error: BaseException) -> str:
    return _clean(class_name(type(error)))


def _bases(error: BaseException) -> tuple[str, ...]:
    return tuple(_clean(class_name(base)) for base in type(error).__mro__[1:-1][:BASES_MOST])


def _traceback(error: BaseException) -> str:
    """Format an exception, its chain and the members of groups as `traceback` does, within the limits of this module.

    Each exception is formatted separately, because `TracebackException` has no limit for a chain.
    """
    whole = _own_summary(error)
    shown, seen, is_cut = [(error, whole, 1)], {id(error)}, False
    for each, summary, length in shown:  # grows during the iteration
        link, earlier = _earlier(each)
        if earlier is not None and id(earlier) not in seen:
            is_cut |= length == CHAIN_MOST
            if length < CHAIN_MOST:
                seen.add(id(earlier))
                shown.append((earlier, _own_summary(earlier), length + 1))
                setattr(summary, link, shown[-1][1])
        members = _members(each)
        first = members[:_GROUP_WIDTH]
        if members and len(shown) + len(first) <= SHOWN_MOST:
            summaries = [(member, _own_summary(member), 1) for member in first]
            shown += summaries
            summary.exceptions = [one for _, one, _ in summaries] + [None] * (len(members) - len(first))
    note = f"(Earlier exceptions are left out: the last {CHAIN_MOST} are shown.)\n\n" if is_cut else ""
    return note + "".join(whole.format())


def _own_summary(error: BaseException) -> Any:
    frames = _last(_user_frames(error))
    summary: Any = traceback.TracebackException(type(error), error, frames, _seen=set())
    summary.__cause__ = summary.__context__ = summary.exceptions = None
    return summary


def _earlier(error: BaseException) -> tuple[str, BaseException | None]:
    """Return the name of the attribute that leads to the previous exception of the chain, and that exception."""
    if error.__cause__ is not None:
        return "__cause__", error.__cause__
    return "__context__", None if error.__suppress_context__ else error.__context__


def _members(error: BaseException) -> tuple[BaseException, ...]:
    members: tuple[BaseException, ...] = ()
    if issubclass(type(error), _GROUPS):
        members = _GROUPS.exceptions.__get__(error)
    return members


def _frames(error: BaseException) -> str:
    return "".join(traceback.format_tb(_last(_user_frames(error))))


def _last(frames: TracebackType | None) -> TracebackType | None:
    """Return the last `FRAMES_MOST` frames of a traceback."""
    ahead = frames
    for _ in range(FRAMES_MOST):
        if ahead is None:
            return frames
        ahead = ahead.tb_next
    while ahead is not None and frames is not None:
        ahead, frames = ahead.tb_next, frames.tb_next
    return frames


def _release_frames(error: BaseException) -> None:
    """Drop the tracebacks of an exception, of its chain and of the members of groups. Call no overridden attributes."""
    todo, seen = [(error, 0)], {id(error)}
    while todo:
        each, clean = todo.pop()
        clean = 0 if _TRACEBACK.__get__(each) is not None else clean + 1
        _TRACEBACK.__set__(each, None)
        if clean < _CLEAN_MOST:
            linked = (_CAUSE.__get__(each), _CONTEXT.__get__(each), *_members(each))
            new = {id(other): (other, clean) for other in linked if other is not None and id(other) not in seen}
            seen.update(new)
            todo += new.values()


_TRACEBACK, _CAUSE, _CONTEXT = (vars(BaseException)[f"__{name}__"] for name in ("traceback", "cause", "context"))


def _pickled(error: BaseException) -> bytes:
    """Return the pickle of an exception, or else of its `_Parts`. Return b"" if it is too large or cannot be
    unpickled.
    """
    data: bytes = pickled_classes.dumps(error, protocol=5)
    if len(data) <= EXCEPTION_BYTES and not _can_be_read(data, type(error)):
        data = pickled_classes.dumps(_Parts(error), protocol=5)
        if not _can_be_read(data, type(error)):
            return b""
    return data if len(data) <= EXCEPTION_BYTES else b""


def _can_be_read(data: bytes, kind: type[BaseException]) -> bool:
    try:
        return type(pickle.loads(data)) is kind
    except BaseException:  # noqa: BLE001 - it runs the class's code
        return False


_GROUPS: Any = getattr(builtins, "BaseExceptionGroup", ())
"""the class of exception groups, since Python 3.11"""


class _Parts:
    """Stands for an exception in a pickle. Unpickling makes the exception without a call of its constructor."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[object, ...]]:
        error = self._error
        arguments = error.args
        if isinstance(error, _GROUPS):
            arguments = (error.message, list(map(_member, error.exceptions)))
        return exception_from_parts, (type(error), arguments, error.__dict__)


def _member(error: BaseException) -> BaseException | _Parts:
    """Return what is pickled for a member of an exception group: the member, or its `_Parts`."""
    data = pickled_classes.dumps(error, protocol=5)
    return error if _can_be_read(data, type(error)) else _Parts(error)


def _user_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback from the first frame that is not code of Scaler."""
    frames: TracebackType | None = _TRACEBACK.__get__(error)
    while frames is not None and frames.tb_frame.f_code.co_filename in _OWN_FILES:
        frames = frames.tb_next
    return frames
