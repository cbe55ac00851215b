"""Fingerprints: equal for the same function in another process, and different for another function."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scaler.client.jobs.comparing.fingerprint import differences, fingerprint

PROGRAM = """
import collections, dataclasses, datetime, decimal, enum, functools, json, logging, math, random, re, sys, threading
import numpy as np
from scaler.client.jobs.comparing.fingerprint import fingerprint

RATES = {"a": 1.5, "b": (2, 3)}
KINDS = frozenset(["x", "y", "z", "w"])
AS_OF = datetime.date(1999, 1, 1)
VOL = np.float64(0.25)
GRID = np.arange(6.0).reshape(2, 3)
DEC = decimal.Decimal("0.75")
PATTERN = re.compile("p+")
CYCLE = [11]; CYCLE.append(CYCLE)
DEEP = 12
for _ in range(3000): DEEP = [DEEP]
LOCK = threading.Lock(); LOG = logging.getLogger("log"); MISSING = object(); LOCAL = threading.local()
DRAW = random.random

class Side(enum.Enum):
    BUY = "buy"; SELL = "sell"

@dataclasses.dataclass
class Deal:
    n: int = 20
    tags: set = dataclasses.field(default_factory=lambda: {"t", "u"})

class Model:
    '''A docstring.'''
    kinds = {"p", "q", "r"}
    __slots__ = ("w", "__dict__")
    def __init__(self, w): self.w = w
    def value(self, x): return x * RATES["a"]
    @staticmethod
    def static(x): return x + 21
    @classmethod
    def of_class(cls, x): return x + 22
    @property
    def size(self): return 23
    @functools.cached_property
    def cached(self): return 24
    twice = functools.partialmethod(value, 26)
    def __call__(self, x): return x + 25

MODEL = Model(30)
TABLE = {1: 31}

@functools.lru_cache(None)
def memory(x): return x + 40

def wrapped(f):
    @functools.wraps(f)
    def inner(*a): return f(*a)
    return inner

@wrapped
def decorated(x): return x + 41

@functools.singledispatch
def dispatched(x): return x
@dispatched.register
def _(x: int): return x + 42

def helper(x):
    # a comment
    return x in {"x", "y", "z"} or x in KINDS

def even(x): return odd(x - 1) if x else 43
def odd(x): return even(x - 1) if x else 44

def price(x, by=2, *, names=("a", "b"), model=Model(50)):
    '''Another docstring.'''
    def inner(y): return [helper(y) for _ in names]
    class Local:
        '''A third one.'''
        n = 51
    try:
        y = x
    except ValueError:
        y = 52
    used = AS_OF, VOL, GRID, DEC, PATTERN, CYCLE, DEEP, LOCK, LOG, MISSING, LOCAL, DRAW, Side.BUY, Deal(), MODEL
    more = memory(x), decorated(x), dispatched(x), even(x), collections.Counter, Model.static, TABLE
    return Model(1).value(math.sin(x)) * by, inner(x)

price.factor = 60

def closed(n, f=functools.partial(helper, 61)):
    def inner(x): return x + n, f
    return inner

FUNCTIONS = [
    functools.partial(price, 1), MODEL, MODEL.value, TABLE.get, closed(62), memory, Model, decorated, dispatched,
    lambda x: x + 63, price,
]
for each in FUNCTIONS:
    found = fingerprint(each, {"own": b"X = 1"})
    assert not found.not_compared, found.not_compared
    print(json.dumps(found.parts))
