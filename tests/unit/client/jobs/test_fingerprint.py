"""The same function is known again in another process, and another one is not."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from scaler.client.jobs.fingerprint import differences, fingerprint

PROGRAM = """
import functools, json, math, sys
from scaler.client.jobs.fingerprint import fingerprint

RATES = {"a": 1.5, "b": (2, 3)}
KINDS = frozenset(["x", "y", "z", "w"])

class Model:
    '''A docstring.'''
    kinds = {"p", "q", "r"}
    def value(self, x): return x * RATES["a"]

def helper(x):
    # a comment
    return x in {"x", "y", "z"} or x in KINDS

def price(x, by=2, *, names=("a", "b")):
    '''Another docstring.'''
    def inner(y): return [helper(y) for _ in names]
    return Model().value(math.sin(x)) * by, inner(x)

print(json.dumps(fingerprint(functools.partial(price, 1), {"own": b"X = 1"})))
"""


def in_another_process(program: str, seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.thorough
@pytest.mark.processes
def test_processes_with_other_seeds_make_the_same_fingerprint() -> None:
    assert len({in_another_process(PROGRAM, str(seed)) for seed in range(5)}) == 1


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
        ("'''A docstring.'''", "", True),
        ("X = 1", "X = 1  # said", True),
        ("1.5", "1.25", False),
        ("by=2", "by=3", False),
        ("math.sin", "math.cos", False),
        ('{"p", "q", "r"}', '{"p", "q"}', False),
        ("or x in KINDS", "and x in KINDS", False),
        ("price, 1", "price, 2", False),
        ("X = 1", "X = 2", False),
    ],
)
def test_what_counts_and_what_does_not(old: str, new: str, is_the_same: bool) -> None:
    assert old in PROGRAM
    assert (printed(PROGRAM.replace(old, new)) == printed(PROGRAM)) is is_the_same


def made(source: str, **names: Any) -> Any:
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(textwrap.dedent(source), namespace)
    return namespace["f"]


def test_differences_are_said_in_words() -> None:
    known = fingerprint(made("def f(x): return x + 1"), {"a": b"A = 1", "b": b"B"})
    now = fingerprint(made("def f(x): return x + 2"), {"a": b"A = 2", "c": b"C"})
    assert differences(known, now) == [
        "the code of its function, or something that it uses, is another one",
        "the module a was edited",
        "the module b travelled with it only then",
        "the module c travels with it only now",
    ]
    assert differences(known, known) == []


def test_closures_recursion_and_callables_have_one() -> None:
    def outer(n: int) -> Any:
        def inner(x: int) -> int:
            return x + n

        return inner

    class Callable:
        def __call__(self) -> int:
            return 1

    assert fingerprint(outer(1), {}) == fingerprint(outer(1), {}) != fingerprint(outer(2), {})
    recursive = made("def f(x): return f(x - 1) if x else 0")
    assert fingerprint(recursive, {}) == fingerprint(made("def f(x): return f(x - 1) if x else 0"), {})
    for each in (max, int, functools.partial(max, 1), Callable(), "".join, Callable().__call__):
        assert fingerprint(each, {})["code"]


def test_a_first_constant_that_is_used_counts() -> None:
    assert fingerprint(made('f = lambda: "a"'), {})["code"] != fingerprint(made('f = lambda: "b"'), {})["code"]
