"""AllowedKeys: the keys that a scheduler accepts, in a text file with a line for each, which people read and edit.

    client alice Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID share=2 tasks=100000 bytes=20G until=2027-01-01

Written by `scaler_keys`; read by the scheduler at its start and after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from scaler.config import ConfigError, read_size, size_text
from scaler.keys.key_file import ROLES, check_name, is_key
from scaler.texts import shown

HEAD = """\
# Who may connect to this scheduler, one key a line: ROLE NAME PUBLIC_KEY, followed by any of
#   share=2 tasks=100000 bytes=20G until=YYYY-MM-DD revoked=YYYY-MM-DD
# The scheduler reads this file again within a quarter of a second of each change. Removing a line ends its sessions.
"""


KEY_SHOWN = 8
"""The number of characters of a public key that users see: enough to find the line of the key in the list of keys."""
SHARE_MOST = 100
"""The greatest share of an owner."""
AMOUNT_MOST = 2**53


def share_of(text: str) -> int:
    """Return the share that a text gives. Raise `ConfigError` unless the text is a whole number in range."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(SHARE_MOST))
    if not is_number or not 1 <= int(text) <= SHARE_MOST:
        raise ConfigError(f"{shown(text)} is not a whole number from 1 to {SHARE_MOST:,}")
    return int(text)


def amount_of(text: str) -> int:
    """Return the number of tasks or bytes that a text gives, such as `20G` (`read_size`), or raise `ConfigError`."""
    amount = read_size("it", text)
    if not 1 <= amount <= AMOUNT_MOST:
        raise ConfigError(f"{shown(text)} is not between 1 and {size_text(AMOUNT_MOST)}")
    return amount


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{shown(text)} is not a date such as 2027-01-31") from None


@dataclass(frozen=True)
class OwnerTerms:
    """The share and quotas of an owner.

    Attributes:
        share: the number of turns that the owner gets for each turn of an owner with share 1.
        tasks: the most open tasks that the owner may have at a time; 0: no limit.
        n_bytes: the most bytes of the owner's values that the scheduler may keep or know of; 0: no limit.
    """

    share: int = 1
    tasks: int = 0
    n_bytes: int = 0


USUAL = OwnerTerms()

_OPTIONS: dict[str, Callable[[str], Any]] = {
    "share": share_of, "tasks": amount_of, "bytes": amount_of, "until": _day, "revoked": _day,
}  # fmt: skip


@dataclass(frozen=True)
class AllowedKey:
    """A key on the list of a scheduler, with its owner and options.

    Attributes:
        role, name: the role and the name of the owner.
        terms: the share and quotas of the owner.
        until: the last day on which the key is valid; None: the key does not expire.
        revoked: the day on which the key was revoked; None: the key is not revoked.
    """

    role: str
    name: str
    public: str
    terms: OwnerTerms = USUAL
    until: date | None = None
    revoked: date | None = None

    def __str__(self) -> str:
        return " ".join((self.role, self.name, self.public, *self.options()))

    def options(self) -> list[str]:
        """Return the options of the key as the words that follow role, name and public key on its line."""
        terms = self.terms
        fields = {
            "share": str(terms.share) if terms.share != 1 else "",
            "tasks": size_text(terms.tasks) if terms.tasks else "",
            "bytes": size_text(terms.n_bytes) if terms.n_bytes else "",
            "until": str(self.until or ""),
            "revoked": str(self.revoked or ""),
        }
        return [f"{word}={value}" for word, value in fields.items() if value]

    def why_invalid(self, today: date) -> str:
        """Return why the key is not valid on the day `today`; empty if the key is valid."""
        if self.revoked is not None:
            return f"it was revoked on {self.revoked}"
        return f"it was valid until {self.until}" if self.until is not None and self.until < today else ""

    @classmethod
    def parse(cls, line: str) -> AllowedKey:
        """Return the key that a line describes. Raise `ConfigError` if the line describes no key."""
        role, name, public, *options = [*line.split(maxsplit=3), "", "", ""][:4]
        if role not in ROLES:
            raise ConfigError(f"{shown(role)} is not a role: use {', '.join(ROLES[:-1])} or {ROLES[-1]}")
        check_name(name)
        if not is_key(public):
            raise ConfigError(f"the text after the name {name} is not a public key")
        fields: dict[str, Any] = {}
        for option in options[0].split():
            word, _, value = option.partition("=")
            if word not in _OPTIONS:
                raise ConfigError(f"unknown option {shown(option)}: use {', '.join(f'{each}=' for each in _OPTIONS)}")
            try:
                fields[word] = _OPTIONS[word](value)
            except ConfigError as error:
                raise ConfigError(f"{word}: {error}") from None
        terms = OwnerTerms(fields.pop("share", 1), fields.pop("tasks", 0), fields.pop("bytes", 0))
        return cls(role, name, public, terms, **fields)


class Lockout(NamedTuple):
    """The reason why no work of an owner may start: no key of that owner is valid."""

    reason: str
    is_expiry: bool
    """whether the owner's last key has expired, so that running work may finish; False if it was revoked"""


class AllowedKeys(Mapping[str, AllowedKey]):
    """All keys on the list of a scheduler, by public key, in the order of the list."""

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
    def parse(cls, text: str) -> AllowedKeys:
        """Return the list that a text describes. Only a line feed ends a line; empty lines and `#` lines are ignored.

        Raises:
            ConfigError: if a line describes no key, or two lines have the same key; the error names the line.
        """
        keys: dict[str, AllowedKey] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                try:
                    key = AllowedKey.parse(line)
                except ConfigError as error:
                    raise ConfigError(f"line {number}: {error}") from None
                if key.public in keys:
                    raise ConfigError(f"line {number}: the key of {key.name} is on the list twice")
                keys[key.public] = key
        return cls(keys.values())

    def lockout_of(self, owner: str, today: date, roles: Collection[str]) -> Lockout | None:
        """Return why no work of an owner may start; None if the owner has a valid key with one of these `roles`."""
        keys = [key for key in self.values() if key.name == owner and key.role in roles]
        ends = {key: why for key in keys if (why := key.why_invalid(today))}
        if len(ends) < len(keys):
            return None
        last = max(ends, key=lambda key: (key.revoked or key.until or today, key.revoked is not None), default=None)
        why = "no key that may submit is on the list" if last is None else ends[last]
        reason = f"its owner, {owner}, has no valid key: {why}. Allow a key with that name, and it continues"
        return Lockout(reason, last is not None and last.revoked is None)

    def named(self, name: str, today: date) -> list[AllowedKey]:
        """Return the valid keys of an owner."""
        return [key for key in self.values() if key.name == name and not key.why_invalid(today)]
