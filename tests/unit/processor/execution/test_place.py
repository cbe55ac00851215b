"""ProcessFacts: what a failure reports of its process, what it omits, and malformed facts."""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from scaler.processor.execution.place import (
    JSON_BYTES,
    NAMES_CHARACTERS,
    PACKAGES_MOST,
    ProcessFacts,
    encoded_facts,
    process_facts,
)

WHOLE = {"host": "h", "worker": "w", "python": "3.11.1", "packages": {"p": "1"}, "variables": ["A"], "omitted": 0}


def mean(values: Any) -> Any:
    return np.mean(values)


def text_of(data: bytes) -> str:
    return zlib.decompress(data).decode()


def test_process_facts_have_the_packages_of_the_function_and_survive_encoding() -> None:
    place = process_facts(mean, "rome07-3")
    assert place.packages["numpy"] == np.__version__
    assert place.worker == "rome07-3"
    assert place.python == sys.version.split()[0]
    assert ProcessFacts.decode(encoded_facts(mean, "rome07-3")) == place
    assert process_facts(None).packages == {}


def test_process_facts_name_variables_without_values_and_without_variables_of_shells_and_scaler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = "SCALER_ADDRESS", "PYTHONHASHSEED", "OMP_NUM_THREADS", "SHLVL", "PWD", "_"
    for name in ("OF_MINE", *others):
        monkeypatch.setenv(name, "73219")
    data = encoded_facts(mean)
    place = ProcessFacts.decode(data)
    assert place is not None
    assert "OF_MINE" in place.variables
    assert not {"SCALER_ADDRESS", "PYTHONHASHSEED", "OMP_NUM_THREADS", "SHLVL", "PWD", "_"}.intersection(
        place.variables
    )
    assert "73219" not in text_of(data)
    monkeypatch.setenv("OF_MINE", "another value")
    assert encoded_facts(mean) == data


def test_process_facts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1000):
        monkeypatch.setenv(f"VARIABLE_{number:04}", "")
    monkeypatch.setattr(
        "scaler.processor.execution.place.versions_used_by", lambda _: dict.fromkeys(map(str, range(99)))
    )
    place = process_facts(mean)
    assert sum(map(len, place.variables)) <= NAMES_CHARACTERS
    assert len(place.variables) + place.omitted >= 1000
    assert list(place.variables) == sorted(place.variables)
    assert len(place.packages) == PACKAGES_MOST


def test_process_facts_that_cannot_be_collected_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_function: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("scaler.processor.execution.place.versions_used_by", fails)
    assert encoded_facts(mean) == b""


def test_an_undecodable_variable_name_is_shown_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A\udc80\x1b", "")
    place = ProcessFacts.decode(encoded_facts(mean))
    assert place is not None
    assert r"A\udc80\x1b" in place.variables


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"12345678",
        zlib.compress(b"[]"),
        zlib.compress(b" " * (JSON_BYTES + 9)),
        *(zlib.compress(json.dumps({**WHOLE, key: value}).encode()) for key, value in (
            ("host", 3), ("packages", []), ("packages", {"p": 1}), ("variables", [[]]), ("omitted", "many"),
        )),
        zlib.compress(json.dumps({"host": "h"}).encode()),
    ],
)  # fmt: skip
def test_malformed_process_facts_decode_to_none(data: bytes) -> None:
    assert ProcessFacts.decode(zlib.compress(json.dumps(WHOLE).encode())) == ProcessFacts(
        "h", "w", "3.11.1", {"p": "1"}, ["A"]
    )
    assert ProcessFacts.decode(data) is None
