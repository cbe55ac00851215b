"""The part inside a value that cannot be serialised. Each value here fails as a whole."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from scaler.errors import class_name
from scaler.pickling.culprits import DEPTH_MOST, culprit_in, why_unreadable

LOCK = threading.Lock()
OF_LOCK = f"({class_name(type(LOCK))})"

Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - the kind that is meant


class Node:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@dataclasses.dataclass(slots=True)
class Slots:
    a: int
    b: object


class Number(int):
    """A number that holds something."""


def number_with_lock() -> Number:
    number = Number(3)
    number.lock = LOCK  # type: ignore[attr-defined]
    return number


class Refuses:
    def __reduce__(self) -> Any:
        raise ValueError("not this one")

    def __repr__(self) -> str:
        raise ValueError("nor in words")


def by_value() -> type[Any]:
    class Local:
        lock = LOCK

    return Local


def closure(held: object) -> Any:
    return lambda: held


def in_itself() -> list[Any]:
    value: list[Any] = []
    value += [value, LOCK]
    return value


def parent_and_child() -> Node:
    parent = Node(name="p", child=Node())
    parent.child.parent = parent
    parent.lock = LOCK
    return parent


def nested(depth: int) -> object:
    value: object = LOCK
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([0, LOCK], "[1]"),
        ({"rows": [1, {"lock": LOCK}]}, "['rows'][1]['lock']"),
        ({LOCK: 1}, "a key"),
        ({LOCK}, "an item"),
        (Pair(1, LOCK), "[1]"),
        (Node(pool=[Node(lock=LOCK)]), ".pool[0].lock"),
        (Node(**{"{odd}": LOCK}), ".{odd}"),
        (Slots(1, LOCK), ".b"),
        (SimpleNamespace(a=LOCK), ".a"),
        (collections.deque([1, LOCK]), "[1]"),
        (collections.defaultdict(list, k=[LOCK]), "['k'][0]"),
        (ValueError("x", LOCK), "argument 2"),
        (partial(print, 1, LOCK), "argument 2"),
        ([1, number_with_lock()], "[1].lock"),
        (partial(print, file=[LOCK]), "argument 'file'[0]"),
        (partial(closure(LOCK)), "its function, variable 'held'"),
        ([closure({"k": LOCK})], "[0], variable 'held'['k']"),
        (by_value(), ".lock"),
        (by_value()(), "its class.lock"),
        (Node(lock=LOCK).__init__, "its object.lock"),
        (in_itself(), "[1]"),
        (parent_and_child(), ".lock"),
        ([*range(5_000), LOCK, *range(5_000)], "[5000]"),
        ({**{str(number): number for number in range(5_000)}, "lock": LOCK}, "['lock']"),
        (nested(DEPTH_MOST), "[0]" * DEPTH_MOST),
    ],
)
def test_the_part_that_cannot_be_serialised_is_found(value: object, path: str) -> None:
    with pytest.raises(TypeError):
        cloudpickle.dumps(value)
    assert culprit_in(value, 10) == f"{path} {OF_LOCK}"


def test_no_part_is_named_if_the_value_itself_fails_or_nothing_fails() -> None:
    assert [culprit_in(value) for value in (LOCK, Refuses(), [1, "a", None], 3)] == [""] * 4


def test_a_part_that_cannot_be_shown_is_named_by_its_type() -> None:
    assert culprit_in([1, Refuses()]) == f"[1] ({class_name(Refuses)})"
    assert culprit_in({Refuses(): 1, 2: LOCK}) == f"a key ({class_name(Refuses)})"


def test_the_search_for_a_culprit_is_bounded_in_depth_and_time() -> None:
    assert culprit_in(nested(DEPTH_MOST + 5), 10) == "[0]" * DEPTH_MOST + " (list)"
    assert culprit_in([1, LOCK], seconds=-1) == ""


class Endless:
    """A value whose serialization never ends."""

    def __reduce__(self) -> Any:
        return list, (), None, iter(lambda: str(object()), None)


def test_an_endless_part_does_not_block_the_search_for_a_culprit() -> None:
    assert culprit_in([Endless(), LOCK], seconds=0.05) == ""


CURE = (
    "Python reads an exception by calling RefusedError(*args): pass to super().__init__ what __init__ takes, or define "
    "__reduce__"
)


class RefusedError(Exception):
    """An exception whose constructor takes other arguments than Python calls it with."""

    def __init__(self, reply: Any) -> None:
        super().__init__(reply.code)


class Stateful:
    def __setstate__(self, state: dict[str, Any]) -> None:
        raise SystemExit(state["code"])


def make(text: str) -> int:
    return int(text)


class MadeByFunction:
    def __reduce__(self) -> Any:
        return make, ("one",)


def stateful() -> Stateful:
    value = Stateful()
    value.__dict__["code"] = 4
    return value


@pytest.mark.parametrize(
    ("value", "whose"),
    [
        (
            RefusedError(SimpleNamespace(code=404)),
            f", in {__name__}.RefusedError.__init__; {CURE}",
        ),
        (stateful(), f"SystemExit: 4, in {__name__}.Stateful.__setstate__"),
        (MadeByFunction(), f", in {__name__}.make"),
    ],
)
def test_the_class_or_function_of_an_unreadable_value_is_named(value: object, whose: str) -> None:
    with pytest.raises(BaseException) as raised:
        pickle.loads(pickle.dumps([value]))
    error = raised.value.with_traceback(raised.tb and raised.tb.tb_next)  # without the frame of this test
    assert why_unreadable(error).endswith(whose)


def test_an_error_without_a_traceback_is_described_alone() -> None:
    assert why_unreadable(AttributeError("no attribute")) == "AttributeError: no attribute"
