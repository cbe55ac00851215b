"""Allowed: the list of keys that a scheduler lets in, one line each, as people read and change it.

    client alice Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID until=2027-01-01

Read by the scheduler, again after each change; written by `scaler_keys`. Must never: import a socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from scaler.config import ConfigError
from scaler.keys.key_file import ROLES, check_name, is_key

HEAD = """\
# Who may connect to this scheduler, one key a line: ROLE NAME PUBLIC_KEY [until=YYYY-MM-DD] [revoked=YYYY-MM-DD]
# The scheduler reads it again within a quarter of a second of each change. To take a line away ends its sessions, too.
"""


@dataclass(frozen=True)
class AllowedKey:
    """One line.

    Attributes:
        role: what its owner may be.
        name: of its owner.
        public: the key.
        until: the last day on which it is good; None: it has none.
        revoked: when it was taken back; None: it was not.
    """

    role: str
    name: str
    public: str
    until: date | None = None
    revoked: date | None = None

    def __str__(self) -> str:
        days = (("until", self.until), ("revoked", self.revoked))
        return " ".join((self.role, self.name, self.public, *(f"{word}={day}" for word, day in days if day)))

    def why_not(self, today: date) -> str:
        """Return why it is not good any more; empty if it is."""
        if self.revoked is not None:
            return f"it was revoked on {self.revoked}"
        return f"it was good until {self.until}" if self.until is not None and self.until < today else ""

    @classmethod
    def parse(cls, line: str) -> AllowedKey:
        """Return what a line says.

        Raises:
            ConfigError: if that is nothing.
        """
        role, name, public, *options = [*line.split(maxsplit=3), "", "", ""][:4]
        if role not in ROLES:
            raise ConfigError(f"{role!r} is no role: take {', '.join(ROLES[:-1])} or {ROLES[-1]}")
        check_name(name)
        if not is_key(public):
            raise ConfigError(f"what follows the name {name} is no public key")
        days: dict[str, date] = {}
        for option in options[0].split():
            word, _, day = option.partition("=")
            if word not in ("until", "revoked"):
                raise ConfigError(f"{option!r} is unknown: there are until= and revoked=")
            try:
                days[word] = date.fromisoformat(day)
            except ValueError:
                raise ConfigError(f"{option!r} has no day such as 2027-01-31") from None
        return cls(role, name, public, **days)


class Allowed(Mapping[str, AllowedKey]):
    """All lines, by public key, in their order."""

    def __init__(self, keys: Iterable[AllowedKey] = ()) -> None:
        self._by_key = {key.public: key for key in keys}

    def __getitem__(self, public: str) -> AllowedKey:
        return self._by_key[public]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __str__(self) -> str:
        return HEAD + "".join(f"{key}\n" for key in self.values())

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """Return the list in a text. Empty lines and those that begin with `#` say nothing.

        Raises:
            ConfigError: if a line says nothing, or two lines have one key; it names the line.
        """
        keys: dict[str, AllowedKey] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                try:
                    key = AllowedKey.parse(line)
                except ConfigError as error:
                    raise ConfigError(f"line {number}: {error}") from None
                if key.public in keys:
                    raise ConfigError(f"line {number}: the key of {key.name} is on the list twice")
                keys[key.public] = key
        return cls(keys.values())

    def named(self, name: str, today: date) -> list[AllowedKey]:
        """Return the good keys of an owner."""
        return [key for key in self.values() if key.name == name and not key.why_not(today)]
