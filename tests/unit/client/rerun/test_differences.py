"""Differences: a line for each fact in which two processes differ."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
import pytest

from scaler.client.rerun.differences import NAMES_MOST, differences, report_differences
from scaler.processor.execution.place import ProcessFacts, process_facts

THERE = ProcessFacts("rome07", "rome07-3", "3.12.1", {"numpy": "2.0.0"}, ["HOME", "PATH"])


@pytest.mark.parametrize(
    ("here", "lines"),
    [
        ({}, []),
        ({"worker": ""}, []),
        ({"host": "laptop"}, ["host: laptop here, rome07 there"]),
        ({"python": "3.11.7"}, ["Python: 3.11.7 here, 3.12.1 there"]),
        ({"packages": {"numpy": "1.26.4"}}, ["packages: numpy 1.26.4 here, 2.0.0 there"]),
        ({"packages": {"numpy": "2.0.0", "of_here": "1"}}, []),
        ({"variables": ["PATH"]}, ["environment variables set only there: HOME"]),
        (
            {"variables": ["A", "B", "HOME"]},
            ["environment variables set only there: PATH", "environment variables set only here: A, B"],
        ),
        (
            {"variables": ["HOME", "PATH", *map(str, range(NAMES_MOST + 2))]},
            [f"environment variables set only here: {', '.join(map(str, range(NAMES_MOST)))} and 2 more"],
        ),
    ],
)
def test_each_difference_of_processes_has_a_line(here: dict[str, Any], lines: list[str]) -> None:
    assert differences(THERE, THERE._replace(**here)) == lines


def test_a_package_that_is_installed_and_not_imported_is_compared() -> None:
    there = THERE._replace(packages={"capnp": metadata.version("pycapnp"), "nothing": "1.0"})
    assert differences(there, THERE._replace(packages={})) == ["packages: nothing missing here, 1.0 there"]


def test_variables_beyond_the_omitted_ones_are_not_compared() -> None:
    here = THERE._replace(variables=["A", "HOME", "PATH", "Z"])
    assert differences(THERE._replace(omitted=9), here) == ["environment variables set only here: A"]


def test_a_rerun_in_a_different_process_prints_the_differences(capsys: pytest.CaptureFixture[str]) -> None:
    here = process_facts(np.mean)
    report_differences("task mean", here._replace(worker="w-1"), np.mean)
    assert capsys.readouterr() == ("", "")
    report_differences("task mean", here._replace(host="rome07", worker="w-1"), np.mean, ["a note"])
    head = "rerun of task mean, which failed on worker w-1: what differs here"
    assert capsys.readouterr() == ("", f"{head}\n  host: {here.host} here, rome07 there\n  a note\n")
    report_differences("task mean", None, np.mean)
    assert "\n  unknown: " in capsys.readouterr().err


def test_without_standard_error_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    report_differences("task mean", None, np.mean)
