"""Jobs whose owner has no good key: they pause, also over a restart of the scheduler, and continue with a good key."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from scaler import Client
from scaler.cli.jobs import main
from scaler.keys.private_files import write_private
from tests.integration.test_keys import Site
from tests.support.processes import Command, called, wait_until
from tests.support.terminal import ENTER, terminal

WORKERS = 2
ROWS = 60
ROW_SECONDS = 0.2


class Place(Site):
    """A scheduler with keys that keeps jobs, a cluster, and what its rows note."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.jobs, self.notes = home / "jobs", home / "notes"
        self.notes.touch()
        self.scheduler.kill_all()
        self.scheduler = self.serve()
        self.start("cluster", self.address, "-n", str(WORKERS))

    def serve(self) -> Command:
        scheduler = self.start("scheduler", self.address, "--keep", str(self.jobs), "--per-worker-queue-size", "2")
        scheduler.wait_for("with a key")
        return scheduler

    def restart(self) -> None:
        self.scheduler.kill_all()
        self.scheduler = self.serve()

    def run(self, command: str, *arguments: str) -> str:
        """Run `scaler_jobs` as an admin; return what it prints."""
        code, text = called(main, self.address, command, *arguments)
        assert code == 0, text
        return text

    def noted(self, what: str) -> Counter[int]:
        """Return how often each row has begun or ended."""
        pairs = (line.split() for line in self.notes.read_text().splitlines())
        return Counter(int(row) for noted, row in pairs if noted == what)

    def edit(self, old: str, new: str) -> None:
        place = self.folder / "allowed"
        write_private(place, place.read_text().replace(old, new))

    def others_work(self) -> None:
        """Return when the workers have run tasks of somebody else: what was to be cancelled before is cancelled."""
        with Client(self.address) as other:
            assert other.map(time.sleep, [(0.05,)] * 10 * WORKERS) == [None] * 10 * WORKERS

    def has_stopped(self, pauses: int = 1) -> None:
        """Check that the job has paused, and that no row begins any more."""
        wait_until(lambda: self.scheduler.output.count("the job nightly pauses") == pauses, "the job to pause")
        self.others_work()
        begun = self.noted("begin")
        wait_until(lambda: "paused" in self.run("list"), "a listed pause")
        self.others_work()
        assert self.noted("begin") == begun


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "home"))
    place = Place(tmp_path)
    yield place
    place.end()


def note(file: str, row: int, seconds: float) -> int:
    """Note the begin and the end of a row."""
    for what in ("begin", "end"):
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b"%s %d\n" % (what.encode(), row))
        os.close(descriptor)
        if what == "begin":
            time.sleep(seconds)
    return row


def start(place: Place, name: str = "eve", *, at_most_once: bool = False) -> None:
    """Have an owner start the job; return when rows run."""
    with Client(place.allow(name)) as client:
        rows = [(str(place.notes), row, ROW_SECONDS) for row in range(ROWS)]
        options = client.options(at_most_once=True) if at_most_once else client
        options.start(note, rows, name="nightly")
    wait_until(lambda: len(place.noted("begin")) > 2 * WORKERS, "rows to run")


@pytest.mark.thorough
def test_a_job_of_a_revoked_key_pauses_also_over_a_restart_and_continues_with_a_new_key(place: Place) -> None:
    start(place)
    place.revoke("eve")
    place.has_stopped()
    assert len(place.noted("begin")) < ROWS
    shown = place.run("show", "eve/nightly")
    assert "nightly: paused, its owner, eve, has no valid key: it was revoked on " in shown
    assert "Allow a key with that name, and it continues" in shown
    with terminal(sys.executable, "-m", "scaler.cli.top", place.address) as top:
        top.press("7")
        wait_until(lambda: re.search(r"nightly +paused", top.text), "its state on a screen")
        top.press(ENTER)
        top.wait_for("its owner, eve, has no valid key")
    interrupted = place.noted("begin") - place.noted("end")
    assert len(interrupted) <= WORKERS
    place.restart()
    assert "paused" in place.run("list")
    place.others_work()
    assert "paused, its owner, eve, has no valid key" in place.run("show", "eve/nightly")
    with Client(place.allow("eve")) as client:
        job = client.job("nightly")
        assert [*job.results()] == [*range(ROWS)]
        assert job.progress().state == "done"
    assert set(place.noted("end")) == {*range(ROWS)}
    again = place.noted("begin") - Counter(range(ROWS))
    assert set(interrupted) <= set(again), "those that were cancelled have begun again"
    assert again.total() <= WORKERS, "and no others, but what was cancelled while its result was on the way"


