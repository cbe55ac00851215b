"""HistoryStore: stores history, events and failures in a SQLite file, so that they survive a restart.

The file is bounded in age and size, contains only data of the monitor stream, and is not readable by other users.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scaler.config import ConfigError
from scaler.monitor.model.history import RINGS, SERIES, History
from scaler.wire.messages.monitor import StateEvent, StateFailure

VERSION = 1
EVENTS_MOST = 5_000
FAILURES_MOST = 1_000
_TABLES = """
CREATE TABLE IF NOT EXISTS steps (step INTEGER, number INTEGER, row BLOB, PRIMARY KEY (step, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, time_us INTEGER, kind TEXT, subject TEXT, reason TEXT);
CREATE TABLE IF NOT EXISTS failures (failure BLOB PRIMARY KEY, last_us INTEGER, state TEXT) WITHOUT ROWID;
"""


class HistoryStore:
    """Stores history, events and failures in one file, which is created if it does not exist.

    Raises:
        ConfigError: if the file cannot be used, or is not such a store.
    """

    def __init__(self, file: Path) -> None:
        self.lost = 0
        """the number of failed writes"""
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(file, timeout=2)
            try:
                self._open()
            except sqlite3.Error:
                self._database.close()
                raise
        except OSError as error:
            raise ConfigError(f"the store {file} cannot be opened: {error.strerror or error}") from None
        except sqlite3.Error as error:
            raise ConfigError(f"{file} is not a store of scaler_ui, or another scaler_ui uses it: {error}") from None

    def _open(self) -> None:
        database = self._database
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version not in (0, VERSION) or (version == 0 and tables):
            raise sqlite3.DatabaseError(f"its version is {version}, not {VERSION}")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(_TABLES)
        database.execute(f"PRAGMA user_version = {VERSION}")

    def load(self, history: History) -> tuple[list[StateEvent], list[StateFailure]]:
        """Add the stored steps to a history. Return the events and failures, the oldest first."""
        for ring in history.rings:
            for number, blob in self._database.execute(
                "SELECT number, row FROM steps WHERE step = ? ORDER BY number", (ring.step,)
            ):
                row = array("f", blob)
                if len(row) == len(SERIES):
                    ring.put(number, row)
        events = self._database.execute("SELECT time_us, kind, subject, reason FROM events ORDER BY id").fetchall()
        failures = self._database.execute("SELECT state FROM failures ORDER BY last_us").fetchall()
        return [StateEvent(*event) for event in events], [_failure_of(text) for (text,) in failures]

    def keep_step(self, step: int, number: int, row: Sequence[float]) -> None:
        """Store the values of one step, and delete steps that are too old."""
        with self._writing():
            blob = array("f", row).tobytes()
            self._database.execute("INSERT OR REPLACE INTO steps VALUES (?, ?, ?)", (step, number, blob))
            oldest = number - dict(RINGS)[step]
            self._database.execute("DELETE FROM steps WHERE step = ? AND number <= ?", (step, oldest))

    def keep_events(self, events: Iterable[StateEvent]) -> None:
        """Store new events, and delete the oldest events above the limit."""
        with self._writing():
            self._database.executemany(
                "INSERT INTO events (time_us, kind, subject, reason) VALUES (?, ?, ?, ?)",
                [(event.time_us, event.kind, event.subject, event.reason) for event in events],
            )
            self._database.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (EVENTS_MOST,))

    def keep_failures(self, failures: Iterable[StateFailure]) -> None:
        """Store the newest state of each kind of failure, and delete the oldest kinds above the limit."""
        with self._writing():
            self._database.executemany(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?)",
                [(failure.failure, failure.last_us, _text_of(failure)) for failure in failures],
            )
            self._database.execute(
                "DELETE FROM failures WHERE failure NOT IN "
                "(SELECT failure FROM failures ORDER BY last_us DESC LIMIT ?)",
                (FAILURES_MOST,),
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Within a transaction, ignore errors of the database, because a full disk should cost only history."""
        try:
            with self._database:
                yield
        except sqlite3.Error:
            self.lost += 1

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _text_of(failure: StateFailure) -> str:
    values = {field.name: getattr(failure, field.name) for field in dataclasses.fields(failure)}
    return json.dumps({name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()})


def _failure_of(text: str) -> StateFailure:
    values = json.loads(text)
    for name in ("failure", "function", "task"):
        values[name] = bytes.fromhex(values[name])
    return StateFailure(**values)
