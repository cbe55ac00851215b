"""joblib's own tests of parallel calls, with Scaler as a back-end beside its own: all that name it.

What fails is here, with the reason; one that passes leaves the list, and one more is a defect.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bridges.needs import needs
from tests.support.processes import REPOSITORY, run_python

needs("joblib")
pytestmark = [pytest.mark.more, pytest.mark.foreign, pytest.mark.processes]

PLUGIN = """
import pytest
import scaler.integrations.joblib
from scaler import Client, SchedulerClusterCombo

scaler.integrations.joblib.register()

@pytest.fixture(scope="session", autouse=True)
def on_scaler():
    with SchedulerClusterCombo(2, logging_level="WARNING") as cluster, Client(cluster.get_address()) as client:
        scaler.integrations.joblib._client_of = lambda _process: client
        yield
"""
OTHERS = {
    "interactively_defined_functions": "a script of its own, in which nobody registers the back-end",
    "unpicklable_functions_in_args": "nine such scripts",
    "nested_loop[loky-scaler": "in a process of loky nobody has registered it",
    "nested_loop[back_compat_backend-scaler": "the same",
    "nested_loop[multiprocessing-scaler": "the client of the test in a process that was forked from it",
    "nested_backend_in_sequential": "it takes one job for the default; that of this back-end is all workers",
    "auto_memmap_on_arrays_from_generator": "there is no memory map on disk",
    "memmapping_leaks": "the same",
    "error_capture": "KeyboardInterrupt in a task is a TaskFailedError",
}
"""part of a name, without `test_` -> why it fails"""


@pytest.mark.timeout(200)
def test_joblib_finds_no_difference_but_these(tmp_path: Path) -> None:
    spec = find_spec("joblib.test.test_parallel")
    assert spec is not None
    assert spec.origin is not None
    theirs = Path(spec.origin).read_text(encoding="utf-8")
    theirs, count = re.subn(
        r"^( *)(PARALLEL|PROCESS)_BACKENDS = .*\".*$", r"\1\2_BACKENDS = ['scaler']", theirs, flags=re.MULTILINE
    )
    assert count == 2
    (tmp_path / "test_of_joblib.py").write_text(theirs, encoding="utf-8")
    (tmp_path / "on_workers.py").write_text(PLUGIN)
    (tmp_path / "pytest.ini").touch()
    options = ["-q", "-c", "pytest.ini", "-p", "on_workers", "-p", "no:cacheprovider", "-W", "ignore", "-k", "scaler"]
    done = run_python(
        "-m",
        "pytest",
        *options,
        "test_of_joblib.py",
        folder=tmp_path,
        seconds=180,
        PYTHONPATH=f"{tmp_path}:{REPOSITORY}",
    )
    failed = re.findall(r"^FAILED test_of_joblib.py::test_(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    assert [name for name in failed if not any(part in name for part in OTHERS)] == [], done.stdout[-6000:]
    [passed] = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) > 90
