from __future__ import annotations

import logging
import pickle
import sys
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from scaler.pickling import versions
from scaler.pickling.serialization import DefaultSerializer, function_from_frames, function_to_frames
from scaler.pickling.versions import compare, differences, versions_used_by
from tests.unit.pickling.test_pickled_functions import in_main

DEFAULT = DefaultSerializer()


def made(name: str, version: object, source: str = "", **contents: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update({"__version__": version, **contents})
    exec(source, vars(module))
    return module


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """`pack_a` 1.0, which uses `pack_b` 2.0, and `pack_c`, whose version is not a text."""
    pack_b = made("pack_b", "2.0", "class Row: pass")
    found = {
        "pack_a": made("pack_a", "1.0", "def f(x): return x", Row=pack_b.Row),
        "pack_b": pack_b,
        "pack_c": made("pack_c", (3, 0)),
    }
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(versions, "_differing", {})
    monkeypatch.setattr(versions, "_said", set())
    return found


def test_a_function_of_a_module_uses_the_packages_that_its_module_imports(packages: dict[str, ModuleType]) -> None:
    assert versions_used_by(packages["pack_a"].f) == {"pack_a": "1.0", "pack_b": "2.0"}
    assert versions_used_by(partial(packages["pack_a"].f, 1)) == {"pack_a": "1.0", "pack_b": "2.0"}


def test_a_function_of_the_main_script_uses_the_packages_that_it_names(packages: dict[str, ModuleType]) -> None:
    source = "import os\ndef f(): return (lambda: pack_a.f(1))(), pack_c, os, missing"
    assert versions_used_by(in_main(source, **packages)) == {"pack_a": "1.0"}
    assert versions_used_by(in_main("def f(): return Row()", Row=packages["pack_b"].Row)) == {"pack_b": "2.0"}


@pytest.mark.parametrize("function", [len, in_main("def f(x): return x"), [].append, 3])
def test_a_function_that_uses_no_package_carries_no_versions(function: Any) -> None:
    assert versions_used_by(function) == {}
    if callable(function):
        assert function_to_frames(DEFAULT, function)[0] == b""


def test_a_difference_of_versions_is_logged_once_and_stays_known(
    packages: dict[str, ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    frames = function_to_frames(DEFAULT, packages["pack_a"].f)
    with caplog.at_level(logging.WARNING, "scaler.processor"):
        function_from_frames(frames)
        assert (caplog.messages, differences()) == ([], "")
        vars(packages["pack_b"])["__version__"] = "2.1"
        for _ in range(2):
            assert function_from_frames(frames)[1] is packages["pack_a"].f
    [line] = caplog.messages
    assert line.startswith("a task uses pack_b 2.0, and this worker has 2.1: ")
    assert differences() == "pack_b is 2.1 here and 2.0 at the sender"
    compare({"pack_b": "2.1"})
    assert differences() == ""


def test_a_package_that_is_not_imported_is_not_compared(packages: dict[str, ModuleType]) -> None:
    compare({"not_here": "1", "pack_c": "3.0"})
    assert differences() == ""


def test_versions_of_an_unreadable_function_are_compared(packages: dict[str, ModuleType]) -> None:
    frames = function_to_frames(DEFAULT, packages["pack_a"].f)
    del packages["pack_a"].f
    vars(packages["pack_a"])["__version__"] = "0.9"
    with pytest.raises(Exception, match="Can't get attribute 'f'"):
        function_from_frames(frames)
    assert differences() == "pack_a is 0.9 here and 1.0 at the sender"


def test_a_function_carries_its_serializer_modules_and_versions(packages: dict[str, ModuleType]) -> None:
    own = pickle.loads(function_to_frames(DEFAULT, packages["pack_a"].f)[0])
    assert (type(own.serializer), own.modules, own.versions) == (
        DefaultSerializer,
        b"",
        {"pack_a": "1.0", "pack_b": "2.0"},
    )
