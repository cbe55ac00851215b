"""KeyFile: the key of a peer as one file that can be handed over: the peer's key pair, and the scheduler's public keys.

Written by the folder of keys, read by peers. The `str` and `repr` of a key file never show the secret key.
"""

from __future__ import annotations

import json
import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaler.config import ConfigError, check_address
from scaler.keys.private_files import read_private, write_private
from scaler.texts import printable, shown

VERSION = 1
CLIENT, WORKER, MONITOR, ADMIN = ROLES = "client", "worker", "monitor", "admin"
_Z85 = frozenset(string.ascii_letters + string.digits + ".-:+=^!/*?&<>()[]{}@%$#")
_IN_NAMES = frozenset(string.ascii_letters + string.digits + "._-")
KEY_CHARACTERS = 40
KEY_FILE_BYTES_MOST = 1024 * 1024
"""The most bytes of a key file. Usual key files have less than 1 KiB."""
REASON_CHARACTERS_MOST = 300
"""The most characters that an error quotes from a key file."""
NAME_CHARACTERS = 64


def is_key(text: object) -> bool:
    """Return whether a value has the form of a key as libzmq writes it (Z85)."""
    return isinstance(text, str) and len(text) == KEY_CHARACTERS and _Z85.issuperset(text)


def check_name(name: str) -> None:
    """Raise `ConfigError` unless a text can be the name of a key and of its file."""
    if not name or len(name) > NAME_CHARACTERS or not _IN_NAMES.issuperset(name) or name[0] in ".-":
        raise ConfigError(
            f"{shown(name)} cannot be the name of a key: use up to {NAME_CHARACTERS} letters, digits, dots, hyphens "
            "and underscores, and begin with a letter or digit"
        )


@dataclass(frozen=True)
class KeyFile:
    """The key of one peer.

    Attributes:
        role: the role of the owner of the key: client, worker, monitor or admin.
        name: the name of the owner, as on the list of the scheduler.
        addresses: where the scheduler listens, if known.
        servers: the public keys of the scheduler: several while its key is being replaced.
        path: the file from which the key was read; empty for a key made in this process.
    """

    role: str
    name: str
    addresses: tuple[str, ...]
    servers: tuple[str, ...]
    public: str
    secret: str = field(repr=False)
    path: Path = Path()

    def __str__(self) -> str:
        return f"{self.path} ({self.role} {self.name})"

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Return the key in a file.

        Raises:
            ConfigError: if the file cannot be read, other users have access to it, or it is not a key file.
        """
        try:
            values: Any = json.loads(read_private(path, KEY_FILE_BYTES_MOST))
        except (ValueError, RecursionError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{path} is not a key file: it is not JSON") from None
        try:
            return cls._of(values, path)
        except (ValueError, KeyError, TypeError) as error:
            why = printable(str(error), REASON_CHARACTERS_MOST)
            raise ConfigError(f"{path} is not a key file, or is damaged ({why}): copy it again") from None

    @classmethod
    def _of(cls, values: Any, path: Path) -> KeyFile:
        if not isinstance(values, dict) or values.get("version") != VERSION:
            raise ConfigError(f"its format is not version {VERSION}")
        if values["role"] not in ROLES:
            raise ConfigError("its role is unknown")
        if not isinstance(values["name"], str):
            raise ConfigError("its name is not a string")
        check_name(values["name"])
        addresses, servers = tuple(values["addresses"]), tuple(values["servers"])
        for address in addresses:
            check_address(address, may_be_any_port=True)
        if not (servers and all(map(is_key, (*servers, values["public"], values["secret"])))):
            raise ConfigError("a key in it is invalid")
        return cls(values["role"], values["name"], addresses, servers, values["public"], values["secret"], path)

    @property
    def address(self) -> str:
        """The latest address of the scheduler, the first of `addresses`. Raises `ConfigError` without an address."""
        if not self.addresses:
            raise ConfigError(
                f"the key file {self.path} has no address: give the address of the scheduler, too, or ask an admin of "
                "the scheduler for a file that has it (scaler_keys allow)"
            )
        return self.addresses[0]

    def write(self, path: Path, *, is_new: bool = False) -> None:
        """Write the key to a file.

        Raises:
            FileExistsError: if `is_new` and the file exists; without `is_new`, an existing file is replaced.
            OSError: if the file cannot be written.
        """
        values = {"version": VERSION, "role": self.role, "name": self.name, "addresses": self.addresses}
        values |= {"servers": self.servers, "public": self.public, "secret": self.secret}
        write_private(path, json.dumps(values, indent=1) + "\n", is_new=is_new)
