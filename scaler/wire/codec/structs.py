"""Structs: Cap'n Proto messages inside a column: the failure of a task and the options of a task.

A missing field has its default, and an unknown field is ignored, so fields can be added without a new protocol version.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from scaler.errors import ProtocolError
from scaler.ids import index_of
from scaler.wire.codec.schemas import SCHEMAS, behind, first_line, read, utf8
from scaler.wire.messages.seeds import NO_SEED, CallSeed

_KEPT = 512
"""The limit on the entries of the caches of encoded and decoded options. Most tasks of a program share options."""


SHORT_BYTES = 200


class TaskFailure(NamedTuple):
    """How a task failed: the payload of a result with the status FAILED."""

    type_name: str
    text: str
    traceback: str
    exception: bytes
    bases: tuple[str, ...] = ()
    """the names of the base classes of the exception's class"""
    task_id: bytes = b""
    """the task that raised the exception: the failed task, or a task whose result it needed; empty: unknown"""
    place: bytes = b""
    """facts about the process that raised the exception, stored after the Cap'n Proto message; empty: unknown"""

    @property
    def short(self) -> str:
        """The type and the message of the exception, shortened, as monitors show them."""
        return f"{self.type_name}: {self.text}".encode()[:SHORT_BYTES].decode(errors="ignore")

    def encode(self) -> bytes:
        return bytes(
            SCHEMAS["common"]
            .TaskFailure.new_message(
                typeName=utf8(self.type_name),
                text=utf8(self.text),
                traceback=utf8(self.traceback),
                exception=self.exception,
                bases=[utf8(name) for name in self.bases],
                taskId=self.task_id,
            )
            .to_bytes()
        ) + bytes(self.place)

    @classmethod
    def decode(cls, payload: bytes) -> TaskFailure:
        try:
            failure = read(SCHEMAS["common"].TaskFailure, payload)
            exception, bases, task_id = bytes(failure.exception), tuple(failure.bases), bytes(failure.taskId)
            texts = failure.typeName, failure.text, failure.traceback
            return cls(*texts, exception, bases, task_id, behind(payload))
        except Exception as error:  # of any type: a peer can send anything
            raise ProtocolError(f"the bytes are not a task failure: {first_line(error)}") from error


class RunOptions(NamedTuple):
    """The `options` of a task: everything except function, arguments, name and priority."""

    profiling: bool = False
    """whether to measure the time and memory of the task, for the profile in its result"""
    at_most_once: bool = False
    """whether the task must never start a second time, even if the task was lost with its worker"""
    retries: int = 0
    """the number of times that the task runs again after an exception in `retry_on` or a time-out"""
    timeout_ms: int = 0
    """the longest run time of the task; 0: the limit of its worker"""
    capabilities: tuple[tuple[str, int], ...] = ()
    """the resources that the worker must have, and the amount of each resource that the task takes"""
    was_submitted: bool = False
    """whether an earlier scheduler may have started the task; such a task continues only if an agent has its run"""
    retry_on: tuple[str, ...] = ()
    """the names of the exception classes after which the task is retried; derived classes count too"""
    retry_delay_ms: int = 0
    """the time before the first retry; doubled for each further retry"""
    no_worker_timeout_ms: int = 0
    """how long the task may wait while no connected worker could run it, before the task fails; 0: no limit"""
    devices: tuple[int, ...] = ()
    """the numbers of the GPUs of the task; set by an agent for its processors"""
    worker: str = ""
    """the name of the only worker that may run the task; empty: any worker"""
    seed: tuple[int, ...] = ()
    """the entropy of the random generators of the task, in 32-bit words; empty: the generators have fresh state"""
    seed_spawns: bool = False
    """whether the spawn key is the number in the last 8 bytes of the task id; otherwise the call has no spawn key"""

    def encode(self) -> bytes:
        """Return the bytes for the column; empty if all options have their defaults."""
        return b"" if self == _DEFAULTS else _write(self)

    def resubmitted(self) -> bytes:
        """Return the encoded options for a task that was submitted before."""
        return self._replace(was_submitted=True).encode()

    @property
    def suit_rows(self) -> bool:
        """Whether rows with these options may form a range: only retries, time limit and seed are no defaults."""
        plain = self._replace(retries=0, timeout_ms=0, retry_on=(), retry_delay_ms=0, seed=(), seed_spawns=False)
        return plain == _DEFAULTS

    def seed_of(self, task_id: bytes) -> CallSeed:
        """Return the seed of the call with this id; `NO_SEED` if the option `seed` is not set."""
        if not self.seed:
            return NO_SEED
        return CallSeed(self.seed, (index_of(task_id),) if self.seed_spawns else ())

    @classmethod
    def decode(cls, data: bytes) -> RunOptions:
        """Return the options in a column.

        Raises:
            ProtocolError: if the bytes are not options.
        """
        return _read(data) if data else _DEFAULTS

    def retry_reason(self, failure: bytes) -> str:
        """Return the exception of a failed task as text if `retry_on` names its class or a base class; otherwise empty.

        Args:
            failure: an encoded `TaskFailure`, from a peer.
        """
        try:
            read_failure = read(SCHEMAS["common"].TaskFailure, failure)
            names = {read_failure.typeName, *read_failure.bases}
            text = f"{read_failure.typeName}: {first_line(read_failure.text)}"
        except Exception:  # noqa: BLE001 - data of a peer that cannot be read names no exception
            return ""
        return text if names.intersection(self.retry_on) else ""


_DEFAULTS = RunOptions()


@lru_cache(_KEPT)
def _write(options: RunOptions) -> bytes:
    message = SCHEMAS["common"].RunOptions.new_message(
        profiling=options.profiling,
        atMostOnce=options.at_most_once,
        retries=options.retries,
        timeoutMs=options.timeout_ms,
        capabilities=[{"name": utf8(name), "amount": amount} for name, amount in options.capabilities],
        wasSubmitted=options.was_submitted,
        retryOn=[utf8(name) for name in options.retry_on],
        retryDelayMs=options.retry_delay_ms,
        noWorkerTimeoutMs=options.no_worker_timeout_ms,
        devices=options.devices,
        worker=utf8(options.worker),
        seed=options.seed,
        seedSpawns=options.seed_spawns,
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
            tuple((each.name, each.amount) for each in options.capabilities),
            options.wasSubmitted,
            tuple(options.retryOn),
            options.retryDelayMs,
            options.noWorkerTimeoutMs,
            tuple(options.devices),
            options.worker,
            tuple(options.seed),
            options.seedSpawns,
        )
    except Exception as error:  # of any type: a peer can send anything
        raise ProtocolError(f"the bytes are not the options of a task: {first_line(error)}") from error
