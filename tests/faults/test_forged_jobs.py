"""Folders of jobs from an unknown source: `scaler_jobs --file` and a scheduler read them or refuse them.

They follow no link, open no file of another user, end soon, and print no terminal sequence.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.jobs.record import DATABASE, VALUES
from tests.support.forged_jobs import FORGERIES, make_job
from tests.support.processes import free_address, scheduler

pytestmark = pytest.mark.faults

MEMORY_BYTES = 1 << 30
NOBODY = 65534


def jobs(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run `scaler_jobs --file`, with bounded memory and time."""
    return subprocess.run(
        [sys.executable, "-m", "scaler.cli.jobs", "--file", folder, command],
        capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )  # fmt: skip


def check_refused(folder: Path, texts: str = "") -> None:
    """Check that both commands name the job and end, without a traceback and without a terminal sequence."""
    for command in ("list", "check"):
        done = jobs(folder, command)
        said = done.stdout + done.stderr
        assert done.returncode == 1, said
        assert "Traceback" not in said
        assert "\x1b" not in said
        assert "alice/prices" in said
        assert texts in said


def test_a_folder_that_scaler_has_made_is_read(tmp_path: Path) -> None:
    make_job(tmp_path / "keep")
    assert "prices  alice  price" in jobs(tmp_path / "keep", "list").stdout
    assert "1 jobs, no problems" in jobs(tmp_path / "keep", "check").stdout


READ_ANYWAY = {"reason", "lost", "key", "marked", "nested", "blob"}
"""damage of parts, with which the rest is read: only `check` need report it"""


@pytest.mark.parametrize("name", [name for name in FORGERIES if name not in READ_ANYWAY])
def test_a_forged_record_is_refused_by_the_command(name: str, tmp_path: Path) -> None:
    FORGERIES[name](make_job(tmp_path / "keep"))
    check_refused(tmp_path / "keep")


@pytest.mark.parametrize("name", sorted(READ_ANYWAY))
def test_a_forged_part_of_a_record_neither_ends_the_command_nor_reaches_the_terminal(name: str, tmp_path: Path) -> None:
    FORGERIES[name](make_job(tmp_path / "keep"))
    for command in ("list", "check"):
        done = jobs(tmp_path / "keep", command)
        assert done.returncode in (0, 1)
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stdout + done.stderr


def test_a_scheduler_starts_whatever_records_are_in_its_folder(tmp_path: Path) -> None:
    made = {name: tmp_path / f"alone-{name}" for name in FORGERIES}
    keep = tmp_path / "keep"
    make_job(keep)
    for name, folder in made.items():
        FORGERIES[name](make_job(folder))
        (folder / "alice").rename(keep / f"alice {name}")
    with scheduler(free_address(), "--keep", str(keep)) as (_, running):
        running.wait_for("cannot be read, and stays as it is")
        for name in ("view", "count", "pages", "state"):
            running.wait_for(f"alice {name}/prices cannot be read, and stays as it is")
        assert "Traceback" not in running.output
        assert "\x1b" not in running.output


@pytest.mark.parametrize("inner", [("..",), (), (DATABASE,), (VALUES,)])
def test_links_are_not_followed(inner: tuple[str, ...], tmp_path: Path) -> None:
    place = make_job(tmp_path / "keep")
    part = Path(os.path.normpath(place.joinpath(*inner)))
    part.rename(tmp_path / "elsewhere")
    part.symlink_to(tmp_path / "elsewhere")
    check_refused(tmp_path / "keep", "which is not followed")


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_files_that_sqlite_would_open_beside_the_database_are_looked_at_too(ending: str, tmp_path: Path) -> None:
    place = make_job(tmp_path / "keep")
    (tmp_path / "elsewhere").touch()
    file = place / f"{DATABASE}{ending}"
    file.unlink(missing_ok=True)
    file.symlink_to(tmp_path / "elsewhere")
    check_refused(tmp_path / "keep", ending)


@pytest.mark.parametrize("kind", ["link", "pipe", "sparse"])
def test_a_value_that_is_no_file_of_its_size_is_damaged(kind: str, tmp_path: Path) -> None:
    file = make_job(tmp_path / "keep") / VALUES / "row-60"
    file.rename(tmp_path / "elsewhere")
    if kind == "link":
        file.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    done = jobs(tmp_path / "keep", "check")
    assert done.returncode == 1
    assert "alice/prices: values/row-60:" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("inner", ["..", ".", DATABASE, VALUES, f"{VALUES}/row-60"])
def test_what_belongs_to_another_user_is_not_opened(inner: str, tmp_path: Path) -> None:
    place = make_job(tmp_path / "keep")
    os.chown(place / inner, NOBODY, NOBODY)
    done = jobs(tmp_path / "keep", "check")
    assert done.returncode == 1
    assert "another user" in done.stdout or "and has no file" in done.stdout
