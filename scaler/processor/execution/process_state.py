"""ProcessState: restores what tasks share of their process: standard streams, descriptors 0, 1 and 2, and logging.

The state is saved after the initializer has run, so what the initializer has changed stays. Of the changes of tasks to
logging, only those that hide lines are undone: removed handlers, raised levels, disabled loggers. Handlers that a task
has added stay, unless they write to the streams of tasks and would log each line twice.

    task ends --> compare sys.stdout and sys.stderr --replaced--> full check: restore streams, descriptors and logging
                     `--same: from time to time---------------------^

The comparison takes nanoseconds, a full check microseconds. So at most a hundred tasks in a row are followed by a full
check, and on average one task every 25 milliseconds. Files that a task has opened stay open. No check raises.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from scaler.process.logs import OURS
from scaler.process.user_code.descriptors import KeptDescriptors
from scaler.processor.execution.streams import TaskTextStream

PAUSE_NS = 25_000_000
"""The average time between two full checks in the long run, in nanoseconds."""
CHECKS_IN_A_ROW = 100
"""The most tasks in a row that are each followed by a full check."""

_NUMBERS = {"stdin": 0, "stdout": 1, "stderr": 2}
_sentinel = logging.getLogger("_scaler")
"""A logger that no configuration names. If it is disabled, a configuration has disabled all existing loggers."""


class ProcessState:
    """The streams, descriptors and loggers of the process at the end of its initializer.

    Args:
        stream_of: returns the stream of tasks for `stdout` or `stderr`.
        descriptors: the descriptors of the process before its initializer.
        output: the handler for the records that tasks log.
    """

    def __init__(self, stream_of: Callable[[str], Any], descriptors: KeptDescriptors, output: logging.Handler) -> None:
        self._stream_of = stream_of
        self._descriptors = descriptors
        descriptors.accept()
        names = (*_NUMBERS, *(f"__{name}__" for name in _NUMBERS))
        self._streams = {name: getattr(sys, name, None) for name in names}
        if output not in logging.root.handlers:
            logging.root.addHandler(output)
        self._logging = _Logging()
        self._next_check_ns = 0

    def restore(self, started_ns: int) -> tuple[Any, Any, int]:
        """Restore the streams, descriptors and loggers that a task, started at `started_ns`, has changed.

        Returns:
            `sys.stdout`, `sys.stderr`, and a time: the first task that starts after this time needs a full check.
        """
        self._descriptors.restore()
        self._restore_streams()
        self._logging.restore()
        if started_ns >= self._next_check_ns:
            self._next_check_ns = max(self._next_check_ns, started_ns - CHECKS_IN_A_ROW * PAUSE_NS) + PAUSE_NS
        return sys.stdout, sys.stderr, self._next_check_ns

    def _restore_streams(self) -> None:
        for name, stream in self._streams.items():
            if _is_closed(stream):
                self._streams[name] = self._stream_of(name) if name in ("stdout", "stderr") else _opened(name)
            setattr(sys, name, self._streams[name])


def _is_closed(stream: Any) -> bool:
    """Return whether a stream of any class is closed or detached."""
    try:
        return bool(stream.closed)
    except AttributeError:  # `None` and some replacements have no such attribute
        return False
    except BaseException:  # noqa: BLE001 - of a detached stream, or foreign code
        return True


def _opened(name: str) -> Any:
    """Return a new stream for a standard descriptor of the process. Closing the stream leaves the descriptor open."""
    number = _NUMBERS[name.strip("_")]
    with contextlib.suppress(OSError):
        return open(number, "w" if number else "r", 1, "utf-8", "backslashreplace", closefd=False)
    return None


class _KeptLogger(NamedTuple):
    logger: logging.Logger
    handlers: Sequence[logging.Handler]
    level: int
    filters: Sequence[Any]
    propagates: bool
    is_disabled: bool

    def restore(self) -> None:
        logger = self.logger
        if self == (logger, logger.handlers, logger.level, logger.filters, logger.propagate, logger.disabled):
            return
        now = list(logger.handlers or ())
        added = (each for each in now if each not in self.handlers and not _is_useless(each))
        logger.handlers = [*self.handlers, *added]
        if logger.level > self.level:
            logger.setLevel(self.level)
        logger.filters = list(self.filters)
        logger.propagate, logger.disabled = self.propagates, self.is_disabled


class _KeptHandler(NamedTuple):
    handler: logging.Handler
    level: int
    filters: Sequence[Any]
    formatter: logging.Formatter | None

    def restore(self) -> None:
        """Restore level, filters and formatter. The formatter may need attributes that a filter adds to records."""
        handler = self.handler
        if self == (handler, handler.level, handler.filters, handler.formatter):
            return
        if handler.level > self.level:
            handler.setLevel(self.level)
        handler.filters, handler.formatter = list(self.filters), self.formatter


class _Logging:
    """The state of `logging` to restore: loggers with handlers, the logger of Scaler, and the disabled loggers."""

    def __init__(self) -> None:
        for logger in _loggers():
            if logger.name.startswith(OURS):
                logger.disabled = False
        _sentinel.disabled = False
        self._disabled = {logger for logger in _loggers() if logger.disabled}
        self._disable = logging.root.manager.disable
        kept = {logging.root, logging.getLogger(OURS[:-1]), *(logger for logger in _loggers() if logger.handlers)}
        self._loggers = [
            _KeptLogger(each, [*each.handlers], each.level, [*each.filters], each.propagate, each.disabled)
            for each in kept
        ]
        handlers = dict.fromkeys(handler for each in self._loggers for handler in each.handlers)
        self._handlers = [_KeptHandler(each, each.level, list(each.filters), each.formatter) for each in handlers]

    def restore(self) -> None:
        if logging.root.manager.disable > self._disable:
            logging.disable(self._disable)
        for logger in self._loggers:
            logger.restore()
        for handler in self._handlers:
            handler.restore()
        if _sentinel.disabled:
            for each in _loggers():
                each.disabled = each.disabled and each in self._disabled


def _is_useless(handler: logging.Handler) -> bool:
    """Return whether a handler writes to the streams of tasks, whose lines are logged anyway, or to a closed file."""
    if not isinstance(handler, logging.StreamHandler):
        return False
    return isinstance(handler.stream, TaskTextStream) or _is_closed(handler.stream)


def _loggers() -> Iterator[logging.Logger]:
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield logger
