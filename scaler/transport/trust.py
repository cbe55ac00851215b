"""Trust: whether a peer may trust the user who listens at an ipc address. A listener can run code in its peers.

Used on each connection of peers and viewers, before anything is sent or received. Checking the owner of the socket file
is not enough, because the file may be replaced before the connection is made.
"""

from __future__ import annotations

import contextlib
import os
import socket as unix
from pathlib import Path

from scaler.endpoint import Endpoint
from scaler.transport.binding import KNOWS_PEER_USERS, name_of_user, uid_at

_OVERFLOW_UID = 65534
"""The uid that a user namespace shows in place of each uid that it does not map."""


def why_not_trusted(endpoint: Endpoint, socket: unix.socket) -> str:
    """Return why the listening user is not trusted; empty for this user, root, and `trust_users`."""
    if not KNOWS_PEER_USERS:
        return "" if endpoint.file is not None and is_private(endpoint.file.parent) else _why_not_private(endpoint)
    uid, me = uid_at(socket), os.geteuid()
    if uid in (me, 0, *endpoint.trust_users):
        return ""
    if uid is None:
        return f"the system does not report which user listens at {endpoint}: the connection has ended"
    hint = "; in a container that uid may stand for any user of the host" if uid == _OVERFLOW_UID else ""
    return (  # the log cuts long lines
        f"another user, {_shown(uid)}, listens at {endpoint}; nothing was sent there. If you trust that user, add it "
        f"to trust_users (--trust-users {uid}, SCALER_TRUST_USERS={uid}): its answers can run code here, as "
        f"{_shown(me)}{hint}"
    )


def _shown(uid: int) -> str:
    name = name_of_user(uid)
    return f"uid {uid}" if name == f"uid-{uid}" else f"uid {uid} ({name})"


def _why_not_private(endpoint: Endpoint) -> str:
    return (
        f"this system does not report which user listens at {endpoint}, and another user could. Use a folder that only "
        "you and root can write to (chmod go-w), below folders that no other user can replace"
    )


def is_private(folder: Path) -> bool:
    """Return whether only this user and root can make files in a folder, or replace the folder."""
    from scaler.settings.owners import others_can_write  # noqa: PLC0415 - few systems need it

    real = Path(os.path.realpath(folder))
    try:
        found = {each: each.stat() for each in (real, *real.parents)}
    except OSError:
        return False
    return not found[real].st_mode & 0o022 and not any(
        status.st_uid not in (os.geteuid(), 0) or others_can_write(str(each), status) for each, status in found.items()
    )


class ListenerCheck:
    """Checks whether a ZeroMQ socket, which connects to an ipc address only once, may trust the listener.

    As soon as a connection is closed, the system may reuse its descriptor. So the result counts only after all events
    of the monitor have been read: the end of a connection is reported before its descriptor is closed.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.is_passed = False
        """whether the connection is up, and its listener is trusted"""
        self.refusal = ""
        """why the listener is not trusted, for people; empty if the listener is trusted, or not connected yet"""

    def open(self, descriptor: int) -> None:
        """Check a new connection, and shut it down if its listener is not trusted."""
        with contextlib.suppress(OSError), unix.socket(fileno=os.dup(descriptor)) as copy:  # it may have ended
            self.refusal = why_not_trusted(self._endpoint, copy)
            self.is_passed = not self.refusal
            if self.refusal:
                copy.shutdown(unix.SHUT_RDWR)

    def close(self, descriptor: int) -> None:  # noqa: ARG002 - there is only one
        """Record that the connection has ended."""
        self.is_passed = False
