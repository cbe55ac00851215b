"""What went wrong with a task, in a form that travels. Nothing that an exception object does can make this fail.

Used by the processor only.
"""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from types import TracebackType

import cloudpickle

from scaler.wire.codec import TaskFailure

TEXT_CHARACTERS = 64 * 1024
"""The most of a text or a traceback that travels."""
EXCEPTION_BYTES = 4 * 1024 * 1024
"""A larger exception travels as text only."""

_OWN_FILES = frozenset(
    str(path)
    for path in (
        Path(__file__).with_name("processor.py"),
        Path(__file__).parents[1] / "serialization.py",
    )
)


def describe_failure(error: BaseException) -> TaskFailure:
    """Return type, text, traceback and, if it can be pickled and read again, the exception itself."""
    kind = type(error)
    return TaskFailure(
        _clean(f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__),
        _clean(_text(error)),
        _clean(_traceback(error)),
        _pickled(error),
    )


def _clean(text: str) -> str:
    """Return at most so much text, without what is not Unicode."""
    if len(text) > TEXT_CHARACTERS:
        half = TEXT_CHARACTERS // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return text.encode(errors="backslashreplace").decode()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:  # noqa: BLE001 - user code
        return f"<its text cannot be shown: str() raised {type(second).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, _user_frames(error.__traceback__)))
    except BaseException as second:  # noqa: BLE001 - user code
        frames = "".join(traceback.format_tb(_user_frames(error.__traceback__)))
        return f"{frames}{type(error).__name__}: <its traceback cannot be shown: {type(second).__name__}>\n"


def _user_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame on that is not ours."""
    while frames is not None and frames.tb_frame.f_code.co_filename in _OWN_FILES:
        frames = frames.tb_next
    return frames


def _pickled(error: BaseException) -> bytes:
    """Return the pickled exception; empty if it cannot be pickled or not be read again: that is tried here, because
    an exception with arguments of its own often cannot.
    """
    try:
        data: bytes = cloudpickle.dumps(error, protocol=5)
        if len(data) <= EXCEPTION_BYTES and type(pickle.loads(data)) is type(error):
            return data
    except BaseException:  # noqa: BLE001, S110 - user code; the text tells the rest
        pass
    return b""
