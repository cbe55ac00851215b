"""Finding: finds the folder with the keys for an address, so that users on one machine need not name a folder.

    ~/.scaler/HOST_PORT/{scheduler.key, allowed, client.json, worker.json, monitor.json, admin.json}

Used by schedulers, by their peers, and by the command `scaler_keys`. Also works on several machines with a shared home
folder. A file that other users can read is an error, and is not treated as missing.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from scaler.config import ConfigError, whole_path
from scaler.endpoint import TCP, Endpoint
from scaler.keys.key_file import ADMIN, CLIENT, MONITOR, WORKER, KeyFile
from scaler.keys.private_files import check_private_folder

VARIABLE = "SCALER_KEY_FOLDER"
"""The environment variable that names the parent of all folders of keys, in place of `~/.scaler`."""

SCHEDULER_KEY = "scheduler.key"
FITTING = {CLIENT: (ADMIN, CLIENT), WORKER: (WORKER,), MONITOR: (MONITOR, ADMIN)}
"""Role of a peer -> the roles of the keys that the peer may use, the preferred one first. A client may use the key of
an admin, because a user who can read the folder of a scheduler has all rights at the scheduler. But code in tasks
gets only the key of its cluster.
"""


def home() -> Path:
    """Return the parent of all folders of keys. Raise `ConfigError` if this user has no home folder."""
    configured = os.environ.get(VARIABLE)
    if configured:
        return Path(configured).absolute()
    try:
        return Path.home() / ".scaler"
    except RuntimeError:
        raise ConfigError(f"this user has no home folder: set {VARIABLE} to the folder of the keys") from None


def folder_for(endpoint: Endpoint) -> Path:
    """Return the folder for the keys of the scheduler at an address. The folder may not exist."""
    host = endpoint.host.strip("[]").lower().replace(":", "-")
    if endpoint.is_near or host in ("*", "0.0.0.0", "--"):  # noqa: S104 - not bound here
        host = socket.gethostname().lower() or "localhost"
    return home() / f"{host}_{endpoint.port}"


def reachable(endpoint: Endpoint) -> str:
    """Return the address at which peers can reach a scheduler: the name of this host replaces `*`."""
    is_any = endpoint.host in ("*", "0.0.0.0", "[::]")  # noqa: S104 - not bound here
    return endpoint.address.replace(endpoint.host, socket.gethostname(), 1) if is_any else endpoint.address


def keys_for(endpoint: Endpoint, role: str) -> tuple[KeyFile, ...]:
    """Return the keys with which a peer may connect to an address, the likeliest first; empty if the peer has no key.

    The keys for the given host name come first. Keys for other host names with the same port follow, because a host may
    have several names. A viewer may connect to another port than that of the scheduler, and only the key files name
    both ports.

    Args:
        endpoint: where the scheduler listens. If the endpoint has a `key_file`, only that file is used.
        role: the role of the peer: client, worker or monitor.

    Raises:
        ConfigError: if a key file is damaged, readable by other users, or of another role.
    """
    if endpoint.scheme != TCP:
        return ()
    if endpoint.key_file:
        key = KeyFile.read(whole_path(endpoint.key_file))
        if key.role not in FITTING[role]:
            raise ConfigError(
                f"{key.path} is the key of a {key.role}, which a {role} cannot use: take another key file, or have one "
                "made with scaler_keys allow"
            )
        return (key,)
    if not _has_home():
        return ()
    named = folder_for(endpoint)
    names = _names_in(named.parent)
    may_be_another_port = role == MONITOR and named.name not in names
    ending = "" if may_be_another_port else f"_{endpoint.port}"
    folders = [named, *(named.parent / each for each in names if each.endswith(ending) and each != named.name)]
    found = [(folder, _key_in(folder, role)) for folder in folders]
    return tuple(key for folder, key in found if key is not None and _is_of_port(folder, key, endpoint.port))


def _has_home() -> bool:
    try:
        home()
    except ConfigError:
        return False
    return True


def _names_in(path: Path) -> list[str]:
    """Return the names of the folders of keys, faster than a glob: each forked process with a client calls this."""
    try:
        return sorted(each for each in os.listdir(path) if "_" in each)  # noqa: PTH208 - paths cost ten times as much
    except OSError:
        return []


def _is_of_port(folder: Path, key: KeyFile, port: str) -> bool:
    return folder.name.endswith(f"_{port}") or any(Endpoint.parse(each).port == port for each in key.addresses)


def _key_in(folder: Path, role: str) -> KeyFile | None:
    files = [folder / f"{fitting}.json" for fitting in FITTING[role]]
    file = next((each for each in files if os.path.lexists(each)), None)
    if file is None:
        return None
    check_private_folder(folder)
    return KeyFile.read(file)
