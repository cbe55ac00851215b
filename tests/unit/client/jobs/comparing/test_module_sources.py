"""Modules that a function imports when it runs count by their sources, whether they are loaded or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scaler.client.jobs.comparing.fingerprint import differences
from scaler.client.jobs.comparing.module_sources import Import, ModuleSources, parse

FILES = {
    "helpmod.py": "import deeper\nk = 1\n",
    "deeper.py": "'''A docstring.'''\nk = 1\n",
    "cfg.py": "import deeper\nK = 1\n",
    "plain.py": "K = 1\n",
    "helppkg/__init__.py": "TOP = 1\n",
    "helppkg/sub.py": "from . import near\nk = 1\n",
    "helppkg/near.py": "k = 1\n",
    "space/inner/leaf.py": "k = 1\n",
    "pk/__init__.py": "TOP = 1\nfrom . import work\n",
    "pk/work.py": """
def rel1(x):
    from . import consts
    return consts.K
def rel2(x):
    from .consts import K
    return K
def rel3(x):
    from .late import K
    return K
def rel4(x):
    from . import TOP
    return TOP
def rel5(x):
    import pk.late
    return pk.TOP
""",
    "pk/consts.py": "K = 1\n",
    "pk/late.py": "K = 1\n",
}

PROGRAM = """
import importlib, json, sys
from importlib import import_module
for name in sys.argv[1:]: import_module(name)
from scaler.client.jobs.comparing.fingerprint import fingerprint
import cfg, helppkg, pk.work, plain
def f1(x):
    import helpmod
    return helpmod.k
def f2(x):
    from helppkg import sub
    return sub.k + helppkg.TOP
def f3(x):
    return importlib.import_module("helpmod").k
def f4(x):
    from helppkg.sub import k
    return k
def f5(x):
    from space.inner.leaf import k
    import missing_for_a_test, json.decoder, numpy
    return k
def f6(x):
    def inner(): return import_module("helppkg.sub")
    return inner().k
def f7(x):
    return f1(x)
def outer():
    import helpmod
    def inner(x): return helpmod.k
    return inner
closed = outer()
def default(x, m=cfg): return m.K
def ga(x): return getattr(cfg, "K")
def viadict(x): return vars(cfg)["K"]
def plainly(x): return plain.K
functions = [f1, f2, f3, f4, f5, f6, f7, closed, default, ga, viadict, plainly]
functions += [pk.work.rel1, pk.work.rel2, pk.work.rel3, pk.work.rel4, pk.work.rel5]
found = {}
for each in functions:
    each = fingerprint(each, {})
    assert not each.not_compared
    found[each.parts["name"]] = each.parts
assert "numpy" not in sys.modules or "numpy" in sys.argv
print(json.dumps(found))
"""

LAZY = ["helpmod", "helppkg.sub", "space.inner.leaf", "pk.consts", "pk.late", "deeper", "numpy", "json.decoder"]


def found(
    folder: Path, *early: str, seed: str = "1", edits: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """Return the fingerprints of all functions as a new process makes them.

    Args:
        early: the modules that it loads first.
        edits: other contents of files, by name.
    """
    for name, text in {**FILES, "program.py": PROGRAM, **(edits or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = {
        **os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, str(folder / "program.py"), *early]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    result: dict[str, dict[str, str]] = json.loads(done.stdout)
    return result


@pytest.mark.thorough
@pytest.mark.processes
def test_other_seeds_folders_lines_and_loaded_modules_make_the_same_fingerprint(tmp_path: Path) -> None:
    known = found(tmp_path)
    assert set(known["f1"]) >= {"module helpmod", "module deeper"}
    assert not [part for part in known["plainly"] if part.startswith("module ")]
    assert known == found(tmp_path / "other", *LAZY, seed="2")
    moved = {name: f"# a line\n\n{text}\n# another one\n" for name, text in {**FILES, "program.py": PROGRAM}.items()}
    assert known == found(tmp_path / "other", seed="3", edits=moved)
    for text in ("# a line\n'''Says more.'''\n\nk = 1", "k = 1"):
        assert known == found(tmp_path / "other", "pk.late", edits={"deeper.py": text})


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("helpmod.py", "import deeper\nk = 2", {"f1", "f3", "f7", "outer.<locals>.inner"}),
        ("deeper.py", "k = 2", {"f1", "f3", "f7", "outer.<locals>.inner", "default", "ga", "viadict"}),
        ("helppkg/sub.py", "from . import near\nk = 2", {"f2", "f4", "f6"}),
        ("helppkg/near.py", "k = 2", {"f2", "f4", "f6"}),
        ("space/inner/leaf.py", "k = 2", {"f5"}),
        ("cfg.py", "import deeper\nK = 2", {"default", "ga", "viadict"}),
        ("plain.py", "K = 2", {"plainly"}),
        ("pk/consts.py", "K = 2", {"pk.work.rel1", "pk.work.rel2", "pk.work.rel4", "pk.work.rel5"}),
        ("pk/late.py", "K = 2", {"pk.work.rel3", "pk.work.rel4", "pk.work.rel5"}),
        ("pk/__init__.py", "TOP = 2\nfrom . import work", {"pk.work.rel4", "pk.work.rel5"}),
    ],
)
def test_an_edited_module_changes_the_functions_that_import_it(
    file: str, text: str, names: set[str], tmp_path: Path
) -> None:
    known, now = found(tmp_path), found(tmp_path, edits={file: text})
    assert {name for name in known if known[name] != now[name]} == names
    assert now == found(tmp_path, *LAZY, edits={file: text})
    if file == "helpmod.py":
        assert differences(known["f1"], now["f1"]) == ["the module helpmod was edited"]


def test_sources_that_travel_take_precedence_over_files() -> None:
    sources = ModuleSources({"own_for_a_test": b"import own_too", "own_too": b"import own_for_a_test"})
    assert [*sources.digests([Import("own_for_a_test")], "")] == ["own_for_a_test", "own_too"]
    assert sources.digests([Import("json"), Import("numpy", ("array",)), Import("sys"), Import("..a")], "") == {}


def test_imports_of_a_source_are_found() -> None:
    text = b"def f():\n from .a import b, c\n import d.e\n import_module('g')\n x.__import__('h')\n import_module(i)"
    assert parse(text).imports == {Import(".a", ("b", "c")), Import("d.e"), Import("g"), Import("h")}
    assert parse(b"not python").imports == frozenset()
