"""Schema: the tables of the record of one job, and how its database is opened.

Used by the record. Each change of a table raises `VERSION`.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

APPLICATION_ID = 0x53434A42
"""`SCJB` in the header of each database, which identifies it, also to `file`."""

VERSION = 3
"""Version of the tables. A record of another version is refused."""

CHECKPOINT_PAGES = 128
"""Length of the write-ahead log from which a commit moves it into the database: 512 KiB."""

BUSY_SECONDS = 10.0
"""How long SQLite waits for another process that reads the record."""

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
"""Separate, because this table is recreated when its pages are damaged."""


class RecordError(Exception):
    """Error for an unusable record."""


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


def open_writing(file: Path) -> sqlite3.Connection:
    """Open a database for writing.

    Raises:
        RecordError: if the file is not a job record, or has another version.
        sqlite3.Error: if the database is damaged.
    """
    connection = _checked(_connect(file, "rw"), file)
    _be_durable(connection)
    return connection


def open_reading(file: Path) -> sqlite3.Connection:
    """Open a database read-only, also while a scheduler writes it, or on a read-only disk.

    Raises: as `open_writing`.
    """
    log = file.with_name(f"{file.name}-wal")
    is_still = not os.access(file.parent, os.W_OK) and not (log.exists() and log.stat().st_size)
    return _checked(_connect(file, "ro&immutable=1" if is_still else "ro"), file)


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    # Transactions are explicit; the clerk's thread uses connections that another thread has opened.
    where = f"{file.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(where, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")  # damaged text is detected by its checksum
    return connection


def _be_durable(connection: sqlite3.Connection) -> None:
    """Make each commit wait for the disk."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_PAGES * 4096}")


def _checked(connection: sqlite3.Connection, file: Path) -> sqlite3.Connection:
    try:
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
    except BaseException:  # raised again
        connection.close()
        raise
    return connection
