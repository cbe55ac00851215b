"""Facts: single values of a job by key: its state, its number of commits, the names of damaged data.

Used by the record. Each fact has a checksum; a damaged fact counts as missing.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

_KINDS: dict[str, tuple[type, ...]] = {
    "state": (str,), "reason": (str,), "lost": (str,), "damaged": (str,), "requests": (str,), "marked": (bytes,),
    "changed": (int, float), "is_sealed": (int,), "commits": (int,), "revision": (int,), "compared": (int,),
}  # fmt: skip

PLACE = "place-"
"""Prefix of the keys of facts about processes in which rows failed. A job is usable without such a fact."""


class Facts:
    """The facts of one job, including uncommitted changes. A fact whose value has a wrong type counts as damaged.

    Outside of a transaction, and in a read-only record, facts change in memory only.
    """

    def __init__(self, connection: sqlite3.Connection, is_writing: bool = True) -> None:
        self._connection, self._is_writing = connection, is_writing
        self._values: dict[str, Any] = {}
        self.damaged: list[str] = []
        self.read()

    @property
    def _is_changing(self) -> bool:
        return self._is_writing and self._connection.in_transaction

    def read(self) -> None:
        """Read all facts from disk."""
        self._values, self.damaged = {}, []
        for key, value, checksum in self._connection.execute("SELECT key, value, sum FROM job"):
            if checksum == _sum_of(str(key), value) and type(value) in _KINDS.get(key, (type(value),)):
                self._values[key] = value
            elif not str(key).startswith(PLACE):
                self.damaged.append(key)

    def get(self, key: str, otherwise: Any) -> Any:
        """Return a fact, or `otherwise` if the fact is missing."""
        return self._values.get(key, otherwise)

    def count(self, prefix: str) -> int:
        """Return the number of facts whose keys have a prefix."""
        return sum(key.startswith(prefix) for key in self._values)

    def set(self, key: str, value: Any) -> None:
        """Change a fact."""
        self._values[key] = value
        if self._is_changing:
            row = (key, value, _sum_of(key, value))
            self._connection.execute("INSERT OR REPLACE INTO job VALUES (?, ?, ?)", row)

    def mend(self, **values: Any) -> None:
        """Delete damaged facts, and set the given facts."""
        for key in self.damaged if self._is_changing else ():
            self._connection.execute("DELETE FROM job WHERE key = ?", (key,))
        for key, value in values.items():
            self.set(key, value)
        self.damaged = []


def _sum_of(key: str, value: Any) -> int:
    return zlib.crc32(value if type(value) is bytes else repr(value).encode(), zlib.crc32(key.encode()))
