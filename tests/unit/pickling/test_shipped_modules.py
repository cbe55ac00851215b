from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.pickling import shipped_modules
from scaler.pickling.shipped_modules import Shipped, install

FILES = {
    "mine/__init__.py": "from mine.tool import double\nfrom . import parts\n",
    "mine/tool.py": "def double(x):\n    return 2 * x\n\ndef fail():\n    raise ValueError('here')  # this line\n",
    "mine/parts/__init__.py": "NAME = __name__, __file__\n",
    "mine/data.txt": "no module",
    "alone.py": "VALUE = 1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def write(path: Path, text: str) -> None:
    """Write a file with a new modification time, also on file systems with a coarse clock."""
    path.write_text(text)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000_000))


def run(*packed: bytes, code: str) -> str:
    """Run code in a process that gets the packed modules as `p0`, `p1` and so on."""
    names = {f"p{number}": each for number, each in enumerate(packed)}
    program = (
        f"from scaler.pickling.shipped_modules import carried, install\nglobals().update({names!r})\n"
        + textwrap.dedent(code)
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.processes
def test_shipped_packages_and_files_can_be_imported(folder: Path) -> None:
    packed = Shipped([folder / "mine", str(folder / "alone.py")]).packed()
    code = """
        install(p0)
        import alone, mine.parts, traceback
        print(mine.double(4), alone.VALUE, mine.parts.NAME[0], mine.parts.NAME[1].endswith("__init__.py"))
        try:
            mine.tool.fail()
        except ValueError:
            print("# this line" in traceback.format_exc())
    """
    (folder / "mine" / "tool.py").rename(folder / "mine" / "tool.txt")  # the source line is shipped with the module
    assert run(packed, code=code).splitlines() == ["8 1 mine.parts True", "True"]


@pytest.mark.processes
def test_new_content_of_a_shipped_module_replaces_the_old_one(folder: Path) -> None:
    ours = Shipped([folder / "mine", folder / "alone.py"])
    before = ours.packed()
    assert ours.packed() is before
    write(folder / "mine" / "tool.py", "def double(x):\n    return 'two times'\n")
    assert ours.look()
    after = ours.packed()
    assert after != before
    code = """
        install(p0)
        import alone, mine
        old, kept = mine, alone
        install(p0)
        import mine
        print(mine is old)
        install(p1)
        import alone, mine
        print(mine.double(4), old.double(4), alone is kept, carried() == p1)
        install(b"")
        try:
            import mine
        except ImportError as error:
            print(error)
    """
    assert run(before, after, code=code).splitlines() == ["True", "two times 8 True True", "No module named 'mine'"]


@pytest.mark.processes
def test_modules_that_import_from_a_changed_module_are_reloaded(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "there.py").write_text("from mine2 import RATE\n")
    (folder / "mine1.py").write_text("from mine2 import RATE\n")
    (folder / "mine2.py").write_text("RATE = 1\n")
    ours = Shipped([folder / "mine1.py", folder / "mine2.py", folder / "alone.py"])
    before = ours.packed()
    write(folder / "mine2.py", "RATE = 2\n")
    assert ours.look()
    code = f"""
        import sys
        sys.path.insert(0, {str(folder / "elsewhere")!r})
        for packed in (p0, p1):
            install(packed)
            import alone, mine1, there
            print(mine1.RATE, there.RATE, alone.VALUE)
            alone.VALUE = "kept"
    """
    assert run(before, ours.packed(), code=code).splitlines() == ["1 1 1", "2 2 kept"]


@pytest.mark.processes
def test_a_shipped_module_takes_precedence_over_an_installed_one(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "alone.py").write_text("VALUE = 'installed'")
    code = f"""
        import sys
        sys.path.insert(0, {str(folder / "elsewhere")!r})
        import alone
        print(alone.VALUE)
        install(p0)
        import alone
        print(alone.VALUE)
    """
    assert run(Shipped([folder / "alone.py"]).packed(), code=code).split() == ["installed", "1"]


@pytest.mark.processes
def test_a_module_object_can_be_shipped_and_a_submodule_ships_its_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    import mine.tool  # type: ignore[import-not-found]

    try:
        packed = Shipped([mine.tool]).packed()
        install(packed)  # no effect: this process has shipped it
        assert sys.modules["mine"] is mine
        assert shipped_modules._installed.packed == b""
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
            del sys.modules[name]
    assert run(packed, code="install(p0)\nimport mine.parts\nprint(mine.double(1))") == "2"


@pytest.mark.processes
def test_shipped_modules_can_be_added_later(folder: Path) -> None:
    ours = Shipped()
    assert ours.packed() == b""
    ours.add([folder / "alone.py"])
    ours.add([folder / "mine"])
    assert run(ours.packed(), code="install(p0)\nimport alone, mine\nprint(alone.VALUE)") == "1"


@pytest.mark.parametrize(
    "module",
    [
        sys,
        os,
        shipped_modules,
        sys.modules["__main__"],
        ModuleType("made_up"),
        "no/such.py",
        "/etc/passwd",
        "not a name.py",
    ],
)
def test_the_refusal_of_a_module_that_cannot_be_shipped_names_the_remedy(module: Any) -> None:
    with pytest.raises(ConfigError, match=r"cannot be sent to the workers|pass a \.py file, or the folder"):
        Shipped([module])


def test_a_package_with_compiled_parts_is_refused(folder: Path) -> None:
    (folder / "mine" / "fast.so").touch()
    with pytest.raises(ConfigError, match=r"the module mine cannot be sent to the workers: fast\.so is compiled"):
        Shipped([folder / "mine"])


def test_too_much_source_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_modules, "SOURCE_BYTES_MOST", 10)
    ours = Shipped([folder / "alone.py"])
    with pytest.raises(ConfigError, match="install them on the workers"):
        ours.add([folder / "mine"])


def test_offered_modules_rank_behind_modules_of_the_program(folder: Path) -> None:
    packed = Shipped([folder / "mine", folder / "alone.py"]).packed()
    write(folder / "alone.py", "VALUE = 2\n")
    later = Shipped([folder / "mine", folder / "alone.py"]).packed()
    own = folder / "own"
    own.mkdir()
    (own / "alone.py").write_text("VALUE = 3\n")
    code = f"""
        import sys
        from scaler.pickling.shipped_modules import carried, offer, differing_sources
        offer(p0)
        import alone, mine
        print(alone.VALUE, mine.double(2), mine.parts.NAME[0], carried(), differing_sources(p0))
        first = mine
        offer(p0)
        offer(p1)
        import alone, mine
        print(alone.VALUE, mine is first)
        del sys.modules["alone"]
        sys.path.insert(0, {str(own)!r})
        offer(p1)
        import alone
        print(alone.VALUE, differing_sources(p1), differing_sources(p0))
        """
    expected = ["1 4 mine.parts b'' []", "2 False", "3 ['alone'] ['alone']"]
    assert run(packed, later, code=code).splitlines() == expected


def test_a_submodule_is_not_offered_for_the_programs_own_version_of_its_package(folder: Path) -> None:
    packed = Shipped([folder / "mine"]).packed()
    own = folder / "own" / "mine"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("")
    code = f"""
        import sys
        from scaler.pickling.shipped_modules import offer, differing_sources
        sys.path.insert(0, {str(own.parent)!r})
        offer(p0)
        import mine
        try:
            import mine.tool
        except ImportError as error:
            print(error, differing_sources(p0))
        """
    assert run(packed, code=code).splitlines() == ["No module named 'mine.tool' ['mine']"]
