"""Pages of the documentation: the Python on a page, taken together, is a program that runs.

It runs in a folder of its own, beside a cluster with keys on TCP that stands at the address the environment names.
Pieces of larger programs are `{code-block} python` on their pages, and sessions are `pycon`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import SchedulerClusterCombo
from tests.support.processes import REPOSITORY, run_python

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS = {
    str(path.relative_to(REPOSITORY)): "\n".join(BLOCK.findall(path.read_text()))
    for path in sorted((REPOSITORY / "docs").rglob("*.md"))
    if BLOCK.search(path.read_text())
}
ELSEWHERE = re.compile(r"tcp://10\.0\.0\.1:2345")
"""the address that pages give their scheduler"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster in a folder of its own, too: tasks of pages write files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("workers"))
        patch.setenv("SCALER_KEEP", str(tmp_path_factory.mktemp("jobs")))
        with SchedulerClusterCombo(2, "tcp://127.0.0.1:*", logging_level="WARNING") as combo:
            patch.delenv("SCALER_KEEP")  # the schedulers of the programs keep nothing
            yield combo.get_address()


@pytest.mark.more
@pytest.mark.parametrize("page", PROGRAMS)
def test_the_python_of_a_page_runs(page: str, address: str, tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text(ELSEWHERE.sub(address, PROGRAMS[page]))
    done = run_python(program, folder=tmp_path, SCALER_ADDRESS=address)
    assert done.returncode == 0, done.stderr


def test_pages_have_programs() -> None:
    assert len(PROGRAMS) > 15
    for page, program in PROGRAMS.items():
        compile(program, page, "exec")
