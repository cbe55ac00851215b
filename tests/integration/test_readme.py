"""The README's examples do what it says, and so do the programs in `examples/`, over TCP with keys, too.

Each program runs once. Those that make no cluster of their own find a scheduler with keys by `SCALER_ADDRESS`; of the
others, the clusters that they make at no address listen on TCP: no line of them is changed for that.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import runpy
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.on_tcp import on_tcp
from tests.support.processes import REPOSITORY, command, complaints, descendants, run_python, scheduler, wait_until

README = (REPOSITORY / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)

GALLERY = [
    ("option_chain", 30),
    ("value_at_risk", 500),
    ("images", 1),
    ("grid_search", 2),
    ("word_count", 50),
    ("epidemic_sweep", 1),
    ("quadrature", 5),
    ("back_test", 20),
    ("risk_service", 4),
]
"""the programs, and a size with which they take little time"""

KILLED = "asian_option"
"""the one whose work outlives it"""


def test_the_readme_is_short() -> None:
    assert README.count("\n") < 150


def test_the_first_example_runs_and_prints_what_its_comments_say(tmp_path: Path) -> None:
    program = tmp_path / "first.py"
    program.write_text(PYTHON[0])
    done = run_python(program, folder=tmp_path)
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, "16\n328350\n", "")


def test_the_example_with_many_machines_runs_with_the_commands_beside_it(tmp_path: Path) -> None:
    block = next(block for block in CONSOLE if "scaler_scheduler" in block)
    lines = [line.removeprefix("$ ").split() for line in block.splitlines()]
    assert [line[0] for line in lines] == ["scaler_scheduler", "scaler_cluster"]
    program = tmp_path / "second.py"
    program.write_text(PYTHON[1])
    with command("scheduler", *lines[0][1:]) as scheduler:
        scheduler.wait_for("address")
        with command("cluster", *lines[1][1:]):
            done = run_python(program, folder=tmp_path)
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, "1024\n", "")


def test_the_example_of_everything_runs(tmp_path: Path) -> None:
    program = tmp_path / "third.py"
    program.write_text(PYTHON[2])
    done = run_python(program, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "one failed:" in done.stdout
    assert "[1, 10, 100]" in done.stdout
    assert str([2**n for n in range(10)]) in done.stdout


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in set(re.findall(r"make (\w+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (REPOSITORY / link).exists(), link


FURTHER = [
    "add_workers",
    "graph",
    "nested",
    "simple_map",
    "send_object",
    "large_objects",
    "disconnect",
    "cancel",
    "profiling",
    "debugging",
    "web_service",
]


LOCAL = ["simple_submit"]
"""those that run as they are, on sockets in a folder"""


@pytest.fixture(scope="module")
def over_tcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What is in the environment of a program whose clients and clusters are to be on TCP, with keys."""
    folder = tmp_path_factory.mktemp("tcp")
    with scheduler() as (address, running), command("cluster", address, "-n", "2") as cluster:
        STANDING[:] = running.pid, cluster.pid
        yield {"SCALER_ADDRESS": address, "PYTHONPATH": on_tcp(folder)}
    STANDING.clear()


STANDING: list[int] = []
"""what serves several programs, and starts and ends processes meanwhile"""


def processes() -> set[int]:
    """Return the processes below this one without what stands."""
    return set(descendants()) - {each for pid in STANDING for each in (pid, *descendants(pid))}


