"""Client pickling: a client is pickled as its settings, and unpickled as a new client of the process that unpickles it.

Called by the client. A scheduler may have one address for users and another for workers. So a client that is an
argument of a task of its own scheduler is pickled without an address. In the task, it uses the address at which the
worker reaches the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from scaler import task_context
from scaler.config import ConfigError
from scaler.pickling.serialization import DefaultSerializer, Serializer, from_frames, to_frames
from scaler.settings import ClientConfig
from scaler.settings.sources import configured_values

SCHEDULER_OF_TASK = ""
"""A placeholder for the address of the scheduler that runs the task."""


class ClientSettings(NamedTuple):
    """The settings of a client, as they are pickled."""

    address: str
    profiling: bool
    timeout_seconds: float
    heartbeat_interval_seconds: float
    serializer: bytes
    """the pickled serializer of the client; empty for the default serializer"""

    def resolved(self) -> ClientSettings:
        """Return the settings with the address that the client has in this process.

        Raises:
            ConfigError: if the settings have no address, this process runs no task, and no address is configured.
        """
        if self.address != SCHEDULER_OF_TASK:
            return self
        address = task_context.current.address or address_from_settings()
        if address is None:
            raise ConfigError("a client that was sent in a task can be unpickled only in a task of the same scheduler")
        return self._replace(address=address)

    def read_serializer(self) -> Serializer:
        """Return the client's serializer. Raise `DeserializeObjectError` if it cannot be unpickled in this process."""
        default = DefaultSerializer()
        if not self.serializer:
            return default
        serializer: Serializer = from_frames(default, [self.serializer])
        return serializer


def address_from_settings() -> str | None:
    """Return the address from the environment or `scaler.toml`; None if neither has an address.

    Raises:
        ConfigError: if the address is invalid.
    """
    return configured_values(ClientConfig, ("address",)).get("address")


def pickled(serializer: Serializer) -> bytes:
    """Return the pickle of a serializer, as in `ClientSettings`; empty for the default serializer."""
    return b"" if type(serializer) is DefaultSerializer else bytes(to_frames(DefaultSerializer(), serializer)[0])


_task: ContextVar[tuple[str, list[Any] | None]] = ContextVar("task", default=("", None))
"""set while values are pickled for tasks: the address of the tasks' scheduler, and a list that collects references"""


@contextmanager
def in_a_task_for(address: str, held: list[Any] | None = None) -> Iterator[None]:
    """Return a context in which values are pickled for tasks of the scheduler at `address`.

    Args:
        held: the list that gets each reference which the call contains as a reference (`as_is`); None: no call is
            pickled.
    """
    token = _task.set((address, held))
    try:
        yield
    finally:
        _task.reset(token)


def held_by_call() -> list[Any] | None:
    """Return the list that collects the references of the call being pickled; None if no call is pickled."""
    return _task.get()[1]


def address_to_take(address: str) -> str:
    """Return the address to pickle for a client of `address`: a placeholder while a task of the same scheduler is
    pickled.
    """
    return SCHEDULER_OF_TASK if _task.get()[0] == address else address
