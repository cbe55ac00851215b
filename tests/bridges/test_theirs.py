"""Tests of parfun and of pargraph, from their source packages, with Scaler: those named here. Examples of Scaler 1.9.9.

Not here, of parfun's back-end: `test_is_backend_providing_speedup` and `test_task_duration`, which measure times that
a busy machine does not keep. The others of both packages have no back-end of Scaler.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bridges.needs import needs
from tests.support.on_tcp import on_tcp
from tests.support.processes import run_python

needs("parfun")
needs("pargraph")
pytestmark = [pytest.mark.more, pytest.mark.foreign, pytest.mark.processes]

OF_PARFUN = """
    tests.backend.test_scaler.TestScalerBackend.test_is_backend_handling_exceptions
    tests.backend.test_scaler.TestScalerBackend.test_is_backend_scaler_remote
    tests.backend.test_scaler.TestScalerBackend.test_supports_nested_tasks
"""
PROGRAM_OF_PARFUN = f"""
import os, sys, unittest
sys.path.insert(0, os.getcwd())
unittest.main(module=None, argv=["unittest", *{OF_PARFUN.split()!r}])
"""
OF_PARGRAPH = ["test_binary_tree_large", "test_binary_tree_small", "test_cycle", "test_example", "test_nested"]
PROGRAM_OF_PARGRAPH = f"""
import os, sys, unittest
import numpy
sys.path.insert(0, os.getcwd())
numpy.in1d = numpy.isin  # with python-graphblas, pargraph 0.9.6 calls it by this name, which numpy 2.4 has no more
from pargraph import GraphEngine
from scaler import Client
from tests.test_engine import TestEngineBase


class OnScaler(TestEngineBase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(n_workers=2)
        cls.engine = GraphEngine(cls.client)

    @classmethod
    def tearDownClass(cls):
        cls.client.disconnect()


unittest.main(argv=["unittest", *(f"OnScaler.{{name}}" for name in {OF_PARGRAPH!r})])
"""


OF_SCALER_1 = "disconnect graphtask graphtask_nested map nested send_object simple"


def source(package: str, folder: str) -> Path:
    found = next(Path(sys.prefix).glob(f".theirs-sources/{package}-[0-9]*/{folder}"), None)
    if found is None:
        pytest.skip(f"the source package of {package} is not here: make test-more gets it from the package index")
    return found


@pytest.mark.parametrize("name", OF_SCALER_1.split())
def test_the_examples_of_the_version_before_run_over_tcp_with_keys(name: str, tmp_path: Path) -> None:
    example = source("scaler", "examples") / f"{name}_client.py"
    done = run_python(example, folder=tmp_path, PYTHONPATH=on_tcp(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.listened.values()) == {"CURVE"}


@pytest.mark.parametrize(
    ("package", "program", "count"),
    [("parfun", PROGRAM_OF_PARFUN, len(OF_PARFUN.split())), ("pargraph", PROGRAM_OF_PARGRAPH, len(OF_PARGRAPH))],
)
def test_their_own_tests_pass(package: str, program: str, count: int, tmp_path: Path) -> None:
    folder = source(package, "tests")
    text = tmp_path / "program.py"
    text.write_text(program)
    done = run_python(text, folder=folder.parent, seconds=300, SCALER_PRELOAD="parfun,pandas")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Ran {count} tests" in done.stderr
    assert "skipped" not in done.stderr