@pytest.mark.parametrize("name", LOCAL)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    runs(name, tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("name", FURTHER)
def test_an_example_runs_over_tcp_with_keys(name: str, tmp_path: Path, over_tcp: dict[str, str]) -> None:
    listened = runs(name, tmp_path, **over_tcp)
    if "SchedulerClusterCombo(" in (REPOSITORY / "examples" / f"{name}.py").read_text():
        assert set(listened.values()) == {"CURVE"}


def runs(name: str, folder: Path, **variables: str) -> dict[str, str]:
    """An example runs. Return what it has listened on, and what is asked of peers there."""
    before = processes()
    done = run_python(REPOSITORY / "examples" / f"{name}.py", folder=folder, **variables)
    said = "1 open task was cancelled, because the client has ended" if name == "disconnect" else ""
    errors = re.sub(r"^\[INFO\].*\n", "", complaints(done.stderr), flags=re.MULTILINE)
    assert (done.returncode, errors.partition(":")[0]) == (0, said)
    assert done.stdout
    assert processes() <= before
    return done.listened


@pytest.mark.more
@pytest.mark.parametrize(("name", "size"), GALLERY)
def test_a_program_of_the_gallery_gives_what_it_gives_without_a_cluster(
    name: str, size: int, tmp_path: Path, over_tcp: dict[str, str]
) -> None:
    before, program = processes(), REPOSITORY / "examples" / "gallery" / f"{name}.py"
    done = run_python(program, str(size), "-n", "2", folder=tmp_path, PYTHONPATH=over_tcp["PYTHONPATH"])
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert "times as fast" in done.stdout.splitlines()[-1], (
        "the last line says how much faster it was, and why not more"
    )
    assert set(done.listened.values()) - {""} == {"CURVE"}  # one is a web service, too
    assert processes() <= before


def rows_kept(folder: Path) -> int:
    """Return how many rows of the one job in a folder have results on disk."""
    for file in folder.glob("*/asian option*/job.sqlite"):
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        try:
            return int(connection.execute("SELECT sum(count) FROM results").fetchone()[0] or 0)
        finally:
            connection.close()
    return 0


def is_free(lock: Path) -> bool:
    """Return whether nobody has a file locked: the last process that had is gone."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.more
@pytest.mark.faults
def test_a_monte_carlo_that_is_killed_three_times_gives_the_same_sum(tmp_path: Path) -> None:
    size, folder = 600, tmp_path / "jobs"
    program = REPOSITORY / "examples" / "gallery" / f"{KILLED}.py"
    run = [sys.executable, str(program), str(size), "-n", "2", "--keep", str(folder)]
    for deaths in range(1, 4):
        victim = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda least=150 * deaths: rows_kept(folder) >= least, "further rows are on disk")
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
        for lock in folder.glob("*/*/lock"):
            wait_until(lambda lock=lock: is_free(lock), "its scheduler is gone")
    kept = rows_kept(folder)
    done = run_python(program, str(size), "-n", "2", "--keep", str(folder), folder=tmp_path)
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    payoffs = runpy.run_path(str(program))["payoffs"]
    assert done.stdout.splitlines()[:2] == [
        f"{kept} of {size} rows were there",
        f"600,000 paths pay {math.fsum(payoffs(row)[0] for row in range(size))!r}",
    ]


def test_all_examples_are_run() -> None:
    names = {path.stem for path in (REPOSITORY / "examples").glob("*.py")}
    assert names == {*LOCAL, *FURTHER, "measure_code"}


def test_the_gallery_is_tested_and_described() -> None:
    names = {path.stem for path in (REPOSITORY / "examples" / "gallery").glob("*.py")} - {"side_by_side"}
    described = re.findall(r"^\| `(\w+)\.py`", (REPOSITORY / "examples" / "README.md").read_text(), re.MULTILINE)
    assert names <= set(described)
    assert names == {KILLED, *(name for name, _size in GALLERY)}


def test_measure_code_measures_a_folder_in_parallel_as_it_does_serially(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\n")
    (tmp_path / "bad.py").write_text("def (\n")
    done = run_python(REPOSITORY / "examples" / "measure_code.py", str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "good.py" in done.stdout
    assert "bad.py" in done.stdout
    assert re.search(r"\n  at best +\d+\.00 x  with a core for each worker", done.stdout)


def test_measure_code_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        done = run_python(REPOSITORY / "examples" / "measure_code.py", str(folder), folder=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
