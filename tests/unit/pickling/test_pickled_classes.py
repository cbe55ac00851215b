"""Classes that are pickled by value, written by one process and read by it or by another process."""

from __future__ import annotations

import abc
import enum
import json
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Generic, TypeVar

import cloudpickle
import pytest

from scaler.pickling import pickled_classes, pickler
from tests.support.processes import REPOSITORY

T = TypeVar("T")

READER = """
import json, pickle, sys
from scaler.pickling import pickled_classes
if "changes" in sys.argv:
    pickled_classes.accept_changes()
read = [eval(sys.argv[1], {"value": pickle.loads(bytes.fromhex(line))}) for line in sys.stdin]
print(json.dumps(read))
"""


def read_elsewhere(what: str, *pickled: bytes, options: tuple[str, ...] = ()) -> list[Any]:
    """Evaluate an expression of each `value`, in turn, in a process that does not know the classes. Return the
    results.
    """
    done = subprocess.run(
        [sys.executable, "-c", READER, what, *options],
        input="\n".join(each.hex() for each in pickled),
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    read: list[Any] = json.loads(done.stdout)
    return read


@pytest.fixture
def n_pickles(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The classes that were pickled."""
    pickled: list[type] = []

    def dumps(kind: type) -> bytes:
        pickled.append(kind)
        return original(kind)

    original = pickler.dumps
    monkeypatch.setattr(pickler, "dumps", dumps)
    return pickled


def price_class() -> Any:
    rate = 1

    @dataclass
    class Price:
        base: float
        kind: str = "spot"
        tags: tuple[str, ...] = field(default=())

        def value(self) -> float:
            return self.base * rate

    return Price


def test_a_class_is_pickled_once_for_all_its_objects(n_pickles: list[type]) -> None:
    price = price_class()
    assert [pickle.loads(pickled_classes.dumps(price(each))) for each in (1.0, 2.0, 3.0)] == list(map(price, (1, 2, 3)))
    assert n_pickles == [price]


@pytest.mark.processes
def test_a_class_that_is_changed_is_pickled_again(n_pickles: list[type]) -> None:
    price = price_class()
    first = pickled_classes.dumps(price(1.0))
    price.rate = 3
    second = pickled_classes.dumps(price(1.0))
    assert n_pickles == [price, price]
    assert read_elsewhere("getattr(value, 'rate', None)", first, second) == [None, 3]


@pytest.mark.processes
def test_a_class_with_a_mutable_attribute_is_pickled_again() -> None:
    price = price_class()
    price.seen = []
    first = pickled_classes.dumps(price(1.0))
    price.seen.append("more")
    assert read_elsewhere("value.seen", first, pickled_classes.dumps(price(1.0))) == [[], ["more"]]


@pytest.mark.processes
def test_a_class_whose_base_is_changed_is_pickled_again() -> None:
    price = price_class()
    future = type("Future", (price,), {})
    first = pickled_classes.dumps(future(1.0))
    price.rate = 3
    assert read_elsewhere("getattr(value, 'rate', None)", first, pickled_classes.dumps(future(1.0))) == [None, 3]


def test_reading_a_class_in_its_own_program_returns_the_same_class() -> None:
    price = price_class()
    value = price.value
    copied = pickle.loads(pickled_classes.dumps(price(2.0)))
    assert type(copied) is price
    assert price.value is value


@pytest.mark.processes
def test_a_worker_applies_a_change_of_a_class_that_it_has_read_with_a_function() -> None:
    price = price_class()
    function = cloudpickle.dumps(price(1.0))
    price.rate = 3
    pickled = (function, pickled_classes.dumps(price(1.0)))
    assert read_elsewhere("getattr(value, 'rate', None)", *pickled, options=("changes",)) == [None, 3]


def test_importable_classes_are_pickled_by_name() -> None:
    path = PurePosixPath("a")
    assert pickled_classes.dumps(path) == cloudpickle.dumps(path, protocol=5)
    assert pickled_classes.dumps(int) == cloudpickle.dumps(int, protocol=5)
    assert pickle.loads(pickled_classes.dumps([type(None), type(...), dict])) == [type(None), type(...), dict]


@pytest.mark.processes
def test_classes_of_all_kinds_can_be_read_in_another_process() -> None:
    class Colour(enum.Enum):
        RED = 1

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    class Square(Shape):
        __slots__ = ("side",)

        def __init__(self, side: float) -> None:
            self.side = side

        def area(self) -> float:
            return self.side**2

    class Box(Generic[T]):
        def __init__(self, content: T) -> None:
            super().__init__()
            self.content = content

    class OwnError(ValueError):
        pass

    values = [Colour.RED, Square(3), Box(Square(2)), OwnError("no"), Square, lambda: 5, price_class()(4.0)]
    words = [
        "value.name",
        "value.area()",
        "value.content.area()",
        "str(value)",
        "value.__name__",
        "value()",
        "value.base",
    ]
    what = "[" + ", ".join(word.replace("value", f"value[{place}]") for place, word in enumerate(words)) + "]"
    expected = ["RED", 9, 4, "no", "Square", 5, 4.0]
    assert read_elsewhere(what, pickled_classes.dumps(values), pickled_classes.dumps(values)) == [expected, expected]
    read = pickle.loads(pickled_classes.dumps([Colour.RED, Square, OwnError]))
    assert read == [Colour.RED, Square, OwnError]


def test_large_buffers_are_pickled_out_of_band() -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickled_classes.dumps(pickle.PickleBuffer(b"x" * 100), protocol=5, buffer_callback=buffers.append)
    assert bytes(pickle.loads(data, buffers=buffers)) == b"x" * 100
    assert len(data) < 100


def test_more_classes_than_the_cache_keeps_can_be_pickled() -> None:
    for number in range(pickled_classes._CLASSES_MOST + 1):
        kind = type(f"Kind{number}", (), {"__module__": "__main__"})
        assert type(pickle.loads(pickled_classes.dumps(kind()))) is kind
