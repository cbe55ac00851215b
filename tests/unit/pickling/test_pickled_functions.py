from __future__ import annotations

import functools
import math
import pickle
import sys
import types
from typing import Any

import cloudpickle
import pytest

from scaler.pickling.pickled_functions import read_from, was_read, what_pickle_depends_on
from scaler.pickling.serialization import DefaultSerializer, argument_block, function_to_frames, size_of
from tests.unit.pickling.test_serialization import Point

DEFAULT = DefaultSerializer()


def in_main(source: str, **namespace: Any) -> Any:
    """Return the function `f` as a script would define it."""
    space = {"__name__": "__main__", **namespace}
    exec(compile(source, "<script>", "exec", dont_inherit=True), space)
    return space["f"]


class Owner:
    def method(self) -> None: ...

    @classmethod
    def make(cls) -> None: ...


@pytest.mark.parametrize("function", [len, math.sqrt, int, dict, Owner, size_of, argument_block, Point])
def test_the_pickle_of_an_importable_function_depends_on_nothing(function: Any) -> None:
    assert what_pickle_depends_on(function) == ()


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(pow, 2),
        Owner().method,
        Owner.make,
        [1].append,
        in_main("def f(a=[]): return a"),
        in_main("def f(*, a=1): return a"),
        in_main("def f(): return x", x=1),
        in_main("def f(): return (lambda: x)()", x=1),
        in_main("def f(a: Point): return a", Point=type("Point", (), {"__module__": "__main__"})),
        in_main("class f: value = 1"),
        in_main("def f(): return module.x", module=types.ModuleType("made_up")),
        in_main("def outer(n):\n    def f(): return n\n    return f\nf = outer(1)"),
    ],
)
def test_a_function_whose_pickle_can_change_is_not_remembered(function: Any) -> None:
    assert what_pickle_depends_on(function) is None


@pytest.mark.parametrize(
    "function",
    [
        in_main("def f(x): return len(x)"),
        in_main("f = lambda x: x"),
        in_main("def f(x: int) -> 'str': return math.sqrt(x)", math=math),
        in_main("def f(x): return [math.sqrt(y) for y in x]", math=math),
        in_main("def f(n): return f(n - 1) if n else 0"),
        in_main("def f(n): return [f(m) for m in range(n)]"),
    ],
)
def test_functions_that_use_only_constant_values_are_remembered(function: Any) -> None:
    state = what_pickle_depends_on(function)
    assert state is not None
    assert state == what_pickle_depends_on(function)
    assert function_to_frames(DEFAULT, function) == function_to_frames(DEFAULT, function)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.__globals__.update(x=1),
        lambda f: f.__globals__.update(len=abs),
        lambda f: f.__globals__.update(math=pickle),
        lambda f: setattr(f, "attribute", 1),
        lambda f: setattr(f, "__defaults__", (1,)),
        lambda f: setattr(f, "__code__", (lambda a: a).__code__),
    ],
)
def test_a_change_of_a_remembered_function_is_noticed(change: Any) -> None:
    function = in_main("def f(a): return len(a), math.pi, x", math=math)
    before = what_pickle_depends_on(function)
    assert before is not None
    was_read(function, [b"pickle"])
    assert read_from(function, before) == [b"pickle"]
    change(function)
    assert what_pickle_depends_on(function) != before
    assert read_from(function, what_pickle_depends_on(function)) is None


@pytest.mark.parametrize("function", [len, in_main("def f(a=[]): return a"), [1].append])
def test_frames_of_importable_or_changeable_functions_are_not_kept(function: Any) -> None:
    was_read(function, [b"pickle"])
    assert read_from(function, what_pickle_depends_on(function)) is None


def test_a_recursive_name_that_refers_to_another_function_is_noticed() -> None:
    function = in_main("def f(n): return f(n - 1) if n else 0")
    assert what_pickle_depends_on(function) is not None
    function.__globals__["f"] = abs
    assert what_pickle_depends_on(function) is None


def test_a_module_that_is_pickled_by_value_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up")
    exec("def f(): return 1", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_up", module)
    assert what_pickle_depends_on(module.f) == ()
    cloudpickle.register_pickle_by_value(module)
    try:
        assert what_pickle_depends_on(module.f) is None
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_a_function_whose_name_refers_to_another_function_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    original = math.sqrt
    monkeypatch.setattr(math, "sqrt", abs)
    assert what_pickle_depends_on(original) is None