"""

MOVED = "# a line\n" + PROGRAM.replace("\ndef ", "\n\n# a line\n\ndef ").replace("    def inner", "\n    def inner")

NUMBERS = [11, 12, *range(20, 27), 30, 31, *range(40, 45), 50, 51, 52, *range(60, 64)]


def in_another_process(program: str, seed: str, folder: Path) -> str:
    script = folder / "program.py"
    script.write_text(program, encoding="utf-8")
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.processes
def test_processes_with_other_seeds_folders_and_lines_make_the_same_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    known = in_another_process(PROGRAM, "1", tmp_path)
    assert known.count("\n") == 11
    assert known == in_another_process(PROGRAM, "2", tmp_path)
    assert known == in_another_process(MOVED, "77", tmp_path / "other")


@pytest.mark.more
@pytest.mark.processes
def test_twenty_processes_make_the_same_fingerprint(tmp_path: Path) -> None:
    assert len({in_another_process(PROGRAM, str(seed), tmp_path) for seed in range(20)}) == 1


@functools.cache
def printed(program: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program, {"__name__": "__main__"})
    return output.getvalue()


@pytest.mark.parametrize(
    ("old", "new", "is_the_same"),
    [
        ("# a comment", "# another one\n    # of two lines", True),
        ("'''Another docstring.'''", "'''It says more.'''", True),
        ("    '''Another docstring.'''\n", "", True),
        ("'''A docstring.'''", "", True),
        ("'''A third one.'''", "'''It says more.'''", True),
        ("X = 1", "X = 1  # said", True),
        (".reshape(2, 3)", ".reshape(2, 3).copy('F')", True),
        ("for each in F", "random.random(), Side('buy'), memory(1), dispatched(1), decorated(1)\nfor each in F", True),
        ("1.5", "1.25", False),
        ("by=2", "by=3", False),
        ("math.sin", "math.cos", False),
        ('{"p", "q", "r"}', '{"p", "q"}', False),
        ("or x in KINDS", "and x in KINDS", False),
        ("price, 1", "price, 2", False),
        ("X = 1", "X = 2", False),
        ("        y = x\n    except", "        pass\n    except", False),
        ("datetime.date(1999, 1, 1)", "datetime.date(1999, 1, 2)", False),
        ("0.25", "0.5", False),
        ("np.arange(6.0)", "np.arange(1, 7.0)", False),
        (".reshape(2, 3)", ".reshape(3, 2)", False),
        ('"0.75"', '"0.5"', False),
        ('"p+"', '"q+"', False),
        ('"log"', '"other"', False),
        ("random.random\n", "random.gauss\n", False),
        ('BUY = "buy"', 'BUY = "b"', False),
        ('SELL = "sell"', 'SELL = "s"', False),
        ('{"t", "u"}', '{"t"}', False),
        ("self.w = w", "self.w = w + 1", False),
        ("x: int", "x: str", False),
        *((f"{each}", f"{each}9", False) for each in NUMBERS),
    ],
)
def test_edits_change_the_fingerprint_only_if_they_change_behaviour(old: str, new: str, is_the_same: bool) -> None:
    assert old in PROGRAM
    assert (printed(PROGRAM.replace(old, new)) == printed(PROGRAM)) is is_the_same


def made(source: str, **names: Any) -> Any:
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(textwrap.dedent(source), namespace)
    return namespace["f"]


def parts(function: Any, **sources: bytes) -> dict[str, str]:
    return fingerprint(function, sources).parts


SOURCE = """
RATES = {"a": 1}
class Model: x = 1
def helper(x): return x + 1
def make(k):
    def f(x, m=1, *, n=2): return x + k + helper(RATES["a"]), Model
    return f
