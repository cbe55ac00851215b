"""Actions on import, with any finder, and after any number of failed imports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from scaler.process.user_code.on_import import on_import


@pytest.fixture
def acted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield []
    sys.meta_path[:] = finders
    for name in ("comes_later", "comes_from_a_package"):
        sys.modules.pop(name, None)


def test_the_action_for_a_loaded_module_runs_at_once(acted_on: list[str]) -> None:
    on_import("json", lambda module: acted_on.append(module.__name__))
    assert acted_on == ["json"]


def test_the_action_for_a_module_runs_after_its_code(acted_on: list[str], tmp_path: Path) -> None:
    file = tmp_path / "comes_later.py"
    file.write_text("raise OSError('not now')")
    on_import("comes_later", lambda module: acted_on.append(module.value))
    on_import("comes_later", lambda module: acted_on.append(f"{module.value} again"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("comes_never")
    with pytest.raises(OSError, match="not now"):
        importlib.import_module("comes_later")
    assert acted_on == []
    file.write_text("value = 'here'  # longer than before")
    importlib.invalidate_caches()
    module = importlib.import_module("comes_later")
    assert sorted(acted_on) == ["here", "here again"]
    assert module.__spec__ is not None
    assert module.__spec__.origin == str(file)


class OfAPackage:
    """A finder such as those of editable installations."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find_spec(self, name: str, _path: object = None, _target: ModuleType | None = None) -> object:
        if name != "comes_from_a_package":
            return None
        return importlib.util.spec_from_file_location(name, self._file)


def test_finders_of_other_packages_are_used(acted_on: list[str], tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.txt.py"
    file.write_text("")
    sys.meta_path.append(OfAPackage(file))  # type: ignore[arg-type]
    on_import("comes_from_a_package", lambda module: acted_on.append(module.__name__))
    importlib.import_module("comes_from_a_package")
    assert acted_on == ["comes_from_a_package"]
