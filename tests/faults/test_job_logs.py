"""The write-ahead log of a job is lost or damaged, or has no room: what was acknowledged is there, or it is said."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scaler.jobs.folder import JobFolder
from scaler.jobs.record import DATABASE, JobRecord
from tests.support import job_writer
from tests.support.job_writer import MARKS

pytestmark = pytest.mark.faults

LOG = f"{DATABASE}-wal"


def killed_writer(folder: Path, n_marks: int) -> set[str]:
    """Run a program that keeps a job, kill it after so many acknowledgements, and return all that it gave."""
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / MARKS)
    writer = subprocess.Popen([sys.executable, job_writer.__file__, folder], start_new_session=True)
    marks: list[str] = []
    with (folder / MARKS).open() as acknowledged:
        for mark in acknowledged:
            marks.append(mark.strip())
            if len(marks) == n_marks:
                writer.send_signal(signal.SIGKILL)
    writer.wait(30)
    return {mark for mark in marks if mark.startswith(("row", "range"))}


def missing(record: JobRecord, marks: set[str]) -> set[str]:
    """Return what was acknowledged and is not there. Rows that fail at first may have been opened again."""
    there = {f"range {first}" for first in record.ranges}
    for first in record.ranges:
        there |= {f"row {first + at}" for at, state in enumerate(record.ended_rows(first)) if state}
    return {mark for mark in marks - there if mark.startswith("range") or int(mark.split()[1]) % 9}


@pytest.mark.parametrize("seed", range(8))
def test_after_a_kill_no_row_is_missing_and_nothing_is_logged(tmp_path: Path, seed: int) -> None:
    marks = killed_writer(tmp_path / "job", random.Random(seed).randrange(20, 420))
    folder = JobFolder(tmp_path / "job" / "keep")
    for _ in range(2):
        record = folder.open(folder.place_of("alice", "prices"))
        assert missing(record, marks) == set()
        assert (record.lost, record.problems()) == ("", [])
        folder.shut(record)
    folder.close()


def gone(log: Path, _chance: random.Random) -> None:
    log.unlink()


def empty(log: Path, _chance: random.Random) -> None:
    log.write_bytes(b"")


def cut(log: Path, chance: random.Random) -> None:
    os.truncate(log, chance.randrange(log.stat().st_size))


def zeroed(log: Path, chance: random.Random) -> None:
    begin = chance.randrange(log.stat().st_size)
    log.write_bytes(log.read_bytes()[:begin] + bytes(log.stat().st_size - begin))


def flipped(log: Path, chance: random.Random) -> None:
    damaged = bytearray(log.read_bytes())
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    log.write_bytes(damaged)


@pytest.mark.parametrize("spoil", [gone, empty, cut, zeroed, flipped])
def test_a_lost_or_damaged_write_ahead_log_is_reported(
    tmp_path: Path, spoil: Callable[[Path, random.Random], None]
) -> None:
    n_lost = 0
    for seed in range(4):
        place = tmp_path / str(seed)
        marks = killed_writer(place, random.Random(seed).randrange(30, 420))
        spoil(place / "keep" / "alice" / "prices" / LOG, random.Random(seed))
        folder = JobFolder(place / "keep")
        record = folder.open(folder.place_of("alice", "prices"))
        is_missing = bool(missing(record, marks))
        assert record.lost or not is_missing
        assert "acknowledged" in record.lost or not record.lost
        n_lost += is_missing
        folder.close()
    assert n_lost > 0, "the proof can fail"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 5 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=5m,mode=0700", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_small_results_never_fill_a_small_disk(small_disk: Path) -> None:
    """A row at a time: each commit writes whole pages of the log."""
    from scaler.jobs.record import JobTerms, RowResult
    from scaler.jobs.values import pack_rows
    from scaler.jobs.writer import JobWriter

    folder, writer = JobFolder(small_disk / "keep"), JobWriter(has_thread=False)
    record = folder.create(JobTerms("small", "alice", b"12345678", b"f" * 16, "f"))
    errors: list[BaseException] = []

    def answer(_value: object, error: BaseException | None) -> None:
        errors.extend([error] if error else [])

    blocks = pack_rows([b"%d" % row for row in range(3000)])
    writer.order(record, lambda: record.add_range(0, 3000, b"", os.urandom(24_000), blocks), answer)
    most = 0
    for row in range(3000):
        writer.order(record, lambda row=row: record.add_results([RowResult(row, 0, (b"%d" % row,))]), answer)
        writer.work()
        most = max(most, record.size_bytes)
    assert (errors, record.done) == ([], 3000)
    assert most < 1_000_000, "so --keep-bytes 1000000 is enough, too"
    folder.close()
