"""Damage on the disk of jobs, and disks that cannot be written: real schedulers and files."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler.cli.jobs import main
from scaler.errors import JobConflictError, JobError, MissingObjects, TooManyFailuresError
from tests.support.processes import called, free_address, wait_until

ROWS = 40


def noted(folder: str, x: int, n_bytes: int) -> bytes:
    (Path(folder) / f"{x}-{time.monotonic_ns()}").touch()
    return x.to_bytes(8, "big") * (n_bytes // 8)


def slowly(folder: str, x: int, seconds: float) -> int:
    (Path(folder) / f"{x}-{time.monotonic_ns()}").touch()
    time.sleep(seconds)
    return x


def fails_below_0(folder: str, x: int, seconds: float) -> int:
    slowly(folder, x, seconds)
    if x < 0:
        raise ValueError(x)
    return x


class Site:
    """A scheduler that keeps jobs, which may be killed and started anew, and a cluster."""

    def __init__(self, place: Path) -> None:
        self.place, self.address, self.jobs, self.runs = place, free_address(), place / "jobs", place / "runs"
        self.runs.mkdir()
        self.start()
        self._cluster = self._run("cluster", self.address, "-n", "2")

    def _run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.place / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"scaler.cli.{name}", *arguments], stdout=log, stderr=log, start_new_session=True
            )

    def start(self, *options: str) -> None:
        self.scheduler = self._run("scheduler", self.address, "--keep", str(self.jobs), *options)

    def kill(self) -> None:
        os.killpg(self.scheduler.pid, signal.SIGKILL)
        self.scheduler.wait()

    def log(self) -> str:
        return (self.place / "scheduler.log").read_text()

    def folder(self, name: str) -> Path:
        [folder] = self.jobs.glob(f"*/{name}")
        return folder

    def n_runs(self, row: int) -> int:
        return len(list(self.runs.glob(f"{row}-*")))

    def items(self, n_bytes: int = 8, n_rows: int = ROWS) -> list[tuple[str, int, int]]:
        return [(str(self.runs), x, n_bytes) for x in range(n_rows)]

    def end(self) -> None:
        for process in (self._cluster, self.scheduler):
            process.terminate()
        for process in (self._cluster, self.scheduler):
            process.wait(60)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.end()


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    with Client(site.address) as client:
        yield client


def expected(n_bytes: int) -> list[bytes]:
    return [x.to_bytes(8, "big") * (n_bytes // 8) for x in range(ROWS)]


def empty_log(folder: Path) -> None:
    """Move what the log of a record has to its place."""
    connection = sqlite3.connect(folder / "job.sqlite")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def spoil(folder: Path, table: str) -> None:
    """Change one bit of the only value in a table of a record."""
    empty_log(folder)
    connection = sqlite3.connect(folder / "job.sqlite")
    [(value,)] = connection.execute(f"SELECT value FROM {table}").fetchall()
    broken = bytearray(value)
    broken[len(broken) // 2] ^= 1
    connection.execute(f"UPDATE {table} SET value = ?", (bytes(broken),))
    connection.commit()
    connection.close()


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize("n_bytes", [800, 100_000])
@pytest.mark.parametrize("again", ["retry", "map"])
def test_a_damaged_result_is_the_failure_of_its_row_and_runs_again(
    site: Site, client: Client, n_bytes: int, again: str
) -> None:
    assert client.map(noted, site.items(n_bytes), job="damaged") == expected(n_bytes)
    site.kill()
    folder = site.folder("damaged")
    if n_bytes > 65536:
        flip(folder / "values" / "row-7", 50_000)
        (folder / "values" / "row-9").unlink()
        damaged = {7, 9}
    else:
        empty_log(folder)
        data = (folder / "job.sqlite").read_bytes()
        flip(folder / "job.sqlite", data.find((7).to_bytes(8, "big") * 50) + 100)
        damaged = {7}
    code, found = called(main, "--file", str(site.jobs), "check")
    assert code == 1
    assert "row-7" in found if n_bytes > 65536 else "7" in found
    site.start()
    if again == "map":
        assert client.map(noted, site.items(n_bytes), job="damaged") == expected(n_bytes)
    else:
        job = client.job("damaged")
        results = list(job.results(return_exceptions=True))
        assert {x for x in range(ROWS) if isinstance(results[x], MissingObjects)} == damaged
        assert [each for x, each in enumerate(results) if x not in damaged] == [
            each for x, each in enumerate(expected(n_bytes)) if x not in damaged
        ]
        assert {each.row for each in job.failures()} == damaged
        job.retry()
        assert job.wait(60).failed == 0
        assert list(job.results()) == expected(n_bytes)
    assert {x for x in range(ROWS) if site.n_runs(x) == 2} == damaged
    assert {x for x in range(ROWS) if site.n_runs(x) == 1} == {*range(ROWS)} - damaged
    assert called(main, "--file", str(site.jobs), "check")[0] == 0


def test_a_damaged_result_of_a_row_that_may_run_once_stays_a_failure(site: Site, client: Client) -> None:
    once = client.options(at_most_once=True)
    once.map(noted, site.items(100_000), job="once")
    site.kill()
    flip(site.folder("once") / "values" / "row-3", 10)
    site.start()
    with pytest.raises(MissingObjects, match="row-3"):
        once.map(noted, site.items(100_000), job="once")
    with pytest.raises(MissingObjects, match="row-3"):
        once.map(noted, site.items(100_000), job="once")
    results = once.map(noted, site.items(100_000), job="once", return_exceptions=True)
    assert [x for x in range(ROWS) if results[x] != expected(100_000)[x]] == [3]
    assert [site.n_runs(x) for x in range(ROWS)] == [1] * ROWS


def test_damaged_arguments_are_rewritten_by_the_same_program(site: Site, client: Client) -> None:
    items = [(str(site.runs), x, 0.05) for x in range(ROWS)]
    job = client.start(slowly, items, name="arguments")
    wait_until(lambda: job.progress().done > 4, "rows have ended")
    site.kill()
    spoil(site.folder("arguments"), "ranges")
    site.start()
    stopped = wait_until(
        lambda: client.job("arguments").progress().state == "stopped" and client.job("arguments").progress(), "it stops"
    )
    assert "Run its program again with the same rows" in stopped.reason
    for fn in (None, noted):
        with pytest.raises(JobError, match="rows-0 on disk is damaged: run its program again with the same rows"):
            client.job("arguments").retry(fn)
    with pytest.raises(JobConflictError, match="row 5 was called with"):  # damage excuses no other work
        client.start(slowly, [*items[:5], (str(site.runs), 5, 0.06), *items[6:]], name="arguments")
    again = client.start(slowly, items, name="arguments")
    assert again.wait(60).done == ROWS
    assert list(again.results()) == list(range(ROWS))


def test_a_job_that_stops_for_another_reason_than_its_failed_rows_reports_that_reason(
    site: Site, client: Client
) -> None:
    items = [(str(site.runs), 0 if x % 3 else -1, 0.05) for x in range(ROWS)]
    job = client.start(fails_below_0, items, name="stops")
    wait_until(lambda: job.progress().failed > 2, "rows have failed")
    site.kill()
    spoil(site.folder("stops"), "objects")
    site.start()
    for read in (job.results, job.as_completed):
        with pytest.raises(JobError, match="the job 'stops' has stopped: its functions cannot be read") as caught:
            list(read(return_exceptions=True))
        assert not isinstance(caught.value, TooManyFailuresError)
    assert "stopped, " in repr(job)
    assert " failed>" in repr(job)


@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_lost_log_of_a_record_is_reported(
    site: Site, client: Client, at_most_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    calls = client.options(at_most_once=at_most_once)
    items = [(str(site.runs), x, 0.05) for x in range(ROWS)]
    job = calls.start(slowly, items, name="lost log")
    wait_until(lambda: job.progress().done > 4, "rows are acknowledged")
    site.kill()
    log = site.folder("lost log") / "job.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    assert "acknowledged" in called(main, "--file", str(site.jobs), "check")[1]
    ran = {x for x in range(ROWS) if site.n_runs(x)}
    site.start()
    wait_until(lambda: "although they were acknowledged" in site.log(), "the scheduler reports it")
    if at_most_once:
        with pytest.raises(JobError, match="at_most_once"):
            calls.start(slowly, items, name="lost log")
        with pytest.raises(JobError, match="at_most_once"):
            client.job("lost log").retry()
        assert {x for x in range(ROWS) if site.n_runs(x)} <= {*ran, *range(max(ran) + 3)}
        assert all(site.n_runs(x) <= 1 for x in range(ROWS))
        assert calls.start(slowly, items, name="lost log", on_change="restart").wait(60).done == ROWS
    else:
        assert calls.start(slowly, items, name="lost log").wait(60).done == ROWS
        assert "although they were acknowledged" in caplog.text


def test_a_job_whose_folder_was_removed_pauses_and_is_never_done(site: Site, client: Client) -> None:
    job = client.start(slowly, [(str(site.runs), x, 0.1) for x in range(ROWS)], name="removed")
    wait_until(lambda: job.progress().done, "a row has ended")
    shutil.rmtree(site.jobs)
    wait_until(lambda: "the folder of the job is gone" in job.progress().reason, "it pauses")
    with pytest.raises(TimeoutError, match="the folder of the job is gone"):
        job.wait(1)
    assert job.progress().state == "open"


def test_what_a_request_changes_is_on_disk_before_its_answer(site: Site, client: Client) -> None:
    """The disk cannot be written for a while, and the scheduler is killed when a request has succeeded."""
    job = client.start(slowly, [(str(site.runs), x, 0.05) for x in range(2000)], name="acknowledged")
    wait_until(lambda: job.progress().done > 5, "rows have ended")
    resource.prlimit(site.scheduler.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    wait_until(lambda: job.progress().reason, "it pauses")
    for _ in range(3):
        with pytest.raises(JobError, match="it cannot be stored"):
            job.cancel()
    assert job.progress().state == "open"
    resource.prlimit(site.scheduler.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_until(lambda: not job.progress().reason, "it continues")
    job.cancel()
    site.kill()
    site.start()
    assert client.job("acknowledged").progress().state == "canceled"
    client.job("acknowledged").retry()
    site.kill()
    site.start()
    assert client.job("acknowledged").progress().state == "open"


def test_small_results_never_fill_a_small_limit_with_the_log_of_the_database(site: Site, client: Client) -> None:
    site.kill()
    site.start("--keep-bytes", "1000000")
    job = client.start(slowly, [(str(site.runs), x, 0.02) for x in range(600)], name="small")
    assert job.wait(120).done == 600