f = make(3)
"""


@pytest.mark.parametrize(
    ("old", "new", "sentences"),
    [
        ("x + 1", "x + 2", ["the code of its function changed (or of something that it calls: helper)"]),
        ("x = 1", "x = 2", ["the code of its function changed (or of something that it calls: Model)"]),
        ('"a": 1', '"a": 2', ["the global RATES is another value"]),
        ("make(3)", "make(4)", ["the closure k is another value"]),
        ("m=1", "m=2", ["the default m is another value"]),
        ("n=2", "n=3", ["the default n is another value"]),
        ("x + k", "x - k", ["the code of its function changed"]),
        (
            "+ helper(",
            "+ abs(",
            ["the code of its function changed", "its function no longer uses the function helper"],
        ),
        (", Model", ", Model, abs(len(RATES))", ["the code of its function changed"]),
    ],
)
def test_differences_of_a_function_are_named(old: str, new: str, sentences: list[str]) -> None:
    assert old in SOURCE
    assert differences(parts(made(SOURCE)), parts(made(SOURCE.replace(old, new)))) == sentences


def test_differences_of_modules_names_and_versions_are_named() -> None:
    function = made(SOURCE)
    known = parts(function, a=b"A = 1", b=b"B")
    assert differences(known, parts(function, a=b"A = 2", c=b"C")) == [
        "the module a was edited",
        "its function no longer uses the module b",
        "its function uses the module c now",
    ]
    assert differences(known, known) == []
    assert differences(known, {**known, "name": "g"}) == ["its function was 'make.<locals>.f', and is now 'g'"]
    assert differences({**known, "description": "0"}, known) == [
        "its function was described by another version of Scaler, in another way"
    ]


def test_the_source_of_a_module_counts_without_comments_and_docstrings() -> None:
    assert parts(len, own=b"A = 1  # one") == parts(len, own=b"# a line\nA = 1") != parts(len, own=b"A = 2")
    assert parts(len, own=b"def f():\n  'a'\n  return 1") == parts(len, own=b"def f():\n  'b'\n  return 1")
    assert parts(len, own=b"not python") != parts(len, own=b"not python at all")


def test_names_used_from_modules_of_the_program_count(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("own_rates")
    exec("RATE = 1\nOTHER = 1\ndef helper(x): return x + RATE", vars(module))
    monkeypatch.setitem(sys.modules, "own_rates", module)
    early = made("import own_rates\ndef f(x): return own_rates.helper(x)")
    known = parts(early, own_rates=b"")
    module.OTHER += 1
    assert parts(early, own_rates=b"") == known
    module.RATE = 2
    assert differences(known, parts(early, own_rates=b"")) == [
        "the code of its function changed (or of something that it calls: own_rates.helper)"
    ]


def test_parts_of_a_function_that_cannot_be_compared_are_named() -> None:
    found = fingerprint(made("def f(x, rest=(n for n in ())): return rest, OPEN", OPEN={"a": (n for n in ())}), {})
    assert found.not_compared == ["the default rest: a generator", "the global OPEN: a generator"]


def test_closures_recursive_functions_and_callables_have_a_fingerprint() -> None:
    def outer(n: int) -> Any:
        def inner(x: int) -> int:
            return x + n

        return inner

    class Callable:
        def __call__(self) -> int:
            return 1

    assert parts(outer(1)) == parts(outer(1)) != parts(outer(2))
    recursive = made("def f(x): return f(x - 1) if x else 0")
    assert parts(recursive) == parts(made("def f(x): return f(x - 1) if x else 0"))
    for each in (max, int, functools.partial(max, 1), Callable(), "".join, Callable().__call__):
        assert parts(each)["code"]


def test_a_first_constant_that_is_used_counts() -> None:
    assert parts(made('f = lambda: "a"'))["code"] != parts(made('f = lambda: "b"'))["code"]


@pytest.mark.thorough
@pytest.mark.processes
def test_functions_that_numba_compiles_count_by_their_code(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    program = """
import numba
from scaler.client.jobs.comparing.fingerprint import fingerprint
RATE = 1.5
@numba.njit(fastmath=True)
def compiled(x): return x * RATE
@numba.vectorize
def over_arrays(x): return x + 2.5
def f(x): return compiled(x), over_arrays(x)
for each in (f, compiled, over_arrays):
    found = fingerprint(each, {})
    print(found.parts, found.not_compared)
"""
    known = in_another_process(program, "1", tmp_path)
    assert known.count("[]") == 3
    assert known == in_another_process(program.replace("for each", "f(1.0)\nfor each"), "2", tmp_path)
    for old, new in (("1.5", "1.25"), ("2.5", "2.25"), ("fastmath=True", "")):
        assert known != in_another_process(program.replace(old, new), "1", tmp_path)
