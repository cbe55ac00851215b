"""Setting: a name, a type, a default, limits and a description.

The tables of all settings are in `scaler.settings`; `scaler.settings.sources` reads their values. A bad value raises a
`ConfigError` at once, which names the setting, the mistake and a good value. Durations are in seconds, sizes in bytes.
"""

from __future__ import annotations

import dataclasses
import numbers
import os
import re
import string
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scaler.endpoint import ANYWHERE, IPC, Endpoint
from scaler.texts import shown

WORKERS_MOST = 65_535
"""the maximum number of workers of one cluster"""
SECONDS_MOST = 9_000_000_000
"""the longest time, in seconds, for which Python lets a thread wait"""
_UID_MOST = 2**32 - 2
_NUMBER_MOST = int(sys.float_info.max)
_IN_HOSTS = frozenset(string.ascii_letters + string.digits + "_.*-")
_IN_BRACKETS = frozenset(string.hexdigits + ":.")
_IPC_PATH_BYTES = 100  # the kernel's limit is 107, and some systems reserve a few bytes
BYTES = "bytes"
"""The unit of settings that are sizes in bytes."""
WITH_UNIT = "a number with K, M, G or T (powers of 1024) such as 64G or 1.5T"
"""The words for a size with a unit in error messages."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))? ?(?:([KMGT])(?:i?B)?|B?)", re.ASCII | re.IGNORECASE)
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class ConfigError(ValueError):
    """A setting has an invalid value."""


def check_address(address: str, may_be_any_port: bool = False) -> Endpoint:
    """Parse an address, and check that peers can connect to it.

    Args:
        address: `tcp://host:port`, `ipc:///path`, or, between threads of one process, `inproc://name`.
        may_be_any_port: whether to accept port `*` (any free port) and `ipc://*` (a new private folder).

    Raises:
        ConfigError: if the address is invalid; the message shows a valid address.
    """
    if not isinstance(address, str):
        raise ConfigError(f"address must be a str such as tcp://127.0.0.1:2345, not {shown(address)}")
    endpoint = Endpoint.parse(address)
    if address == ANYWHERE and may_be_any_port:
        return endpoint
    if endpoint.scheme == IPC and endpoint.place.startswith("/") and endpoint.place != "/":
        if len(os.fsencode(endpoint.place)) > _IPC_PATH_BYTES:
            raise ConfigError(f"the path of {address!r} is longer than {_IPC_PATH_BYTES} bytes; take a shorter one")
        return endpoint
    if endpoint.is_in_process and len(endpoint.place.split()) == 1:
        return endpoint
    port = _port(endpoint)
    if not port:
        meant = Endpoint.of_host_and_port(address)
        good = (
            f"did you mean {meant.address}?"
            if _port(meant)
            else "a good one looks like tcp://127.0.0.1:2345 or ipc:///tmp/scaler"
        )
        raise ConfigError(f"{address!r} is not an address; {good}")
    if port == "*":
        if may_be_any_port:
            return endpoint
        raise ConfigError(f"{address!r} has no port; a good address looks like tcp://127.0.0.1:2345")
    if not 0 < int(port) < 65536:
        raise ConfigError(f"the port of {address!r} is not between 1 and 65535")
    return endpoint


def _port(endpoint: Endpoint) -> str:
    host, port = endpoint.host, endpoint.port
    is_in_brackets = endpoint.is_ipv6 and host.endswith("]")
    name, allowed = (host[1:-1], _IN_BRACKETS) if is_in_brackets else (host, _IN_HOSTS)
    is_port = port == "*" or (port.isascii() and port.isdigit())
    return port if name and allowed.issuperset(name) and is_port else ""


def whole_path(path: str | os.PathLike[str]) -> Path:
    """Return a user's path as an absolute path, with `~` expanded. Raises `ConfigError` without a home directory."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise ConfigError(
            f"{os.fspath(path)}: this user has no home directory for `~`: set HOME, or give an absolute path"
        ) from None


