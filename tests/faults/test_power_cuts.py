"""The power fails while a job is kept: what was acknowledged is there, whole, and the job goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scaler.jobs.folder import JobFolder, job_places
from scaler.jobs.record import DONE, JobRecord, RowResult
from scaler.jobs.values import pack_rows
from tests.support import job_writer
from tests.support.job_writer import MARKS, N_RANGES, RANGE, digests_of, result_of, row_of
from tests.support.power_cuts import Deed, Disk, noted

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuts")


@pytest.fixture(scope="module")
def deeds(work: Path) -> list[Deed]:
    below = work / "disk"
    below.mkdir(mode=0o700)
    return noted(Path(job_writer.__file__), below, work)


def cut_at(deeds: list[Deed], seed: int, work: Path) -> tuple[set[str], JobFolder]:
    """Return what had been acknowledged, and the folder after the cut."""
    chance = random.Random(seed)
    disk, marks = Disk(work / "disk"), ""
    for deed in deeds[: chance.randrange(len(deeds) + 1)]:
        if deed.path.endswith(MARKS):
            marks += deed.data.decode()
        else:
            disk.do(deed)
    place = work / f"after-{seed}"
    disk.cut(chance, place)
    return set(marks.split("\n")), JobFolder(place / "keep")


def check(record: JobRecord, marks: set[str]) -> None:
    """Compare a record with what was acknowledged."""
    assert record.problems() == []
    assert not record.lost
    found: dict[int, RowResult] = {}
    for each in record.results(0, record.rows, 2**40):
        found |= {row: record.results(row, 1, 1)[0] for row in range(each.row, each.row + each.n_rows)}
    for row, result in found.items():
        assert result in (result_of(row), result_of(row, is_again=True)), f"row {row} has another result"
    for row in range(N_RANGES * RANGE):
        is_kept = f"row {row}" in marks and not ("retry" in marks and result_of(row).status)
        may_be_retried = result_of(row).status and row < RANGE * N_RANGES // 2
        assert row in found or may_be_retried or not is_kept, f"the result of row {row} was acknowledged and is gone"
    for first in (int(mark.split()[1]) for mark in marks if mark.startswith("range")):
        arguments = record.rows_of(first)
        assert [arguments.one(at) for at in range(RANGE)] == [row_of(row) for row in range(first, first + RANGE)]
    assert record.is_sealed or "seal" not in marks
    assert record.state == DONE or "end" not in marks


def go_on(record: JobRecord) -> None:
    """End the job after the cut."""
    record.begin()
    for first in range(record.rows, N_RANGES * RANGE, RANGE):
        record.add_range(
            first, RANGE, b"", digests_of(first), pack_rows([row_of(row) for row in range(first, first + RANGE)])
        )
    record.reopen_failed()
    ended = b"".join(record.ended_rows(first) for first in record.ranges)
    record.add_results([result_of(row, is_again=True) for row in range(record.rows) if not ended[row]])
    record.commit()


def try_a_cut(deeds: list[Deed], seed: int, work: Path) -> bool:
    """Return whether there was a job."""
    marks, folder = cut_at(deeds, seed, work)
    place = folder.place_of("alice", "prices")
    try:
        if place not in job_places(folder.path):
            assert "created" not in marks, "the job was acknowledged and is gone"
            return False
        record = folder.open(place)
        check(record, marks)
        go_on(record)
        record.close()
        record = folder.open(place)
        assert record.problems() == []
        assert record.done == N_RANGES * RANGE
        rows = [
            row for each in record.results(0, record.rows, 2**40) for row in range(each.row, each.row + each.n_rows)
        ]
        assert rows == list(range(record.rows))
        record.close()
        return True
    finally:
        folder.close()


def test_file_operations_of_a_process_are_recorded(deeds: list[Deed]) -> None:
    kinds = {deed.what for deed in deeds}
    assert kinds >= {"w", "s", "r", "d"}
    synced = {Path(deed.path).name for deed in deeds if deed.what == "s"}
    assert synced >= {"job.sqlite", "job.sqlite-wal", "values", "row-1", "rows-40", "alice"}


def test_after_a_power_cut_nothing_is_lost_that_was_acknowledged(deeds: list[Deed], work: Path) -> None:
    there = [try_a_cut(deeds, seed, work) for seed in range(50)]
    assert sum(there) > 25


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_after_a_thousand_power_cuts_nothing_is_lost(deeds: list[Deed], work: Path) -> None:
    for seed in range(1000, 2000):
        try_a_cut(deeds, seed, work)


def test_a_result_that_is_acknowledged_before_it_is_synced_is_noticed(deeds: list[Deed], work: Path) -> None:
    """The proof can fail: without the syncs of the log, acknowledged rows are gone."""
    careless = [deed for deed in deeds if not (deed.what == "s" and deed.path.endswith("-wal"))]

    def try_all() -> None:
        for seed in range(2000, 2050):
            try_a_cut(careless, seed, work)

    with pytest.raises(Exception, match=r"acknowledged|problems|malformed|another result|assert"):
        try_all()


def test_results_on_disk_are_those_that_the_writer_confirmed() -> None:
    assert result_of(9) == RowResult(9, 1, (b"failed 9",))
