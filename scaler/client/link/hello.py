"""Hello: what a client says first on each connection.

Used by the links. Must never: hold what differs between two connections.
"""

from __future__ import annotations

import getpass
import os
import platform
import socket

import cloudpickle

from scaler.ids import ClientId
from scaler.task_context import TaskContext
from scaler.version import __version__
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.common import PROTOCOL_VERSION


def make_hello(client_id: ClientId, nest: TaskContext) -> ClientHello:
    """Return the hello of a client.

    Args:
        nest: the task that the client is inside of, if it is inside of one of this scheduler.
    """
    versions = (PROTOCOL_VERSION, __version__, platform.python_version(), cloudpickle.__version__)
    return ClientHello(*versions, client_id, nest.agent_token, nest.processor, label=_LABEL)


def _label() -> str:
    """Return who and where this process is, for people who watch."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


_LABEL = _label()
"""found out once: processors, which have this module from their fork server, need not open the files of the system"""
