"""Client pickling: how a client gets from one process into another: as its settings, which become a client of that
process.

Asked by the client; says which address to take along, and which one was meant. A scheduler may have one address for its
users and another for its workers, so a client that travels in a task of its own scheduler takes none, and finds the
scheduler that runs the task where it arrives. Must never know more of a client than its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from scaler import task_context
from scaler.config import ConfigError
from scaler.serialization import DefaultSerializer, Serializer, from_frames, to_frames
from scaler.settings import ClientConfig
from scaler.settings.sources import said

HERE = ""
"""The address of the scheduler that runs the task that a client arrives in."""


class ClientSettings(NamedTuple):
    """What a client is made of, and what travels of it."""

    address: str
    profiling: bool
    timeout_seconds: float
    heartbeat_interval_seconds: float
    serializer: bytes
    """pickled; empty for the default one"""

    def arrived(self) -> ClientSettings:
        """Return the settings with the address of the scheduler that they mean where they have arrived.

        Raises:
            ConfigError: if they have left it at home, and this is no task.
        """
        if self.address != HERE:
            return self
        address = task_context.current.address or address_said_outside()
        if address is None:
            raise ConfigError("a client that travelled in a task of its scheduler can be unpickled in such a task only")
        return self._replace(address=address)

    def read_serializer(self) -> Serializer:
        """Return the serializer.

        Raises:
            DeserializeObjectError: if it cannot be read here.
        """
        default = DefaultSerializer()
        if not self.serializer:
            return default
        serializer: Serializer = from_frames(default, [self.serializer])
        return serializer


def address_said_outside() -> str | None:
    """Return the address that the environment or `scaler.toml` has for clients that are not given one.

    Raises:
        ConfigError: if it is none.
    """
    return said(ClientConfig, ("address",)).get("address")


def pickled(serializer: Serializer) -> bytes:
    """Return the serializer as `ClientSettings` have it."""
    return b"" if type(serializer) is DefaultSerializer else bytes(to_frames(DefaultSerializer(), serializer)[0])


_task_address = ContextVar("task_address", default="")
"""of the scheduler in whose tasks it will be read what is pickled now"""


@contextmanager
def in_a_task_for(address: str) -> Iterator[None]:
    """While this is open, what is pickled in this context will be read in tasks of the scheduler at `address`."""
    token = _task_address.set(address)
    try:
        yield
    finally:
        _task_address.reset(token)


def address_to_take(address: str) -> str:
    """Return the address that a client of the scheduler at `address` travels with."""
    return HERE if _task_address.get() == address else address
