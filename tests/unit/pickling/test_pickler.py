"""Classes and functions that are pickled by value, sent to a process that does not know them, and back."""

from __future__ import annotations

import enum
import fnmatch
import functools
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import pytest

from scaler.pickling import pickler
from tests.support.processes import REPOSITORY

ECHO = """
import pickle, sys
from scaler.pickling import pickled_classes
value = pickle.loads(bytes.fromhex(sys.stdin.read()))
print(pickled_classes.dumps(value).hex(), getattr(value, "__dict__", None))
"""

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.implementation.name != "cpython", reason="only there cloudpickle has these hooks"),
]


def echoed(value: Any) -> tuple[Any, str]:
    """Send a value to another process and back. Return it, and its `__dict__` there."""
    pickled = pickler.dumps(value).hex()
    command = [sys.executable, "-c", ECHO]
    done = subprocess.run(command, input=pickled, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    back, has = done.stdout.strip().split(" ", 1)
    return pickle.loads(bytes.fromhex(back)), has


def test_objects_with_slots_survive_pickling() -> None:
    @dataclass(slots=True)
    class Point:
        x: int
        y: int = 2

    point, has = echoed(Point(1))
    assert type(point) is Point
    assert point == Point(1, 2)
    assert has == "None"


def test_objects_with_private_inherited_or_partial_slots_survive_pickling() -> None:
    class Base:
        __slots__ = ("a",)

    class Middle(Base):
        __slots__ = ()

    class Derived(Middle):
        __slots__ = ("__hidden", "__weakref__")

        def __init__(self) -> None:
            self.a, self.__hidden = 1, 2

        def hidden(self) -> int:
            return self.__hidden

    class Open(Derived):
        def __init__(self) -> None:
            super().__init__()
            self.b = 3

    derived, has = echoed(Derived())
    assert (derived.a, derived.hidden(), has) == (1, 2, "None")
    opened, has = echoed(Open())
    assert (opened.a, opened.hidden(), opened.b, vars(opened), has) == (1, 2, 3, {"b": 3}, "{'b': 3}")


def test_named_tuples_and_enums_with_slots_survive_pickling() -> None:
    class Pair(NamedTuple):
        a: int

    class Colour(enum.Enum):
        __slots__ = ()
        RED = 1

    assert echoed([Pair(1), Colour.RED])[0] == [Pair(1), Colour.RED]


def test_a_cached_function_of_the_main_script_is_pickled_with_an_empty_cache() -> None:
    @functools.lru_cache(maxsize=7, typed=True)
    def twice(x: int) -> int:
        return 2 * x

    twice.unit = "m"  # type: ignore[attr-defined]
    twice(1)
    copy, _ = echoed(twice)
    assert copy(4) == 8
    assert copy.cache_parameters() == {"maxsize": 7, "typed": True}
    assert (copy.cache_info().misses, copy.__name__, copy.unit) == (1, "twice", "m")


def test_a_cached_partial_without_a_name_is_pickled_with_its_parameters() -> None:
    copy, _ = echoed(functools.lru_cache(maxsize=7)(functools.partial(int.__add__, 2)))
    assert (copy(4), copy.cache_parameters()["maxsize"]) == (6, 7)


def test_a_cached_method_and_a_cached_recursive_function_are_pickled() -> None:
    @functools.cache
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    class Table:
        @functools.lru_cache  # noqa: B019 - what users write
        def row(self, n: int) -> int:
            return 10 * n

    copy, _ = echoed(fibonacci)
    assert (copy(60), copy.cache_info().misses) == (1548008755920, 61)
    assert echoed([Table()])[0][0].row(3) == 30


def test_a_class_with_a_cached_property_is_pickled() -> None:
    class Price:
        def __init__(self, net: float) -> None:
            self.net = net

        @functools.cached_property
        def gross(self) -> float:
            """With taxes."""
            return self.net * 2

    price = echoed([Price(2.0)])[0][0]
    assert (price.gross, price.gross, vars(price)["gross"]) == (4.0, 4.0, 4.0)
    read = pickle.loads(pickler.dumps(vars(Price)["gross"]))
    assert (read.attrname, read.__doc__) == ("gross", "With taxes.")


def test_a_cached_function_is_pickled_by_name_unless_its_module_is_pickled_by_value() -> None:
    cached = vars(fnmatch)["_compile_pattern"]
    assert pickle.loads(pickler.dumps(cached)) is cached
    cloudpickle.register_pickle_by_value(fnmatch)
    try:
        read = pickle.loads(pickler.dumps(cached))
    finally:
        cloudpickle.unregister_pickle_by_value(fnmatch)
    assert read is not cached
    assert read("a*")("abc")


def test_pickled_code_keeps_the_name_of_its_file() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def outer(): return lambda: 1 / 0", "/somewhere/script.py", "exec"), namespace)
    pickled = pickler.dumps(namespace["outer"])
    outer = pickle.loads(pickled)
    assert [each.__code__.co_filename for each in (outer, outer())] == ["/somewhere/script.py"] * 2
    assert pickler.dumps(namespace["outer"]) == pickled


def test_dispatch_table_has_the_same_depth_as_that_of_cloudpickle() -> None:
    maps = pickler.Pickler.dispatch_table.maps
    assert [type(each) for each in maps] == [type(each) for each in cloudpickle.Pickler.dispatch_table.maps]
