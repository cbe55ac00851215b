"""Client pickling: a client is pickled as its settings, and becomes a client of the process that unpickles it.

Called by the client. Decides which address is pickled, and which address the unpickled client uses. A scheduler may
have one address for users and another for workers. So a client in a task of its own scheduler carries no address, and
uses that of the scheduler that runs the task.
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
    """the pickled serializer; empty for the default one"""

    def resolved(self) -> ClientSettings:
        """Return the settings with the address that they mean in this process.

        Raises:
            ConfigError: if they carry no address and this is not a task.
        """
        if self.address != SCHEDULER_OF_TASK:
            return self
        address = task_context.current.address or address_from_settings()
        if address is None:
            raise ConfigError("a client that was sent in a task can be unpickled only in a task of the same scheduler")
        return self._replace(address=address)

    def read_serializer(self) -> Serializer:
        """Return the serializer.

        Raises:
            DeserializeObjectError: if it cannot be unpickled here.
        """
        default = DefaultSerializer()
        if not self.serializer:
            return default
        serializer: Serializer = from_frames(default, [self.serializer])
        return serializer


def address_from_settings() -> str | None:
    """Return the address from the environment or `scaler.toml`.

    Raises:
        ConfigError: if it is not an address.
    """
    return configured_values(ClientConfig, ("address",)).get("address")


def pickled(serializer: Serializer) -> bytes:
    """Return the serializer pickled, as in `ClientSettings`."""
    return b"" if type(serializer) is DefaultSerializer else bytes(to_frames(DefaultSerializer(), serializer)[0])


_task: ContextVar[tuple[str, list[Any] | None]] = ContextVar("task", default=("", None))
"""the address of the scheduler whose tasks will unpickle the current values, and the references that the call holds"""


@contextmanager
def in_a_task_for(address: str, held: list[Any] | None = None) -> Iterator[None]:
    """Context manager: values pickled inside are for tasks of the scheduler at `address`.

    Args:
        held: collects the references that a call passes as they are; None if no call is pickled.
    """
    token = _task.set((address, held))
    try:
        yield
    finally:
        _task.reset(token)


def held_by_call() -> list[Any] | None:
    """Return the list that collects references passed as they are by the call being pickled; None outside a call."""
    return _task.get()[1]


def address_to_take(address: str) -> str:
    """Return the address to pickle for a client of the scheduler at `address`."""
    return SCHEDULER_OF_TASK if _task.get()[0] == address else address
