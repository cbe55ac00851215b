"""JobVersions: the terms of a job, one row for each version; a corrected function starts a new version.

Used by the record.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, fields, replace
from math import isfinite
from types import NoneType
from typing import Any

from scaler.jobs.names import check_job_name
from scaler.jobs.tables.checksums import sum_of
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.terms import JobTerms
from scaler.texts import NAME_CHARACTERS, printable

COLUMNS = "number, terms, prefix, function_id, options, sum"


class JobVersions:
    """Reads and writes the terms of all versions of one job. Raises `RecordError` if terms are missing or damaged."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._owner: str | None = None
        self.all: list[JobTerms] = []
        self.read()

    def read(self) -> None:
        """Read all versions from disk."""
        found = self._connection.execute(f"SELECT {COLUMNS} FROM versions ORDER BY number")  # noqa: S608 - a constant
        self.all = []
        for row in found:
            if row[0] != len(self.all):
                raise RecordError(f"it holds no complete job: its version {len(self.all)} is missing")
            self.all.append(self._terms_of(row))
        if not self.all:
            raise RecordError("it holds no complete job: its terms are missing")

    def _terms_of(self, row: tuple[Any, ...]) -> JobTerms:
        try:
            if row[5] != _sum_of(*row[:5]):
                raise ValueError("their checksum does not match")
            terms = JobTerms(
                **{**json.loads(row[1]), "prefix": row[2], "function_id": row[3], "options": row[4], "version": row[0]}
            )
            _check_types(terms)
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RecordError(f"its terms are damaged: {printable(str(error), NAME_CHARACTERS)}") from None
        return terms if self._owner is None else replace(terms, owner=self._owner)

    @property
    def latest(self) -> JobTerms:
        return self.all[-1]

    def add(self, terms: JobTerms) -> None:
        """Append the terms of a new version, with the next number."""
        terms = replace(terms, version=len(self.all))
        write(self._connection, terms)
        self.all.append(terms)

    def set_function(self, function_id: bytes) -> None:
        """Replace the function of the latest version."""
        self._change(replace(self.latest, function_id=function_id))

    def set_keep_seconds(self, seconds: float) -> None:
        """Replace the time for which the job is kept after its last change."""
        self._change(replace(self.latest, keep_seconds=seconds))

    def _change(self, terms: JobTerms) -> None:
        write(self._connection, terms)
        self.all[-1] = terms

    def belong_to(self, owner: str) -> None:
        """Replace the owner in the terms of all versions, in memory only."""
        self._owner = owner
        self.all = [replace(each, owner=owner) for each in self.all]


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,), "bytes": (bytes,), "int": (int,), "bool": (bool,), "float": (int, float), "dict[str, str]": (dict,),
    "float | None": (int, float, NoneType),
}  # fmt: skip


def _check_types(terms: JobTerms) -> None:
    """Raise `TypeError` or `ValueError` if a value in the terms has a wrong type, or is not a finite number."""
    for each in fields(terms):
        value = getattr(terms, each.name)
        if type(value) not in _KINDS[str(each.type)]:
            raise TypeError(f"{each.name} is not of the type {each.type}")
        if type(value) is float and not isfinite(value):
            raise ValueError(f"{each.name} is {value}, which is not a finite number")
    if not all(type(each) is str for each in terms.fingerprint.values()):
        raise TypeError("fingerprint is not of the type dict[str, str]")
    check_job_name(terms.name)


def write(connection: sqlite3.Connection, terms: JobTerms) -> None:
    """Write the terms of a version."""
    plain = {key: value for key, value in asdict(terms).items() if type(value) is not bytes}
    row = (terms.version, json.dumps(plain), terms.prefix, terms.function_id, terms.options)
    connection.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?)", (*row, _sum_of(*row)))


def _sum_of(number: int, terms: str, prefix: bytes, function_id: bytes, options: bytes) -> bytes:
    return sum_of((terms.encode(), prefix, function_id, options), number)
