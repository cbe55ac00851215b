"""Reopened: the rows that run again after they had ended; results of earlier runs at agents do not count for them.

Used by the record. A row is removed from the table when it ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection


class Reopened:
    """The rows of one job that run again, in memory and on disk."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.read()

    def read(self) -> None:
        """Read the rows from disk."""
        self.rows: set[int] = {row for (row,) in self._connection.execute("SELECT row FROM reopened")}

    def add(self, rows: Collection[int]) -> None:
        """Add rows that run again."""
        self.rows.update(rows)
        self._connection.executemany("INSERT OR IGNORE INTO reopened VALUES (?)", ((row,) for row in rows))

    def end(self, row: int, n_rows: int) -> None:
        """Remove consecutive rows that have ended."""
        ended = self.rows.intersection(range(row, row + n_rows))
        if ended:
            self.rows -= ended
            self._connection.executemany("DELETE FROM reopened WHERE row = ?", ((each,) for each in ended))

    def truncate(self, n_rows: int) -> None:
        """Remove the rows from `n_rows` on."""
        self.end(n_rows, max(self.rows, default=0) + 1 - n_rows)
