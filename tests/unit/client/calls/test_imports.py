"""A client names the installed modules that its first functions need, and nothing else."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from scaler.client.calls.imports import FUNCTIONS_MOST, RequiredModules
from scaler.endpoint import Endpoint
from scaler.pickling.serialization import DefaultSerializer, function_to_frames
from scaler.transport.private import ImportsFile as Place
from scaler.transport.private import new_private_endpoint, remove_private_folder

NAMES = ("inst_a", "inst_a.inner", "inst_b", "inst_c", "own_of_user")


class Written:
    """The modules that a client has written at a private address."""

    def __init__(self, endpoint: Endpoint) -> None:
        place = Place.at(endpoint)
        assert place is not None
        self.imports, self.take = RequiredModules(endpoint), place.take

    def note(self, function: Any, own: tuple[str, ...] = ()) -> None:
        self.imports.note(function_to_frames(DefaultSerializer(), function, b""), own)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    installed = tmp_path / "site-packages"
    (installed / "inst_a").mkdir(parents=True)
    (installed / "inst_a" / "__init__.py").write_text("def f(): ...\n")
    (installed / "inst_a" / "inner.py").write_text("class Value: ...\n")
    (installed / "inst_b.py").write_text("def g(): ...\n")
    (installed / "inst_c.py").write_text("")
    (tmp_path / "own_of_user.py").write_text("from inst_b import g\ndef h(): ...\n")
    monkeypatch.syspath_prepend(installed)
    monkeypatch.syspath_prepend(tmp_path)
    for name in NAMES:
        importlib.import_module(name)
    endpoint = new_private_endpoint()
    yield Written(endpoint)
    remove_private_folder(endpoint)
    for name in NAMES:
        del sys.modules[name]


def test_the_modules_that_the_pickle_of_a_function_names_are_required(written: Written) -> None:
    value = sys.modules["inst_a.inner"].Value()
    written.note(lambda: value)
    assert written.take() == ["cloudpickle.cloudpickle", "inst_a.inner"]
    written.note(sys.modules["inst_a"].f)
    assert written.take() == ["cloudpickle.cloudpickle", "inst_a", "inst_a.inner"], "all so far: it may start later"
    written.note(sys.modules["inst_a"].f)
    assert written.take() == [], "nothing new"


def test_modules_imported_by_a_user_module_are_required_and_the_user_module_is_not(written: Written) -> None:
    written.note(sys.modules["own_of_user"].h, ("own_of_user",))
    assert written.take() == ["inst_b"]


def test_modules_of_functions_beyond_a_limit_are_not_noted(written: Written) -> None:
    for _ in range(FUNCTIONS_MOST):
        written.note(len)
    written.note(sys.modules["inst_a"].f)
    assert written.take() == []


def test_required_modules_of_a_tcp_address_are_not_written() -> None:
    RequiredModules(Endpoint.parse("tcp://127.0.0.1:1")).note((b"", b""), ())
