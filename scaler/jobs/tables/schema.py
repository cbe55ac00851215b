"""Schema: the tables of the record of one job, and how its database is opened.

Used by the record. `VERSION` increases with each change of a table.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
from itertools import chain, repeat
from operator import length_hint
from pathlib import Path
from typing import Any

from scaler.texts import NAME_CHARACTERS, printable

APPLICATION_ID = 0x53434A42
"""The text `SCJB` in the header of each database, which identifies the database, also for the command `file`."""

VERSION = 3
"""Version of the tables. A record of another version is refused."""

CHECKPOINT_PAGES = 128
"""Length of the write-ahead log, in pages, from which a commit moves the log into the database: 512 KiB."""

BUSY_SECONDS = 10.0
"""How long SQLite waits while another process has the record locked."""

TABLES = """
CREATE TABLE job (key TEXT PRIMARY KEY, value, sum INTEGER) WITHOUT ROWID;
CREATE TABLE versions (
    number INTEGER PRIMARY KEY, terms TEXT, prefix BLOB, function_id BLOB, options BLOB, sum BLOB);
CREATE TABLE objects (id BLOB PRIMARY KEY, kind INTEGER, name TEXT, sizes BLOB, sum BLOB, value BLOB);
CREATE TABLE ranges (
    first INTEGER PRIMARY KEY, count INTEGER, digest BLOB, sizes BLOB, sum BLOB, digests BLOB, value BLOB);
CREATE TABLE reopened (row INTEGER PRIMARY KEY);
CREATE TABLE counts (first INTEGER PRIMARY KEY, done INTEGER, failed INTEGER, duration_us INTEGER);
"""
RESULTS = (
    "CREATE TABLE results (row INTEGER PRIMARY KEY, count INTEGER, how INTEGER, sizes BLOB, sums BLOB, value BLOB)",
    "CREATE INDEX files ON results (row) WHERE value IS NULL",
)
"""The statements that create the table of results. They run again when pages of the table are damaged."""

DAMAGED_TABLE = "damaged_"
"""Prefix of the names of damaged tables of results, which are kept."""

STEPS, STEPS_PER_BYTE, STEPS_IN_ONE_GO = 2_000_000, 16, 100_000
"""How many steps SQLite may take in one record: this number plus `STEPS_PER_BYTE` for each byte of the database. The
limit ends loops through damaged pages that refer to each other. It is checked after each `STEPS_IN_ONE_GO` steps.
"""

READ_BYTES, READ_PER_BYTE, ROW_BYTES = 64 << 20, 16, 16
"""How many bytes may be read from one record: this number plus `READ_PER_BYTE` for each byte of the database. A row
counts as its texts and blobs plus `ROW_BYTES`.
"""

TOO_MUCH = (
    "reading its database takes more work than a database of its size can need, so it is damaged or forged: restore "
    "the job from a copy, or remove its folder"
)


class RecordError(Exception):
    """Error for a record that cannot be used."""


class RecordConnection(sqlite3.Connection):
    """A database connection. Until `lift_limits` is called, it reads only what the size of the database allows."""

    _steps = repeat(False, 0)
    _n_bytes = 0

    def limit(self, n_bytes: int) -> None:
        """Limit the total work of all further statements. `n_bytes`: the size of the database."""
        self._steps = repeat(False, (STEPS + STEPS_PER_BYTE * n_bytes) // STEPS_IN_ONE_GO)
        self._n_bytes = READ_BYTES + READ_PER_BYTE * n_bytes
        # Not a function of Python: SQLite would take a KeyboardInterrupt in it for its answer.
        self.set_progress_handler(chain(self._steps, repeat(True)).__next__, STEPS_IN_ONE_GO)
        self.row_factory = self._count_row

    def lift_limits(self) -> None:
        """Read without limits from now on."""
        self.set_progress_handler(None, 0)
        self.row_factory = None

    def _count_row(self, _cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self._n_bytes -= ROW_BYTES + sum(len(each) for each in row if isinstance(each, bytes | str))
        if self._n_bytes < 0:
            raise RecordError(TOO_MUCH)
        return row

    def explain(self, error: sqlite3.Error) -> Exception:
        """Return `error`, or, if the limit of steps has caused it, a `RecordError` that explains the limit."""
        return error if length_hint(self._steps) else RecordError(TOO_MUCH)


def create(file: Path) -> sqlite3.Connection:
    """Create a new database."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    file.chmod(0o600)  # whatever the umask; SQLite gives its other files the same mode
    connection = _connect(file, "rw")
    connection.executescript(
        f"PRAGMA page_size = 4096; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    )
    _be_durable(connection)
    connection.executescript(f"BEGIN; {TABLES} {';'.join(RESULTS)}; COMMIT;")
    return connection


def open_writing(file: Path) -> RecordConnection:
    """Open a database for writing.

    Raises:
        RecordError: if the file is not a job record, or has another version.
        sqlite3.Error: if the database is damaged.
    """
    connection = _checked(_connect(file, "rw"), file)
    _be_durable(connection)
    return connection


def open_reading(file: Path) -> RecordConnection:
    """Open a database read-only, also on a read-only disk or while a scheduler writes. Raises as `open_writing`."""
    log = file.with_name(f"{file.name}-wal")
    is_still = not os.access(file.parent, os.W_OK) and not (log.exists() and log.stat().st_size)
    return _checked(_connect(file, "ro&immutable=1" if is_still else "ro"), file)


def _connect(file: Path, mode: str) -> RecordConnection:
    # Transactions are explicit; the job writer's thread uses connections that another thread has opened.
    where = f"{file.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        where, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True, factory=RecordConnection
    )
    connection.text_factory = lambda text: text.decode("utf-8", "replace")  # damaged text is detected by its checksum
    return connection


