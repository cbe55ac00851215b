"""Folders of jobs with content that Scaler does not write, as a user may receive them from others."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from scaler.jobs.folder import JobFolder
from scaler.jobs.record import DATABASE, JobObject, JobTerms, RowResult
from scaler.jobs.tables import versions
from scaler.jobs.tables.facts import Facts
from scaler.jobs.tables.objects import FUNCTION
from scaler.jobs.value_files import IN_DATABASE_BYTES
from scaler.jobs.values import RowArguments, pack, pack_rows

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price", keep_seconds=10.0, created=1.0)
ROWS = 120
PAGE = 4096


def make_job(folder: Path) -> Path:
    """Make a folder with one job that has every kind of content: ranges, files, failures. Return the job's folder."""
    jobs = JobFolder(folder)
    record = jobs.create(TERMS)
    record.begin()
    record.add_object(JobObject(b"f" * 16, FUNCTION, "price", (b"code",)))
    record.add_object(JobObject(b"v" * 16, 1, "table", (bytes(IN_DATABASE_BYTES + 1),)))
    for first in range(0, ROWS, ROWS // 3):
        block = pack_rows([RowArguments(b"%d" % row) for row in range(first, first + ROWS // 3)])
        digests = b"".join((row + 1).to_bytes(8, "little") for row in range(first, first + ROWS // 3))
        record.add_range(first, ROWS // 3, b"d", digests, block)
    record.add_results([RowResult(row, int(row % 7 == 3), (b"%d" % row,)) for row in range(60)])
    record.add_results([RowResult(60, 0, (bytes(IN_DATABASE_BYTES + 1),)), RowResult(61, 0, (pack([b"a", b"b"]),), 2)])
    record.commit()
    record.checkpoint()
    place = record.folder
    jobs.shut(record)
    jobs.close()
    return place


def change(place: Path, do: Callable[[sqlite3.Connection], object]) -> None:
    connection = sqlite3.connect(place / DATABASE, isolation_level=None)
    try:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("BEGIN")
        do(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def statement(*texts: str) -> Callable[[Path], None]:
    """Return a function that executes statements in the database of a job."""
    return lambda place: change(place, lambda connection: [connection.execute(text) for text in texts])


def fact(key: str, value: object) -> Callable[[Path], None]:
    """Return a function that sets a fact of a job, with its checksum."""
    return lambda place: change(place, lambda connection: Facts(connection).set(key, value))


def terms(**changes: object) -> Callable[[Path], None]:
    """Return a function that changes the terms of a job, with their checksum."""

    def forge(place: Path) -> None:
        forged = JobTerms(**{**vars(TERMS), **changes})  # type: ignore[arg-type]
        change(place, lambda connection: versions.write(connection, forged))

    return forge


def endless_pages(place: Path) -> None:
    """Replace a table by six levels of pages, each of which names the next one 400 times: 4 * 10**15 leaves."""
    statement("DELETE FROM ranges WHERE first > 0", f"UPDATE ranges SET count = {ROWS}")(place)
    file = place / DATABASE
    connection = sqlite3.connect(file)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'results'").fetchone()
    connection.close()
    content = bytearray(file.read_bytes())
    leaf = bytes(content[(root - 1) * PAGE : root * PAGE])
    numbers = [root, *range(len(content) // PAGE + 1, len(content) // PAGE + 7)]
    content += bytes(6 * PAGE)
    for number, below in pairwise(numbers):
        cell = struct.pack(">I", below) + b"\x01"
        start = PAGE - 400 * len(cell)
        pointers = b"".join(struct.pack(">H", start + len(cell) * at) for at in range(400))
        page = struct.pack(">BHHHBI", 5, 0, 400, start, 0, below) + pointers
        content[(number - 1) * PAGE : number * PAGE] = page.ljust(start, b"\0") + cell * 400
    content[(numbers[-1] - 1) * PAGE :] = leaf
    content[28:32] = struct.pack(">I", numbers[-1])
    file.write_bytes(content)


VIEW = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)"
FORGERIES: dict[str, Callable[[Path], None]] = {
    "view": statement("DROP TABLE results", f"CREATE VIEW results AS {VIEW} SELECT i AS row, 1 AS count, 0 AS how, "
                      "NULL AS sizes, 0 AS sums, x'00' AS value FROM n"),
    "trigger": statement("CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM results; END"),
    "table": statement("CREATE TABLE extra (a)"),
    "generated": statement("DROP TABLE reopened", "CREATE TABLE reopened (a INTEGER PRIMARY KEY, row AS (a * 2))"),
    "index": statement("CREATE INDEX other ON results (how)"),
    "kept aside": statement('CREATE TABLE "damaged_1" (row INTEGER PRIMARY KEY, evil DEFAULT (randomblob(9)))'),
    "count": statement("UPDATE ranges SET count = 4611686018427387904"),
    "rows": statement("UPDATE ranges SET count = 100000000"),
    "negative": statement("UPDATE ranges SET count = -5"),
    "text": statement("UPDATE counts SET done = 'many'"),
    "pages": endless_pages,
    "blob": statement("UPDATE objects SET sizes = zeroblob(5000000)", "UPDATE ranges SET digest = zeroblob(5000000)"),
    "state": fact("state", "\x1b]0;pwned\x07"),
    "reason": fact("reason", "\x1b]0;pwned\x07"),
    "lost": fact("lost", "\x1b]0;pwned\x07"),
    "key": statement("INSERT INTO job VALUES (char(27) || ']0;pwned', 1, 1)"),
    "changed": fact("changed", float("inf")),
    "nested": fact("damaged", "[" * 100_000),
    "marked": fact("marked", 2**62),
    "name": terms(name="\x1b]0;pwned\x07"),
    "number": terms(name=5),
    "list": terms(function=["price"]),
    "created": terms(created=float("nan")),
    "version": statement("UPDATE versions SET number = 7"),
}  # fmt: skip

HOSTILE = [None, -1, 0, 2**31, 2**62, -(2**63), 1e308, float("inf"), "", "x" * 1000, b"", bytes(10), bytes(100_000)]
HOSTILE += ["[" * 100_000, "\x1b]0;x\x07", "[[]]", b"\xff" * 64, '{"name": []}']
COLUMNS = {
    "job": ("value", "sum"), "versions": ("number", "terms", "prefix", "function_id", "options", "sum"),
    "objects": ("id", "kind", "name", "sizes", "sum", "value"), "reopened": ("row",),
    "ranges": ("first", "count", "digest", "sizes", "sum", "digests", "value"),
    "counts": ("first", "done", "failed", "duration_us"), "results": ("row", "count", "how", "sizes", "sums", "value"),
}  # fmt: skip
FACTS = (
    "state",
    "reason",
    "lost",
    "damaged",
    "requests",
    "marked",
    "changed",
    "is_sealed",
    "commits",
    "revision",
    "new",
)


def forge(place: Path, chance: random.Random) -> None:
    """Forge something at random: bytes, values, facts with their checksums, or the schema."""
    kind = chance.random()
    if kind < 0.45:
        file = place / chance.choice((DATABASE, DATABASE, DATABASE, "witness", "values/row-60"))
        content = bytearray(file.read_bytes())
        for _ in range(chance.choice((1, 1, 3, 20, 200))):
            at = chance.randrange(min(len(content), chance.choice((100, PAGE, len(content)))))
            content[at] = chance.choice((0, 1, 5, 13, 127, 255, chance.randrange(256)))
        file.write_bytes(content[: chance.choice((None, None, None, chance.randrange(len(content))))])
    elif kind < 0.75:
        table = chance.choice(list(COLUMNS))
        update = f"UPDATE OR IGNORE {table} SET {chance.choice(COLUMNS[table])} = ? WHERE random() % 2"
        change(place, lambda connection: connection.execute(update, (chance.choice(HOSTILE),)))
    elif kind < 0.9:
        fact(chance.choice(FACTS), chance.choice(HOSTILE))(place)
    else:
        chance.choice(list(FORGERIES.values()))(place)
