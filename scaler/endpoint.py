"""Endpoint: a parsed address where a scheduler listens. Only this module knows the schemes.

Used by the settings, which check addresses, by the sockets, and to find out whether a scheduler is on this host.
"""

from __future__ import annotations

import dataclasses
import functools
import socket
from dataclasses import dataclass
from pathlib import Path

TCP, IPC, INPROC = "tcp", "ipc", "inproc"

ANYWHERE = f"{IPC}://*"
"""The address with which a scheduler listens in a new private folder."""

LOCAL = ANYWHERE if hasattr(socket, "AF_UNIX") else f"{TCP}://127.0.0.1:*"
"""The address at which the scheduler of a local cluster listens."""


def ipc_address(path: str | Path) -> str:
    """Return the address of a socket file."""
    return f"{IPC}://{path}"


def in_process_address(name: str) -> str:
    """Return the address for connections between threads of this process."""
    return f"{INPROC}://{name}"


@dataclass(frozen=True)
class Endpoint:
    """An address, parsed when the object is created. `scaler.config.check_address` checks the parts. No part is secret.

    Attributes:
        address: the address as it was given.
        scheme: `tcp`, `ipc` or `inproc`; empty for any other address.
        host: the host of a tcp address as it was given; may be `*`, or an IPv6 address in brackets.
        port: the port of a tcp address; may be `*`.
        place: the path of an ipc address, or the name of an inproc address.
        key_file: the path of the key for connecting; empty: the key is looked up in the folders of `scaler.keys`.
        trust_users: uids of the users who may listen at an ipc address besides this user and root.
    """

    address: str
    scheme: str = ""
    host: str = ""
    port: str = ""
    place: str = ""
    key_file: str = ""
    trust_users: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.address

    @property
    def encoded(self) -> bytes:
        """The address as bytes for ZeroMQ. The path of an address may contain bytes that are not UTF-8."""
        return self.address.encode("utf-8", "surrogateescape")

    @property
    def is_in_machine(self) -> bool:
        """Whether both ends of a connection are surely on one machine. A loopback port does not count: it may lead to a
        tunnel.
        """
        return self.scheme in (IPC, INPROC)

    @classmethod
    @functools.lru_cache(maxsize=64)
    def parse(cls, address: str) -> Endpoint:
        """Parse an address of any scheme."""
        scheme, separator, rest = address.partition("://")
        if separator and scheme == TCP:
            host, _, port = rest.rpartition(":")
            return cls(address, TCP, host, port)
        if separator and scheme in (IPC, INPROC):
            return cls(address, scheme, place=rest)
        return cls(address)

    @classmethod
    def of_host_and_port(cls, text: str) -> Endpoint:
        """Parse `host:port`, a tcp address without its scheme."""
        return cls.parse(f"{TCP}://{text}")

    @property
    def file(self) -> Path | None:
        """The path of the socket file; None if the address has no file."""
        return Path(self.place) if self.scheme == IPC and self.address != ANYWHERE else None

    @property
    def monitor(self) -> Endpoint | None:
        """The address of the monitor stream of a scheduler that listens here; None if viewers cannot know it.

        For a tcp address, the monitor address is the path that the commands of Scaler 1.x use.
        """
        if self.file is not None:
            return Endpoint.parse(ipc_address(f"{self.file}_monitor")).trusting(self.trust_users)
        if self.scheme == TCP:
            path = f"/tmp/{self.host}_{self.port}_monitor"  # noqa: S108
            return Endpoint.parse(ipc_address(path)).trusting(self.trust_users)
        return None

    @property
    def is_in_process(self) -> bool:
        """Whether both ends of a connection are threads of one process."""
        return self.scheme == INPROC

    @property
    def takes_any_port(self) -> bool:
        """Whether a listener at this address takes any free port."""
        return self.scheme == TCP and self.port == "*"

    @property
    def has_name(self) -> bool:
        """Whether the host is a name that must be resolved."""
        return bool(self.host) and not self.is_ipv6 and not set(self.host) <= set("0123456789.*")

    @property
    def is_ipv6(self) -> bool:
        return self.host.startswith("[")

    @property
    def is_near(self) -> bool:
        """Whether the ends of a connection seem to be processes of one host, which can share memory."""
        return self.scheme == IPC or self._is_loopback

    @property
    def _is_loopback(self) -> bool:
        return self.scheme == TCP and (self.host in ("localhost", "[::1]") or self.host.startswith("127."))

    def with_key(self, key_file: str | None) -> Endpoint:
        """Return the same address with this key file; if `key_file` is None, return the address unchanged."""
        return dataclasses.replace(self, key_file=key_file) if key_file else self

    def trusting(self, uids: tuple[int, ...]) -> Endpoint:
        """Return the same address with `uids` as `trust_users`. If `uids` is empty, return the address unchanged."""
        return dataclasses.replace(self, trust_users=uids) if uids else self

    def who_can_connect(self) -> str:
        """Return a phrase that says who can connect besides the listening user; empty if no other user can."""
        if self.scheme != TCP:
            return ""
        return "every user of this machine" if self._is_loopback else "every machine that reaches it"
