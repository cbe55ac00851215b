"""Lifetime: starts and ends a client's link, and the client's local cluster if there is one.

Called by the client. Shared links end with the program. A forked process ends nothing that belongs to its parent.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeAlias

from scaler import starters, task_context
from scaler.client.link.end_warnings import ends_by_exception
from scaler.client.link.link import ClientLink
from scaler.client.link.protocol import NAME_CHARACTERS
from scaler.config import ConfigError, check_address, whole_path
from scaler.endpoint import Endpoint
from scaler.errors import DisconnectedError
from scaler.ids import ClientId, random_id
from scaler.keys.key_file import KeyFile
from scaler.pickling.serialization import Serializer
from scaler.process.user_code.patches import check_unpatched
from scaler.settings import ClientConfig, ClusterConfig
from scaler.settings.sources import configured_values
from scaler.starters import LocalCluster, LocalSettings
from scaler.texts import shown
from scaler.wire.codec.schemas import check_working_directory

Seconds: TypeAlias = tuple[float, float]
"""The time-out of a client and the time between two heartbeats, in seconds."""

EXIT_SECONDS = 2.0
"""The longest time that the end of the program waits for a client that was not disconnected."""

THREAD_CLUSTER_SETTINGS = frozenset({"n_workers", "capabilities", "functions", "keep"})
"""The settings that a local cluster accepts if it runs in threads."""

_PATHS = {"keep": "folder for jobs", "key_file": "file that scaler_keys has created"}

_lock = threading.RLock()
"""the lock of the shared links; reentrant, because a garbage collection may end a link at any point"""
_ended: set[str] = set()
"""the addresses of ended local clusters of this program; clients in tasks that still run must not connect to them"""
_shared_links: dict[tuple[str, Seconds, int], tuple[ClientLink, weakref.finalize[..., Any]]] = {}
"""the links of unpickled clients, with their finalizers; clients that differ only in the serializer share a link"""


def check_client(
    address: object,
    serializer: object,
    n_workers: int | None,
    options: LocalSettings,
    dashboard: object,
    processes: object = True,
) -> LocalSettings:
    """Check the arguments of a client. Return the settings of its local cluster.

    Raises:
        ConfigError: if a value is wrong, two arguments contradict each other, or no client can run here.
    """
    check_unpatched()
    if type(address) is int:
        raise ConfigError(
            f"the first argument is the address of a scheduler, not {address!r}; for a cluster on this machine with "
            f"that many workers, write n_workers={address!r}"
        )
    if not isinstance(serializer, Serializer):
        raise ConfigError(f"serializer must be an instance of scaler.Serializer, not {shown(serializer)}")
    for name, value in ("processes", processes), ("dashboard", dashboard):
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be True or False, not {shown(value)}")
    if not processes and address is not None:
        raise ConfigError(f"processes=False starts a scheduler in this process: remove the address {address!r}")
    if dashboard and not processes:
        raise ConfigError("dashboard=True needs a scheduler in a process of its own: leave processes=False out")
    local = options if n_workers is None else {"n_workers": n_workers, **options}
    _check_local(address, local, processes)
    if local and processes:  # ignored in a task; in an initializer the next call would fail
        task_context.current.check_prepared()
    return local


def with_keep(options: LocalSettings, keep: str | os.PathLike[str] | None) -> LocalSettings:
    """Add the folder of the jobs to a local cluster's settings. Raises `ConfigError` if `keep` is not a path."""
    if keep is None:
        return options
    path = path_of("keep", keep)
    place = whole_path(path)
    found = next(each for each in (place, *place.parents) if os.path.lexists(each))
    if not found.is_dir():
        raise ConfigError(f'keep must be the path of a folder, such as keep="jobs", but {found} is not a folder')
    return {**options, "keep": path}


def path_of(argument: str, path: Any) -> str:
    """Return the path in an argument as a `str`. Raises `ConfigError` if the argument is empty or not a path."""
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ConfigError(f"{argument} must be the path of a {_PATHS[argument]}, not {shown(path)}")
    return os.fsdecode(path)


def _check_local(address: object, local: LocalSettings, processes: object) -> None:
    for name, value in local.items():
        if address is not None:
            raise ConfigError(
                f"{name}={shown(value)} applies to a local cluster, and the scheduler at {shown(address)} has its own "
                f"workers: remove {name} or the address"
            )
        if not processes and name not in THREAD_CLUSTER_SETTINGS:
            raise ConfigError(f"{name}={shown(value)} applies to worker processes: remove it or processes=False")
    if local:
        of_cluster = {name: value for name, value in local.items() if name != "keep"}
        ClusterConfig.of(
            {**of_cluster, "address": "tcp://127.0.0.1:1", "io_threads": local.get("worker_io_threads", 1)}
        )


