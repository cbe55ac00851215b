"""The README's examples do what it says, and so do the programs in `examples/`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY, command, complaints, descendants, run_python

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
    "simple_map",
    "send_object",
    "large_objects",
    "disconnect",
    "cancel",
    "profiling",
    "debugging",
    "web_service",
]


@pytest.mark.parametrize(
    "name", ["simple_submit", "add_workers", *(pytest.param(name, marks=pytest.mark.more) for name in FURTHER)]
)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    before = set(descendants())
    done = run_python(REPOSITORY / "examples" / f"{name}.py", folder=tmp_path)
    said = "1 open task was cancelled, because the client has ended" if name == "disconnect" else ""
    assert (done.returncode, complaints(done.stderr).partition(":")[0]) == (0, said)
    assert done.stdout
    assert set(descendants()) <= before


@pytest.mark.more
@pytest.mark.parametrize(("name", "size"), GALLERY)
def test_a_program_of_the_gallery_gives_what_it_gives_without_a_cluster(name: str, size: int, tmp_path: Path) -> None:
    before = set(descendants())
    done = run_python(REPOSITORY / "examples" / "gallery" / f"{name}.py", str(size), "-n", "2", folder=tmp_path)
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert "times as fast" in done.stdout.splitlines()[-1], (
        "the last line says how much faster it was, and why not more"
    )
    assert set(descendants()) <= before


def test_the_gallery_is_tested_and_described() -> None:
    names = {path.stem for path in (REPOSITORY / "examples" / "gallery").glob("*.py")} - {"side_by_side"}
    described = re.findall(r"^\| `(\w+)\.py`", (REPOSITORY / "examples" / "README.md").read_text(), re.MULTILINE)
    assert names <= set(described)
    assert names == {name for name, _size in GALLERY}


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