def uid_of(user: Any) -> int:
    """Return the uid of a user, given by name or uid. Raises `ConfigError` for an unknown name or a bad number."""
    text = str(user).strip() if type(user) in (str, int) else ""
    if text.isascii() and text.isdigit() and len(text) <= len(str(_UID_MOST)) and int(text) <= _UID_MOST:
        return int(text)
    try:
        import pwd  # noqa: PLC0415 - few programs name a user

        return pwd.getpwnam(text).pw_uid
    except (ImportError, KeyError, ValueError):
        raise ConfigError(
            f"trust_users: this machine knows no user {shown(user)}; give a name that `getent passwd` lists, or a uid"
        ) from None


def check_reachable(endpoint: Endpoint) -> None:
    """Raise `ConfigError` if this address works only between threads of one process."""
    if endpoint.is_in_process:
        raise ConfigError(
            f"{endpoint.address!r} is for threads of one process; between processes use tcp://host:port or ipc:///path"
        )


def read_size(name: str, text: str) -> int:
    """Return the number in a text such as `4096` or `1.5T`, rounded down. Raises `ConfigError` that contains `name`."""
    found = _SIZE.fullmatch(text.strip())
    whole, fraction, letter = ("", "", "") if found is None else found.groups("")
    if not whole or (fraction and not letter):
        raise ConfigError(f"{name} must be a whole number, or {WITH_UNIT}, not {shown(text)}")
    scale = int(10 ** len(fraction))
    return int(whole + fraction) * _UNITS[letter.upper()] // scale


def size_text(size: int) -> str:
    """Return a number of bytes as a text that `read_size` can read: with the largest unit that divides the number."""
    units = [(each, letter) for letter, each in _UNITS.items() if size and size % each == 0]
    unit, letter = max(units, default=(1, ""))
    return f"{size // unit}{letter}"


