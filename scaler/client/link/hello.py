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


def make_hello(client_id: ClientId, nest: TaskContext, label: str = "") -> ClientHello:
    """Return the hello of a client.

    Args:
        nest: the task that the client is inside of, if it is inside of one of this scheduler.
        label: of one that runs no tasks, before that of this process. Its Python need not be that of the workers.
    """
    versions = (PROTOCOL_VERSION, __version__, platform.python_version(), "" if label else cloudpickle.__version__)
    full_label = f"{label} {_LABEL}" if label else _LABEL
    return ClientHello(*versions, client_id, nest.agent_token, nest.processor, label=full_label)


def _label() -> str:
    """Return who and where this process is, for people who watch."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


_LABEL = _label()
"""found out once: processors, which have this module from their fork server, need not open the files of the system"""