def _be_durable(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_PAGES * 4096}")


def files_of(file: Path) -> list[Path]:
    """Return the files of a database: the database, its write-ahead log, and the index of the log."""
    return [file.with_name(f"{file.name}{ending}") for ending in ("", "-wal", "-shm")]


def size_of(file: Path) -> int:
    """Return the bytes of a database and its write-ahead log."""
    n_bytes = 0
    for each in files_of(file)[:2]:
        with contextlib.suppress(FileNotFoundError):  # the log is removed with the last connection
            n_bytes += each.stat().st_size
    return n_bytes


def _checked(connection: RecordConnection, file: Path) -> RecordConnection:
    try:
        connection.limit(size_of(file))
        connection.execute("PRAGMA trusted_schema = OFF")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise RecordError(f"{file} is not a job record")
        if version != VERSION:
            which = "a later" if version > VERSION else "an earlier"
            raise RecordError(
                f"{file} was written by {which} version of Scaler (its tables have version {version}, and this one "
                f"reads version {VERSION}): use that version of Scaler"
            )
        _check_schema(connection, file)
    except sqlite3.Error as error:
        connection.close()
        raise connection.explain(error) from None
    except BaseException:  # raised again
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, file: Path) -> None:
    """Raise `RecordError` unless a database has exactly the tables and indexes of a record: no view and no trigger."""
    found: set[tuple[str, ...]] = set()
    for each in connection.execute(_SCHEMA):
        if not _is_damaged_table(each):
            found.add(each)
    other = found ^ _schema()
    if other:
        kind, name, *_ = min(other, key=str)
        raise RecordError(
            f"{file} is not a job record as Scaler writes it: its {printable(str(kind), 20)} "
            f"{printable(str(name), NAME_CHARACTERS)} is missing, different or extra; restore the job from a copy"
        )


_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"


@functools.cache
def _schema() -> frozenset[tuple[str, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(f"{TABLES} {';'.join(RESULTS)};")
        return frozenset(connection.execute(_SCHEMA))
    finally:
        connection.close()


def _is_damaged_table(found: tuple[Any, ...]) -> bool:
    """Return whether an entry of the schema is a damaged table of results, which SQLite has renamed."""
    kind, name, table, sql = found
    is_named = type(name) is str and re.fullmatch(f"{DAMAGED_TABLE}[0-9]{{1,9}}", name)
    return bool(is_named) and (kind, table, sql) == ("table", name, RESULTS[0].replace("results", f'"{name}"', 1))
