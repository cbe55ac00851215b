"""OwnKeys: finds or creates the keys of a scheduler that starts.

Without keys, a scheduler listens on TCP only if a setting explicitly allows it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import socket
from collections.abc import Iterable, Sequence

from scaler.config import ConfigError, whole_path
from scaler.endpoint import TCP, Endpoint
from scaler.keys.finding import VARIABLE, folder_for, reachable
from scaler.keys.folder import KeyFolder
from scaler.settings import SchedulerConfig

OPEN_OPTION = "--insecure-let-everybody-run-code"


class OwnKeys:
    """The keys of one scheduler. The scheduler's port identifies them. If it may use any port, a free one is chosen
    here.

    Raises:
        ConfigError: if keys cannot be read or created, or other users have access to the keys.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.endpoint = config.endpoint
        self.monitor = None if config.monitor_address is None else Endpoint.parse(config.monitor_address)
        self.folder: KeyFolder | None = None
        """the folder of the keys; None if no keys are required, usually because file permissions guard the address"""
        self.are_new = False
        self._is_temporary = False
        if config.insecure_let_everybody_run_code and config.keys is not None:
            raise ConfigError(
                f"keys={config.keys!r} accepts only programs with a key, and {OPEN_OPTION} accepts all: leave one out"
            )
        places = [each for each in (self.endpoint, self.monitor) if each is not None and each.scheme == TCP]
        if not places or config.insecure_let_everybody_run_code:
            return
        if config.keys is not None:
            self.folder = KeyFolder(whole_path(config.keys))
            return
        with contextlib.ExitStack() as taken:
            self._is_temporary = places[0].takes_any_port
            self.endpoint = _with_port(self.endpoint, taken)
            self.monitor = None if self.monitor is None else _with_port(self.monitor, taken)
            self._find_or_make([each for each in (self.endpoint, self.monitor) if each and each.scheme == TCP])

    def _find_or_make(self, places: Sequence[Endpoint]) -> None:
        addresses = [*map(reachable, places)]
        try:
            self.folder, self.are_new = KeyFolder.find_or_make(folder_for(places[0]), addresses)
        except OSError as error:
            raise ConfigError(_cannot(f"{error.strerror}: {error.filename}", places[0])) from None
        except ConfigError as error:
            raise ConfigError(_cannot(str(error), places[0])) from None
        if not self.are_new:
            self.folder.add_addresses(addresses)

    def say(self) -> Iterable[str]:
        """Yield lines for the log, without secrets: where the keys are, and how to create a key for another user."""
        if self.folder is None:
            return
        path = self.folder.path
        if self.are_new and not self._is_temporary:
            yield f"created keys in {path}; this user's clients, clusters and viewers find them there"
        yield (
            "only programs with a key can connect; create one for another user or machine: scaler_keys allow NAME "
            f"--role client --folder {shlex.quote(str(path))} (a cluster: --role worker)"
        )

    def forget(self, *, has_failed: bool = False) -> None:
        """Remove keys that are useless after the end of the scheduler. After a failed start, also remove new keys."""
        if self.folder is not None and (self._is_temporary or (has_failed and self.are_new)):
            self.folder.remove()


def remove_keys(endpoint: Endpoint) -> None:
    """Remove the keys that a killed scheduler on a free port has left behind."""
    with contextlib.suppress(ConfigError):
        KeyFolder(folder_for(endpoint)).remove()


def _cannot(reason: str, endpoint: Endpoint) -> str:
    return (
        f"the scheduler has no keys for {endpoint}, and cannot create them ({reason}): name a folder for new keys with "
        f"{VARIABLE}, or use existing keys with --keys; {OPEN_OPTION} accepts every program without a key"
    )


def _with_port(endpoint: Endpoint, taken: contextlib.ExitStack) -> Endpoint:
    """Return an address in which a free port replaces `*`. The port is reserved as long as `taken` is open."""
    if not endpoint.takes_any_port:
        return endpoint
    family = socket.AF_INET6 if endpoint.is_ipv6 else socket.AF_INET
    probe = taken.enter_context(socket.socket(family, socket.SOCK_STREAM))
    try:
        probe.bind((endpoint.host.strip("[]").replace("*", ""), 0))
    except OSError:  # the name of an interface, or not an address of this machine: `listen` raises later
        probe.bind(("", 0))
    port = str(probe.getsockname()[1])
    return dataclasses.replace(endpoint, address=f"{TCP}://{endpoint.host}:{port}", port=port)
