"""Finding: where the keys for an address are, so that the same user, or a shared home, need not say it.

    ~/.scaler/HOST_PORT/{scheduler.key, allowed, client.json, worker.json, monitor.json, admin.json}

Used by schedulers, by their peers, and by the command `scaler_keys`. Must never: take a file that is not private for
one that is not there.
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
"""names the folder in which the folders of keys are, in place of `~/.scaler`"""

SCHEDULER_KEY = "scheduler.key"
FITTING = {CLIENT: (ADMIN, CLIENT), WORKER: (WORKER,), MONITOR: (MONITOR, ADMIN)}
"""which keys a peer takes, the first one that there is: whoever can read the folder of a scheduler may do all with it,
but code in tasks has no more than the key of its cluster"""


def home() -> Path:
    """Return the folder in which the folders of keys are.

    Raises:
        ConfigError: if this user has no home.
    """
    said = os.environ.get(VARIABLE)
    if said:
        return Path(said).absolute()
    try:
        return Path.home() / ".scaler"
    except RuntimeError:
        raise ConfigError(f"this user has no home: say with {VARIABLE} in which folder keys are") from None


def folder_for(endpoint: Endpoint) -> Path:
    """Return where the keys of a scheduler are that listens at an address, whether they are there or not."""
    host = endpoint.host.strip("[]").lower().replace(":", "-")
    if endpoint.is_near or host in ("*", "0.0.0.0", "--"):  # noqa: S104 - not bound here
        host = socket.gethostname().lower() or "localhost"
    return home() / f"{host}_{endpoint.port}"


def reachable(endpoint: Endpoint) -> str:
    """Return an address as others reach it: no peer connects to `*`."""
    is_any = endpoint.host in ("*", "0.0.0.0", "[::]")  # noqa: S104 - not bound here
    return endpoint.address.replace(endpoint.host, socket.gethostname(), 1) if is_any else endpoint.address


def keys_for(endpoint: Endpoint, role: str) -> tuple[KeyFile, ...]:
    """Return the keys with which a peer may get in at an address, the likeliest first; none: it has none.

    A host may have several names, so the keys of all schedulers with that port come after those of that name. Viewers
    may have a port of their own: only the files know of it.

    Args:
        endpoint: where the scheduler listens; its `key_file` is the only one that counts, if it names one.
        role: what the peer wants to be: client, worker or monitor.

    Raises:
        ConfigError: if a file is there and is no good one, others have access to it, or it is for another role.
    """
    if endpoint.scheme != TCP:
        return ()
    if endpoint.key_file:
        key = KeyFile.read(whole_path(endpoint.key_file))
        if key.role not in FITTING[role]:
            raise ConfigError(
                f"{key.path} is the key of a {key.role}, and a {role} needs another one (scaler_keys allow)"
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
    """Return the names of the folders of keys. Without patterns: each forked process with a client asks."""
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
