"""A program that keeps a job and records what is on disk, for power cuts: python job_writer.py FOLDER."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

from scaler.jobs.folder import JobFolder
from scaler.jobs.record import DONE, JobTerms, RowResult
from scaler.jobs.value_files import IN_DATABASE_BYTES
from scaler.jobs.values import RowArguments, pack, pack_rows
from scaler.jobs.writer import JobWriter

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price")
RANGE, N_RANGES = 40, 10
MARKS = "marks"
NEIGHBOURS = range(73, 80)
"""rows whose results arrive together"""


def row_of(number: int) -> RowArguments:
    return RowArguments(b"%d" % number, b"", (bytes(IN_DATABASE_BYTES),) if number == RANGE else ())


def digests_of(first: int) -> bytes:
    return b"".join((row + 1).to_bytes(8, "little") for row in range(first, first + RANGE))


def result_of(number: int, is_again: bool = False) -> RowResult:
    """Return the result of a row: each ninth fails the first time, and each fiftieth is large."""
    if number % 9 == 0 and not is_again:
        return RowResult(number, 1, (b"failed %d" % number,))
    size = 3 * IN_DATABASE_BYTES if number % 50 == 1 else number % 300
    return RowResult(number, 0, (b"%d:" % number + bytes(size),))


def together_of(numbers: range) -> RowResult:
    """Return the result of neighbouring rows whose results arrive together."""
    return RowResult(numbers[0], 0, (pack([result_of(row).frames[0] for row in numbers]),), len(numbers))


def main(folder: Path) -> None:
    """Keep a job from its start to its end, one group after the other."""
    marks = os.open(folder / MARKS, os.O_WRONLY | os.O_CREAT, 0o600)

    def mark(what: str) -> Any:
        return lambda _value, error: os.write(marks, f"{what}\n".encode()) if error is None else sys.exit(str(error))

    keep, writer, chance = JobFolder(folder / "keep"), JobWriter(has_thread=False), random.Random(3)
    record = keep.create(TERMS)
    os.write(marks, b"created\n")
    for first in range(0, N_RANGES * RANGE, RANGE):
        block = pack_rows([row_of(row) for row in range(first, first + RANGE)])
        writer.order(
            record, lambda f=first, b=block: record.add_range(f, RANGE, b"", digests_of(f), b), mark(f"range {first}")
        )
        numbers: list[int | range] = [*range(max(0, first - RANGE), first)]
        if first == NEIGHBOURS.stop:
            numbers = [row for row in numbers if row not in NEIGHBOURS] + [NEIGHBOURS]
        chance.shuffle(numbers)
        for row in numbers:
            if isinstance(row, range):
                marks_now = "\n".join(f"row {each}" for each in row)
                writer.order(record, lambda row=row: record.add_results([together_of(row)]), mark(marks_now))
            else:
                writer.order(record, lambda row=row: record.add_results([result_of(row)]), mark(f"row {row}"))
            if chance.random() < 0.2:
                writer.work()
        writer.work()
        if first == RANGE * N_RANGES // 2:
            writer.order(record, record.reopen_failed, mark("retry"))
            writer.work()
    writer.order(record, lambda: record.seal(record.rows), mark("seal"))
    writer.order(record, lambda: record.move(DONE), mark("end"))
    writer.work()
    record.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
