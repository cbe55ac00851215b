"""What it costs to keep a job: the record alone, in one process: rows written, results made durable, and recovery.

    python tests/benchmarks/job_record.py                        a million rows: some ten seconds
    python tests/benchmarks/job_record.py --rows 10000000        recovery of many
    python tests/benchmarks/job_record.py --folder /scratch      the disk to use, else /var/tmp

Each group of results is one transaction, and on disk before the next one begins.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from scaler.jobs.folder import JobFolder
from scaler.jobs.record import JobRecord, JobTerms, RowResult
from scaler.jobs.values import RowArguments, pack, pack_rows

TERMS = JobTerms("bench", "me", b"12345678", b"f" * 16, "f")
RANGE, TOGETHER = 4096, 256
ARGUMENTS, RESULT = bytes(20), bytes(10)


def fill(record: JobRecord, n_rows: int) -> None:
    for first in range(0, n_rows, RANGE):
        count = min(RANGE, n_rows - first)
        record.begin()
        record.add_range(first, count, b"d" * 16, os.urandom(8 * count), pack_rows([RowArguments(ARGUMENTS)] * count))
        record.commit()


def end_all(record: JobRecord, n_rows: int, group: int) -> None:
    for first in range(0, n_rows, group):
        record.begin()
        record.add_results([RowResult(row, 0, (RESULT,)) for row in range(first, min(n_rows, first + group))])
        record.commit()


def end_together(record: JobRecord, n_rows: int, rows: int) -> None:
    block = pack([RESULT] * rows)
    for first in range(0, n_rows - rows + 1, RANGE):
        record.begin()
        record.add_results([RowResult(row, 0, (block,), rows) for row in range(first, first + RANGE, rows)])
        record.commit()


def timed(what: str, n_rows: int, act: object, *arguments: object) -> None:
    begin, cpu = time.perf_counter(), time.process_time()
    act(*arguments)  # type: ignore[operator]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"| {what} | {n_rows:,} | {n_rows / seconds:,.0f} | {1e6 * cpu / n_rows:.2f} | {seconds:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/var/tmp", help="on the disk to use")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--group", type=int, default=1024, help="results of a transaction")
    arguments = parser.parse_args()
    n_rows = arguments.rows
    print("| | rows | rows/s | us of processor time a row | s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder = JobFolder(Path(place) / "keep")
        record = folder.create(TERMS)
        timed(f"arguments, {RANGE} a transaction", n_rows, fill, record, n_rows)
        timed(f"results, {arguments.group} a transaction", n_rows, end_all, record, n_rows, arguments.group)
        record.close()
        timed("open again", n_rows, lambda: folder.open(record.folder).close())
        record = folder.open(record.folder)
        most = min(n_rows, 1_000_000)
        timed("read results in order", most, lambda: record.results(0, most, 2**40))
        beside = (record.size_bytes / n_rows) - len(ARGUMENTS) - len(RESULT)
        print(f"\n{beside:.1f} bytes a row beside {len(ARGUMENTS)} of arguments and {len(RESULT)} of the result")
        record.close()
        together = folder.create(replace(TERMS, name="together"))
        n_whole = n_rows // RANGE * RANGE
        fill(together, n_whole)
        print("\n| | rows | rows/s | us of processor time a row | s |\n|---|---|---|---|---|")
        timed(f"results, {TOGETHER} together", n_whole, end_together, together, n_whole, TOGETHER)
        together.close()
        together = folder.open(together.folder)
        timed("read these in order", n_whole, lambda: together.results(0, n_whole, 2**40))
        beside = (together.size_bytes / n_whole) - len(ARGUMENTS) - len(RESULT)
        print(f"\n{beside:.1f} bytes a row beside their arguments and results")
        together.close()
        folder.close()


if __name__ == "__main__":
    main()
