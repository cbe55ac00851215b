"""KeyFolder: the files with the keys of one scheduler, the list of accepted keys, and key files for peers.

Changed by the command `scaler_keys`; one process at a time writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import zmq

from scaler.config import ConfigError
from scaler.keys.allowed import USUAL, AllowedKey, AllowedKeys, OwnerTerms
from scaler.keys.finding import SCHEDULER_KEY
from scaler.keys.key_file import KEY_FILE_BYTES_MOST, ROLES, VERSION, KeyFile, check_name, is_key
from scaler.keys.private_files import check_private_folder, make_private_folder, read_private, write_private


@dataclass(frozen=True)
class KeyPair:
    """A public key and the secret key that belongs to it."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> KeyPair:
        return cls(*(half.decode() for half in zmq.curve_keypair()))


class KeyFolder:
    """Reads and changes the keys in the existing folder `path`.

    Raises:
        ConfigError: if `path` is not a folder of keys, or other users can enter it.
    """

    def __init__(self, path: Path) -> None:
        check_private_folder(path)
        self.path = path
        self.list_path = path / "allowed"
        if not (path / SCHEDULER_KEY).exists():
            raise ConfigError(f"{path} has no {SCHEDULER_KEY}: make keys there with scaler_keys new --folder {path}")

    @classmethod
    def make(cls, path: Path, addresses: Iterable[str] = ()) -> KeyFolder:
        """Make a folder with the key of a scheduler, and a key file of each role for all who can read the folder.

        Args:
            path: the folder; it may exist if it has no keys.
            addresses: where the scheduler listens, as its peers reach it.

        Raises:
            ConfigError: if the folder has keys already, or other users can enter it.
            OSError: if the folder cannot be written.
        """
        make_private_folder(path)
        with _locked(path):
            if (path / SCHEDULER_KEY).exists():
                raise ConfigError(f"{path} has keys already; scaler_keys rotate replaces the key of the scheduler")
            pair, all_addresses = KeyPair.new(), tuple(addresses)
            keys = []
            # The admin's key first: clients of this user take it if it exists, so all of them have the same owner.
            for role in reversed(ROLES):
                own = KeyPair.new()
                KeyFile(role, role, all_addresses, (pair.public,), own.public, own.secret).write(path / f"{role}.json")
                keys.append(AllowedKey(role, role, own.public))
            write_private(path / "allowed", str(AllowedKeys(keys[::-1])))
            _write_pairs(path, all_addresses, [pair])  # last: this file makes it a folder of keys
        return cls(path)

    @classmethod
    def find_or_make(cls, path: Path, addresses: Iterable[str]) -> tuple[KeyFolder, bool]:
        """Return the folder of keys at `path`, and whether it is new. The folder is made if it does not exist.

        Raises:
            ConfigError: if other users can enter the folder, or the folder is damaged.
            OSError: if the folder cannot be written.
        """
        if not (path / SCHEDULER_KEY).exists():
            try:
                return cls.make(path, addresses), True
            except ConfigError:
                if not (path / SCHEDULER_KEY).exists():  # else another process was faster
                    raise
        return cls(path), False

    def remove(self) -> None:
        """Remove the keys and the folder. Errors of the file system are ignored."""
        with contextlib.suppress(OSError):
            for name in (SCHEDULER_KEY, self.list_path.name, *(file.name for file in self.path.glob("*.json"))):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

    def add_addresses(self, addresses: Sequence[str]) -> None:
        """Add the current addresses of the scheduler to all key files. Errors of the file system are ignored.

        Raises:
            ConfigError: if a file cannot be read, or other users have access to it.
        """
        with contextlib.suppress(OSError), _locked(self.path):
            known, pairs = self._read()
            new = [each for each in addresses if each not in known]
            if new:
                all_addresses = (*new, *known)
                for path in sorted(self.path.glob("*.json")):
                    replace(KeyFile.read(path), addresses=all_addresses).write(path)
                _write_pairs(self.path, all_addresses, [KeyPair(*pair) for pair in pairs])

    def pairs(self) -> list[KeyPair]:
        """Return the key pairs of the scheduler, the newest last. Older pairs stay valid until the scheduler restarts.

        Raises:
            ConfigError: if the file cannot be read, or other users have access to it.
        """
        return [KeyPair(*pair) for pair in self._read()[1]]

    def drop_old_pairs(self) -> None:
        """Remove all key pairs of the scheduler except the newest. Errors of the file system are ignored."""
        with contextlib.suppress(OSError), _locked(self.path):
            addresses, pairs = self._read()
            if len(pairs) > 1:
                _write_pairs(self.path, addresses, [KeyPair(*pairs[-1])])

    def allowed(self) -> AllowedKeys:
        """Return the list of accepted keys.

        Raises:
            ConfigError: if the list cannot be read, other users have access to it, or a line is invalid.
        """
        try:
            return AllowedKeys.parse(read_private(self.list_path))
        except ConfigError as error:
            text = str(error)
            raise ConfigError(text if str(self.list_path) in text else f"{self.list_path}: {text}") from None

    def allow(self, name: str, role: str, until: date | None, today: date, terms: OwnerTerms = USUAL) -> Path:
        """Put a new key on the list. Return the key file, which is to be handed to the owner of the key.

        Args:
            until: the last day on which the key is valid; None: the key does not expire.
            today: the current day.
            terms: the share and quotas of the owner.

        Raises:
            ConfigError: if the name has a valid key already, or is not a valid name.
            OSError: if the folder cannot be written.
        """
        check_name(name)
        file = self.path / f"{name}.json"
        with _locked(self.path):
            allowed, (addresses, pairs) = self.allowed(), self._read()
            if allowed.named(name, today):
                raise ConfigError(f"{name} has a key already: {file}; revoke it first, or choose another name")
            own = KeyPair.new()
            servers = tuple(public for public, _ in reversed(pairs))
            KeyFile(role, name, addresses, servers, own.public, own.secret).write(file)
            self._write_list([*allowed.values(), AllowedKey(role, name, own.public, terms, until)])
        return file

    def revoke(self, name: str, today: date) -> int:
        """Revoke all valid keys of an owner. Return the number of revoked keys.

        Raises:
            ConfigError: if the owner has no valid key.
            OSError: if the folder cannot be written.
        """
        with _locked(self.path):
            allowed = self.allowed()
            taken = allowed.named(name, today)
            if not taken:
                raise ConfigError(f"{name!r} has no valid key in {self.path}; scaler_keys list shows all keys")
            self._write_list([replace(key, revoked=today) if key in taken else key for key in allowed.values()])
            (self.path / f"{name}.json").unlink(missing_ok=True)
        return len(taken)

    def rotate(self) -> list[Path]:
        """Make a new key of the scheduler, which the scheduler uses from its next start on.

        Return the changed key files, which must be handed to their owners again before that start.

        Raises:
            ConfigError: if a file cannot be read, or other users have access to it.
            OSError: if the folder cannot be written.
        """
        with _locked(self.path):
            addresses, pairs = self._read()
            new = KeyPair.new()
            files = [KeyFile.read(path) for path in sorted(self.path.glob("*.json"))]
            servers = (new.public, *(public for public, _ in reversed(pairs)))
            for file in files:  # before the key itself: a scheduler that starts now has the old one
                replace(file, servers=servers).write(file.path)
            _write_pairs(self.path, addresses, [*(KeyPair(*pair) for pair in pairs), new])
        return [file.path for file in files]

    def _write_list(self, keys: Iterable[AllowedKey]) -> None:
        write_private(self.list_path, str(AllowedKeys(keys)))

    def _read(self) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
        path = self.path / SCHEDULER_KEY
        try:
            values = json.loads(read_private(path, KEY_FILE_BYTES_MOST))
            addresses = tuple(map(str, values["addresses"]))
            pairs = [(pair["public"], pair["secret"]) for pair in values["keys"]]
            if values["version"] != VERSION or not pairs or not all(map(is_key, sum(pairs, ()))):
                raise KeyError("keys")
        except ConfigError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(f"{path} is damaged: it is not the key file of a scheduler") from None
        return addresses, pairs


def _write_pairs(path: Path, addresses: tuple[str, ...], pairs: list[KeyPair]) -> None:
    keys = [{"public": pair.public, "secret": pair.secret} for pair in pairs]
    values = {"version": VERSION, "addresses": addresses, "keys": keys}
    write_private(path / SCHEDULER_KEY, json.dumps(values, indent=1) + "\n")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the folder inside a `with` block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
