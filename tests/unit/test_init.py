"""The package itself: its names exist, and their modules are imported at their first use."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import scaler
from scaler.transport.streams import ARE_SUPPORTED


@pytest.mark.parametrize("name", scaler.__all__)
def test_each_public_name_can_be_imported_and_has_its_module(name: str) -> None:
    value = getattr(scaler, name)
    assert not isinstance(value, ModuleType)
    assert vars(scaler)[name] is value  # it is imported once
    if name != "__version__":
        assert value.__name__ == name
        assert value.__module__ == scaler._PLACES[name]


def test_public_names_are_in_all_tables() -> None:
    assert {*scaler._PLACES, "__version__"} == {*scaler.__all__} == {*dir(scaler)}


def test_submodules_are_attributes_and_unknown_names_raise() -> None:
    assert scaler.errors is sys.modules["scaler.errors"]
    with pytest.raises(AttributeError, match="module 'scaler' has no attribute 'Clientt'"):
        _ = scaler.Clientt  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Clientt'"):
        from scaler import Clientt  # type: ignore[attr-defined]  # noqa: F401


def test_a_missing_dependency_raises_its_own_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'capnp'", name="capnp")

    monkeypatch.setattr(scaler, "_import_module", broken)
    monkeypatch.delitem(vars(scaler), "Client", raising=False)
    with pytest.raises(ModuleNotFoundError, match="capnp"):
        _ = scaler.Client


def loaded_by(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {name for name in done.stdout.split() if name.startswith(("scaler.", "zmq"))}


@pytest.mark.processes
@pytest.mark.parametrize("part", ["scaler.scheduler.scheduler", "scaler.agent.agent"])
def test_neither_scheduler_nor_agent_imports_the_client(part: str) -> None:
    loaded = loaded_by(f"import {part}")
    assert part in loaded
    assert not [name for name in loaded if name.startswith(("scaler.client", "scaler.cluster"))]


@pytest.mark.processes
def test_a_client_starts_a_cluster_wherever_it_was_imported_from() -> None:
    code = """
from scaler.client.client import Client
with Client(processes=False, n_workers=1) as client:
    assert client.submit(pow, 2, 3).result() == 8
"""
    assert {"scaler.cluster.combo", "scaler.cluster.threads"} <= loaded_by(code)


@pytest.mark.processes
@pytest.mark.skipif(not ARE_SUPPORTED, reason="there are no streams here")
def test_neither_a_client_with_a_cluster_of_its_own_nor_an_agent_imports_zeromq() -> None:
    """The import takes 45 ms of processor time."""
    code = """
from scaler import Client
with Client(n_workers=1) as client:
    assert client.submit(pow, 2, 3).result() == 8
    look = lambda: {name for name in __import__("sys").modules if name.startswith("zmq")}
    assert client.submit(look).result() == set()
"""
    for loaded in (loaded_by(code), loaded_by("import scaler.agent.agent")):
        assert "scaler.transport.streams" in loaded
        assert not [name for name in loaded if name.startswith("zmq")]


@pytest.mark.processes
def test_processors_import_the_client_before_their_first_task() -> None:
    with scaler.SchedulerClusterCombo(1) as combo, scaler.Client(combo.get_address()) as client:
        look = lambda: "scaler.client.client" in __import__("sys").modules  # noqa: E731 - travels by value
        assert client.submit(look).result(60)