def start_cluster(has_processes: bool, local: LocalSettings, logs_output: bool = True) -> LocalCluster:
    """Start the local cluster of a client.

    Args:
        logs_output: whether the workers log what tasks write. If not, the client prints the output of tasks.

    Raises:
        ConfigError: if no function that starts a local cluster is registered in `scaler.starters`.
        FileNotFoundError: if the working directory was deleted.
    """
    check_working_directory()
    if has_processes and starters.local_cluster is not None:
        cluster = starters.local_cluster(local, logs_output)
    elif not has_processes and starters.thread_cluster is not None:
        cluster = starters.thread_cluster(local)
    else:
        raise ConfigError("a client needs an address: pass one, or set SCALER_ADDRESS")
    starters.own_clusters[cluster.get_address()] = cluster
    return cluster


def new_link(
    address: str,
    seconds: Seconds,
    key_file: str | None = None,
    name: str = "",
    trust_users: tuple[int, ...] = (),
    client_id: ClientId | None = None,
) -> ClientLink:
    """Return a link to the scheduler at `address`.

    Args:
        key_file: the path of the key file; None: the key file that is found for the address.
        name: the name of the program on screens and in logs; empty: the script and process id of the program.
        client_id: the id of the client; None: a new one.

    Raises:
        ConfigError: if the address is not valid, or a key cannot be read.
        FileNotFoundError: if the working directory was deleted.
    """
    check_working_directory()
    endpoint = check_address(address).with_key(key_file).trusting(trust_users)
    return ClientLink(endpoint, client_id or ClientId(random_id()), *seconds, name=name)


def check_name(name: Any) -> str:
    """Return the name of a client; empty if no name was given. Raises `ConfigError` for an invalid name."""
    if name is None:
        return ""
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARACTERS or not name.isprintable():
        raise ConfigError(f"name must be a str of 1 to {NAME_CHARACTERS} printable characters, not {name!r}")
    return name


def place_of(address: Any, key_file: Any) -> tuple[str | None, str | None]:
    """Return the address of a scheduler, or None, and the path of a key file, or None. `address` may be that path.

    Raises:
        ConfigError: if `key_file` is not a path, or a key file given as `address` cannot be read or has no address.
    """
    file = None if key_file is None else path_of("key_file", key_file)
    is_file = isinstance(address, os.PathLike) or (isinstance(address, str) and address.endswith(".json"))
    if not is_file or (isinstance(address, str) and Endpoint.parse(address).scheme):
        return address, file
    key = KeyFile.read(whole_path(address))
    return key.address, file or str(key.path)


def configured_address(key_file: str | None, local: LocalSettings, processes: bool = True) -> str | None:
    """Return the configured address, for a client outside of tasks; None: start a local cluster.

    The address comes from the environment or `scaler.toml`, else from the key file. If any setting of a local cluster
    is given, configured addresses are ignored.

    Raises:
        ConfigError: if `key_file` and settings of a local cluster are given, or the file cannot be used.
    """
    if local or not processes:
        if key_file is not None and key_file != configured_values(ClientConfig, ("key_file",)).get("key_file"):
            of_cluster = "processes=False" if not processes else ", ".join(f"{name}=" for name in local)
            raise ConfigError(
                f"key_file={key_file!r} applies to a running scheduler, and {of_cluster} to a local cluster, which "
                "needs no key: remove one of these arguments"
            )
        return None
    place = configured_values(ClientConfig, ("address",)).get("address")
    return place if place or key_file is None else KeyFile.read(whole_path(key_file)).address


def shared_link(address: str, seconds: Seconds) -> ClientLink:
    """Return the link of this process to the scheduler at `address`.

    Raises:
        ConfigError: if no client can run here.
        DisconnectedError: if that scheduler ran in this process and has ended.
    """
    with _lock:
        if address in _ended:
            raise DisconnectedError("the client that this task belongs to is disconnected")
        key = (address, seconds, task_context.current.processor)
        link, _ = _shared_links.get(key, (None, None))
        if link is None or link.closed_because:
            check_unpatched()
            _forget_closed_links()
            trust_users = configured_values(ClientConfig, ("trust_users",)).get("trust_users", ())
            link = new_link(address, seconds, trust_users=trust_users)
            end = finalize_with(link, link)  # ends with the program
            _shared_links[key] = link, end
        return link


def _forget_closed_links() -> None:
    for key in [key for key, (link, _) in _shared_links.items() if link.closed_because]:
        _shared_links.pop(key)[1].detach()


def end_shared_links(address: str) -> None:
    """End the shared links to a scheduler of this process that is about to end."""
    with _lock:
        _ended.add(address)
        ended = [_shared_links.pop(key) for key in list(_shared_links) if key[0] == address]
    for link, end in ended:
        end.detach()
        link.close(EXIT_SECONDS)


def finalize_with(owner: Any, link: ClientLink, cluster: LocalCluster | None = None) -> weakref.finalize[..., Any]:
    """Return the finalizer of `owner`. It ends `link` and `cluster`, at the latest at the end of the program."""
    return weakref.finalize(owner, _end, link, cluster, os.getpid())


def _end(link: ClientLink, cluster: LocalCluster | None, owner_pid: int) -> None:
    if os.getpid() != owner_pid:  # a fork
        return
    if ends_by_exception():
        link.end_warnings.silence()
    if cluster is None:
        link.close(0 if threading.current_thread() is not threading.main_thread() else EXIT_SECONDS)
        return
    link.close(EXIT_SECONDS)
    cluster.shutdown()
