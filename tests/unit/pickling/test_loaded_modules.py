"""Loaded modules: which count as edited or reloaded, which depend on each other, and when to look."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from scaler.pickling import loaded_modules
from scaler.pickling.loaded_modules import ModuleVersions, ReloadWatch, dependents_of, needed_by, own_modules

SOURCE = """
import functools
RATE = 1
def plain(x, k=1): return x
@functools.cache
def cached(x): return x
def wrap(f):
    @functools.wraps(f)
    def wrapper(x): return f(x)
    return wrapper
@wrap
def wrapped(x): return x
class Thing:
    def method(self): return 1
    @staticmethod
    def static(): return 1
    @classmethod
    def of_class(cls): return 1
    @property
    def value(self): return 1
    @functools.cached_property
    def kept(self): return 1
    class Inner:
        def deep(self): return 1
Thing.Inner.outer = Thing
"""

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module with a new modification time."""
    monkeypatch.syspath_prepend(tmp_path)
    seconds = iter(range(1_700_000_000, 1_800_000_000, 10))
    names = set()

    def write_one(name: str, text: str) -> str:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (now := next(seconds), now))
        names.add(name.partition(".")[0])
        return str(path)

    yield write_one
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


def patch(function: Any) -> None:
    """Change a module in place, as reloading tools do."""
    function.__code__ = (lambda *_: 2).__code__


PATCHES: dict[str, Callable[[Any], None]] = {
    "function": lambda m: patch(m.plain),
    "default": lambda m: setattr(m.plain, "__defaults__", (2,)),
    "constant": lambda m: setattr(m, "RATE", 2),
    "new name": lambda m: setattr(m, "NEW", 2),
    "cache": lambda m: patch(m.cached.__wrapped__),
    "decorated": lambda m: patch(m.wrapped.__wrapped__),
    "method": lambda m: patch(m.Thing.method),
    "static method": lambda m: patch(m.Thing.static),
    "class method": lambda m: patch(m.Thing.of_class.__func__),
    "property": lambda m: patch(m.Thing.value.fget),
    "cached property": lambda m: patch(vars(m.Thing)["kept"].func),
    "inner class": lambda m: patch(m.Thing.Inner.deep),
    "reload": importlib.reload,
}


@pytest.mark.parametrize("way", PATCHES)
def test_a_module_is_new_when_it_was_edited_and_patched_or_reloaded(way: str, write: Write) -> None:
    path = write("patched_for_a_test", SOURCE)
    module = importlib.import_module("patched_for_a_test")
    versions, files = ModuleVersions(), {module.__name__: path}
    versions.accept(versions.find_new(files))
    assert not versions.find_new(files)
    write("patched_for_a_test", SOURCE.replace("1", "2"))
    assert not versions.find_new(files)  # this program still uses the old one
    PATCHES[way](module)
    new = versions.find_new(files)
    assert set(new) == {module.__name__}
    assert set(versions.find_new(files)) == set(new)
    versions.accept(new)
    assert not versions.find_new(files)


def test_a_module_that_was_reloaded_and_not_edited_is_not_new(write: Write) -> None:
    path = write("reloaded_for_a_test", SOURCE)
    module = importlib.import_module("reloaded_for_a_test")
    versions, files = ModuleVersions(), {module.__name__: path}
    versions.accept(versions.find_new(files))
    importlib.reload(module)
    assert not versions.find_new(files)


def test_a_module_that_is_not_loaded_is_new_when_it_was_edited(write: Write) -> None:
    path = write("unloaded_for_a_test", "X = 1\n")
    versions, files = ModuleVersions(), {"unloaded_for_a_test": path}
    versions.accept(versions.find_new(files))
    write("unloaded_for_a_test", "X = 2\n")
    new = versions.find_new(files)
    assert set(new) == {"unloaded_for_a_test"}
    versions.accept(new)
    importlib.import_module("unloaded_for_a_test")
    assert not versions.find_new(files)
    write("unloaded_for_a_test", "X = 3\n")
    assert not versions.find_new(files)  # now it is loaded
    Path(path).unlink()  # as editors do for a moment
    assert not versions.find_new(files)