def plain_number(value: Any) -> Any:
    """Return a number, such as an integer of NumPy, as an `int` or a `float`; any other value unchanged."""
    if type(value) in (int, float, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def check_number(name: str, value: Any, least: float, most: float = float("inf"), unit: str = "") -> float:
    """Return a number between `least` and `most`, as an `int` or a `float`. Raises `ConfigError` for other values."""
    number: float = plain_number(value)
    if type(number) not in (int, float):
        raise ConfigError(f"{name} must be a number, not {shown(value)}")
    if not least <= number <= most or (type(number) is int and abs(number) > _NUMBER_MOST):
        limit = f"at least {least:,}" if most == float("inf") else f"between {least:,} and {most:,}"
        raise ConfigError(f"{name} must be {f'{limit} {unit}'.strip()}, not {shown(value)}")
    return number


def check_timeout(timeout: Any) -> float | None:
    """Return a time-out. Raises `ConfigError` for anything but None and seconds that a thread can wait."""
    return None if timeout is None else check_number("timeout", timeout, 0, SECONDS_MOST)


def check_whole_number(name: str, value: Any, least: int, most: int) -> int:
    """Return a whole number between `least` and `most`, as an `int`. Raises `ConfigError` for other values."""
    number = check_number(name, value, least, most)
    if not isinstance(number, int):
        raise ConfigError(f"{name} must be a whole number, not {shown(value)}")
    return number


def entry(
    text: str,
    *flags: str,
    unit: str = "",
    least: float = 0,
    most: float = float("inf"),
    choices: tuple[str, ...] = (),
    check: Callable[[str], object] | None = None,
    metavar: str = "",
    default: str = "",
    in_file: bool = True,
) -> Mapping[str, Any]:
    """Return the metadata of a field: the row of one setting.

    Args:
        text: the description of the setting without a full stop, for `-h`, the docstrings and the page of settings.
        flags: the command-line options that set the value; "address" is a positional argument.
        unit: the unit of a number: `s` or `bytes`. A number of bytes may also be a text such as `64G` (`read_size`).
        choices: the valid values, in lower or upper case.
        check: a function that raises `ConfigError` for an invalid value. If the value is a list, the function gets each
            item, and returns the item to store.
        metavar: the placeholder for the value in `-h`.
        default: a description of the default, if the default is not a constant.
        in_file: whether a file found in the working directory may set the value.
    """
    return locals()


def setting(value: Any, /, text: str, *flags: str, **row: Any) -> Any:
    """Return a field that declares a setting, from its default value and the arguments of `entry`."""
    return dataclasses.field(default=value, metadata=entry(text, *flags, **row))


class Setting:
    """One setting of a process, as a row of its table: checks and parses values."""

    def __init__(self, field: dataclasses.Field[Any], prefix: str = "") -> None:
        self.name: str = prefix + field.name
        self.kind: str = str(field.type).removesuffix(" | None")
        """the type of the value, as text: `bool`, `int`, `float`, `str`, or `tuple[..., ...]` for a list"""
        self.may_be_none: bool = str(field.type) != self.kind
        self.default: Any = field.default
        """the default value; `dataclasses.MISSING` if a value must be given"""
        self.text: str = field.metadata["text"]
        self.flags: tuple[str, ...] = field.metadata["flags"]
        self.unit: str = field.metadata["unit"]
        self.metavar: str = field.metadata["metavar"] or {"s": "S", BYTES: "SIZE"}.get(self.unit, "N")
        self.may_be_in_file: bool = field.metadata["in_file"]
        self._about = field.metadata

    @property
    def variable(self) -> str:
        """The environment variable that sets the value."""
        return f"SCALER_{self.name.upper()}"

    @property
    def default_text(self) -> str:
        """The default as text for people, with its unit; empty if the setting has no default."""
        if self._about["default"] or self.default in (None, dataclasses.MISSING):
            return str(self._about["default"])
        if self.unit == BYTES:
            return size_text(self.default)
        value = ",".join(self.default) if self.kind.startswith("tuple") else str(self.default)
        return f"{value} {self.unit}".strip()

    def check(self, value: Any) -> Any:
        """Return the value, converted to the setting's type. Raises `ConfigError` that names the setting."""
        if value is None and self.may_be_none:
            return None
        check: Callable[[Any], Any] = {
            "bool": self._check_truth,
            "int": self._check_number,
            "float": self._check_number,
            "str": self._check_text,
        }.get(self.kind, self._check_texts)
        return check(value)

    def parse(self, text: str) -> Any:
        """Return the value in a string; commas separate items. Raises `ConfigError` that names the setting."""
        value: Any = text
        if self.kind == "bool":
            value = _TRUTH.get(text.lower(), text)
        elif self.kind in ("int", "float"):
            value = _number(text, self.kind)
        elif self.kind != "str":
            value = text.split(",")
        return self.check(value)

    def _check_truth(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{self.name} must be True or False, not {shown(value)}")
        return value

    def _check_number(self, value: Any) -> float:
        if self.unit == BYTES and isinstance(value, str):
            value = read_size(self.name, value)
        number = check_number(self.name, value, self._about["least"], self._about["most"], self.unit)
        if self.kind == "int" and not isinstance(number, int):
            raise ConfigError(f"{self.name} must be a whole number, not {shown(value)}")
        return number

    def _check_text(self, value: Any) -> str:
        choices, check = self._about["choices"], self._about["check"]
        if check is not None:
            check(value)
        if not isinstance(value, str):
            raise ConfigError(f"{self.name} must be a str, not {shown(value)}")
        if not choices:
            return value
        for choice in choices:
            if choice.casefold() == value.casefold():
                return str(choice)
        raise ConfigError(f"{self.name} must be {', '.join(choices[:-1])} or {choices[-1]}, not {shown(value)}")

    def _check_texts(self, value: Any) -> tuple[Any, ...]:
        texts, check = (value,) if isinstance(value, str) else value, self._about["check"]
        if not isinstance(texts, (list, tuple)) or not (check or all(isinstance(text, str) for text in texts)):
            raise ConfigError(f"{self.name} must be a list of str, not {shown(value)}")
        return tuple(map(check, texts)) if check else tuple(texts)


def _number(text: str, kind: str) -> Any:
    """Return the number in a string; the string itself if it contains no number."""
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        return text
