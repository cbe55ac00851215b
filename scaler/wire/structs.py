"""Structs: Cap'n Proto messages inside a column: the failure of a task and the options of a task.

A missing field has its default, and an unknown field is ignored, so fields can be added without a new protocol version.
The scheduler and the agents pass these bytes on unread.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from scaler.errors import ProtocolError
from scaler.wire.schemas import SCHEMAS, first_line, read, utf8

_KEPT = 512
"""The size of the caches of encoded and decoded options: most tasks of a program share a few."""


class TaskFailure(NamedTuple):
    """How a task failed: the payload of a result with the status FAILED."""

    type_name: str
    text: str
    traceback: str
    exception: bytes

    def encode(self) -> bytes:
        return bytes(
            SCHEMAS["common"]
            .TaskFailure.new_message(
                typeName=utf8(self.type_name),
                text=utf8(self.text),
                traceback=utf8(self.traceback),
                exception=self.exception,
            )
            .to_bytes()
        )

    @classmethod
    def decode(cls, payload: bytes) -> TaskFailure:
        try:
            failure = read(SCHEMAS["common"].TaskFailure, payload)
            return cls(failure.typeName, failure.text, failure.traceback, bytes(failure.exception))
        except Exception as error:
            raise ProtocolError(f"not a task failure: {first_line(error)}") from error


class RunOptions(NamedTuple):
    """The `options` of a task: everything except function, arguments, name and priority."""

    profiling: bool = False
    """measure time and memory, for the profile in its result"""
    at_most_once: bool = False
    """never start it a second time, even if it was lost with its worker"""
    retries: int = 0
    """how often to run it again when it has raised"""
    timeout_ms: int = 0
    """end it after this time; 0: the limit of its worker"""
    memory_bytes: int = 0
    """how much memory it will need; 0: not known"""
    capabilities: tuple[tuple[str, int], ...] = ()
    """the resources that its worker must have, and how much of each the task takes"""
    was_said: bool = False
    """with `at_most_once`: another scheduler had it already, and may have started it"""

    def encode(self) -> bytes:
        """Return the bytes for the column: none if all have their defaults."""
        return b"" if self == _DEFAULTS else _write(self)

    @classmethod
    def decode(cls, data: bytes) -> RunOptions:
        """Return the options that a column holds.

        Raises:
            ProtocolError: if the column holds no options.
        """
        return _read(data) if data else _DEFAULTS


_DEFAULTS = RunOptions()


@lru_cache(_KEPT)
def _write(options: RunOptions) -> bytes:
    message = SCHEMAS["common"].RunOptions.new_message(
        profiling=options.profiling,
        atMostOnce=options.at_most_once,
        retries=options.retries,
        timeoutMs=options.timeout_ms,
        memoryBytes=options.memory_bytes,
        capabilities=[{"name": utf8(name), "amount": amount} for name, amount in options.capabilities],
        wasSaid=options.was_said,
    )
    return bytes(message.to_bytes())


@lru_cache(_KEPT)
def _read(data: bytes) -> RunOptions:
    try:
        options = read(SCHEMAS["common"].RunOptions, data)
        return RunOptions(
            options.profiling,
            options.atMostOnce,
            options.retries,
            options.timeoutMs,
            options.memoryBytes,
            tuple((each.name, each.amount) for each in options.capabilities),
            options.wasSaid,
        )
    except Exception as error:
        raise ProtocolError(f"not the options of a task: {first_line(error)}") from error