def test_own_modules_excludes_installed_ones_and_imports_are_followed(write: Write) -> None:
    write("first_for_a_test", "def f():\n    from folder_for_a_test import second\n    return second.g()\n")
    write("folder_for_a_test.__init__", "")
    write("folder_for_a_test.second", "def g(): return 1\n")
    write("other_for_a_test", "import first_for_a_test\n")
    for name in ("first_for_a_test", "folder_for_a_test.second", "other_for_a_test"):
        importlib.import_module(name)
    own = own_modules()
    assert {"first_for_a_test", "folder_for_a_test", "folder_for_a_test.second"} <= own.keys()
    assert not {"os", "scaler.pickling.loaded_modules", "pytest", "__main__", "sys"} & own.keys()
    assert sorted(needed_by(["first_for_a_test", "os", "no_such"], own)) == [
        "first_for_a_test",
        "folder_for_a_test",
        "folder_for_a_test.second",
    ]


def test_modules_that_import_a_changed_module_are_concerned_transitively(write: Write) -> None:
    write("base_for_a_test", "RATE = 1\n")
    write("middle_for_a_test", "from base_for_a_test import RATE\n")
    write("top_for_a_test", "from middle_for_a_test import RATE\n")
    write("alone_for_a_test", "RATE = 5\n")
    for name in ("top_for_a_test", "alone_for_a_test"):
        importlib.import_module(name)

    def found(sources: dict[str, bytes]) -> set[str]:
        return {name for name in dependents_of(["base_for_a_test"], sources) if name.endswith("_for_a_test")}

    concerned = {"base_for_a_test", "middle_for_a_test", "top_for_a_test"}
    assert found({}) == concerned
    assert dependents_of(["not_loaded_for_a_test"], {"alone_for_a_test": b"import not_loaded_for_a_test"}) == []
    other = {"top_for_a_test": b"", "alone_for_a_test": b"from base_for_a_test import RATE"}
    assert found(other) == concerned - {"top_for_a_test"} | {"alone_for_a_test"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(loaded_modules, "time", clock)
    return clock


def test_modules_are_looked_at_after_each_reload_and_each_cell_and_otherwise_rarely(
    write: Write, monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    cells: list[Callable[..., None]] = []
    events = SimpleNamespace(register=lambda _event, function: cells.append(function))
    python = SimpleNamespace(get_ipython=lambda: SimpleNamespace(events=events))
    monkeypatch.setitem(sys.modules, "IPython", python)  # type: ignore[arg-type]
    looks: list[float] = []
    watch = ReloadWatch(lambda: looks.append(clock.now))

    def looked() -> bool:
        before = len(looks)
        watch.check_if_due()
        return len(looks) > before

    assert looked()
    assert not looked()
    write("module_for_a_test", "X = 1\n")
    module = importlib.import_module("module_for_a_test")
    assert not looked()
    importlib.reload(module)
    assert (looked(), looked()) == (True, False)
    for start_cell in cells:
        start_cell("the cell")
    assert (looked(), looked()) == (True, False)
    clock.now += loaded_modules.LOOK_SECONDS
    assert (looked(), looked()) == (True, False)


def test_slow_looks_are_rare_and_a_failed_look_is_repeated(clock: SimpleNamespace) -> None:
    seconds = 1.0
    looks: list[float] = []

    def look() -> None:
        looks.append(clock.now)
        clock.now += seconds
        if len(looks) == 1:
            raise ValueError

    watch = ReloadWatch(look)
    with pytest.raises(ValueError):
        watch.check_if_due()
    watch.check_if_due()
    assert len(looks) == 2
    clock.now += seconds * loaded_modules.WAIT_PER_LOOK - 0.1
    watch.check_if_due()
    assert len(looks) == 2
    clock.now += 0.2
    watch.check_if_due()
    assert len(looks) == 3


def test_unusual_objects_in_sys_modules_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    bare: Any = ModuleType("bare_for_a_test")
    bare.odd = Odd()
    bare.circle = type("Circle", (), {"__module__": "bare_for_a_test"})
    bare.circle.again = bare.circle.other = bare.circle
    monkeypatch.setitem(sys.modules, "odd_for_a_test", Odd())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "bare_for_a_test", bare)
    assert not {"odd_for_a_test", "bare_for_a_test"} & own_modules().keys()
    files = {"odd_for_a_test": __file__, "bare_for_a_test": __file__}
    assert ModuleVersions().find_new(files).keys() == files.keys()