@pytest.mark.more
def test_a_key_that_is_revoked_while_no_scheduler_runs_pauses_its_jobs_at_the_next_start(place: Place) -> None:
    start(place)
    place.scheduler.kill_all()
    place.revoke("eve")
    place.scheduler = place.serve()
    wait_until(lambda: "paused" in place.run("list"), "a listed pause")
    place.others_work()
    begun = place.noted("begin")
    place.others_work()
    assert place.noted("begin") == begun
    place.allow("eve")
    wait_until(lambda: "done" in place.run("list").split("\n")[1].split(), "the job to be done")
    assert set(place.noted("end")) == {*range(ROWS)}


@pytest.mark.more
def test_when_the_last_key_of_an_owner_expires_running_rows_end_and_no_others_start(place: Place) -> None:
    start(place)
    yesterday, tomorrow = (date.today() + timedelta(days) for days in (-1, 1))  # noqa: DTZ011 - as the scheduler does
    line = next(each for each in (place.folder / "allowed").read_text().splitlines() if each.startswith("client eve "))
    place.edit(line, f"{line} until={yesterday}")
    place.has_stopped()
    assert place.noted("begin") == place.noted("end"), "what ran has ended"
    assert len(place.noted("begin")) < ROWS
    assert f"it was valid until {yesterday}" in place.run("show", "eve/nightly")
    place.edit(f"until={yesterday}", f"until={tomorrow}")
    wait_until(lambda: "done" in place.run("list").split("\n")[1].split(), "the job to be done")
    assert place.noted("begin") == place.noted("end") == Counter(range(ROWS)), "no row has begun twice"


@pytest.mark.more
def test_at_most_once_rows_start_once_although_their_owner_was_locked_out(place: Place) -> None:
    start(place, at_most_once=True)
    place.edit("client eve ", "monitor eve ")
    place.has_stopped()
    interrupted = place.noted("begin") - place.noted("end")
    assert "no key that may submit is on the list" in place.run("show", "eve/nightly")
    place.restart()
    place.others_work()
    place.edit("monitor eve ", "client eve ")
    wait_until(lambda: "done" in place.run("list").split("\n")[1].split(), "the job to be done")
    begun = place.noted("begin")
    assert begun == Counter(set(begun)), "no row has begun twice"
    with Client(place.folder / "eve.json") as client:
        failed = {each.row for each in client.job("nightly").failures()}
    assert failed >= {*interrupted} | ({*range(ROWS)} - {*begun}), "those that ran, or were just about to begin"
    assert len(failed) <= 2 * WORKERS


@pytest.mark.more
def test_other_jobs_continue_while_the_key_list_is_unreadable_and_an_admin_transfers_a_paused_job(place: Place) -> None:
    start(place)
    allowed = place.folder / "allowed"
    text = allowed.read_text()
    write_private(allowed, "client eve\n")
    place.scheduler.wait_for("the list of keys cannot be read")
    n_begun = len(place.noted("begin"))
    wait_until(lambda: len(place.noted("begin")) > n_begun + WORKERS, "rows that begin")
    write_private(allowed, text)
    place.scheduler.wait_for("the list of keys can be read again")
    place.revoke("eve")
    place.has_stopped()
    with Client(place.allow("alice")) as alice:
        assert place.run("give", "eve/nightly", "alice") == ""
        assert [*alice.job("nightly").results()] == [*range(ROWS)]
    assert set(place.noted("end")) == {*range(ROWS)}
