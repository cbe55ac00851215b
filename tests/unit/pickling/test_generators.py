"""Random generators that a function refers to are found and named, except the global ones."""

from __future__ import annotations

import functools
import pickle
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from scaler.pickling.generators import find_generator, generator_in
from scaler.pickling.pickler import dumps

chance = random.Random(1)
drawn_by = {"one": [np.random.default_rng(1)]}
helpers = ModuleType("helpers_of_the_user")
package, submodule = ModuleType("package_of_the_user"), ModuleType("package_of_the_user.sub")
package.sub = submodule  # type: ignore[attr-defined]


class Model:
    shared = np.random.RandomState(3)

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def draw(self) -> float:
        return float(self.__dict__["rng"].random())


class Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = random.Random(1)

    def __call__(self) -> float:
        return self.rng.random()


class Derived(Model):
    __slots__ = ("gen",)

    def __init__(self, value: object) -> None:
        self.gen = value


class Private:
    __slots__ = ("__gen",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: object) -> None:
        self.__gen = value


class Pair(NamedTuple):
    left: object
    right: object


class Plain:
    def __init__(self, value: object) -> None:
        self.value = value

    def run(self) -> object:
        return self.value

    @property
    def broken(self) -> None:
        raise AssertionError("properties are not called")


class Hostile:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise LookupError

    def __call__(self) -> None: ...


def encloses(value: Any) -> Callable[[], Any]:
    return lambda: value


def reads_a_global() -> float:
    return chance.random()


def reads_inside_of_others() -> list[float]:
    return [reads_a_global() for _ in range(2)]


def reads_a_container() -> float:
    return float(drawn_by["one"][0].random())


def reads_a_module() -> float:
    return float(helpers.rng.random())


def reads_a_submodule() -> float:
    return float(package.sub.rng.random())


def reads_libraries() -> float:
    return random.random() + float(np.random.rand()) + random.SystemRandom().random()


def has_a_default(rng: random.Random = chance) -> float:
    return rng.random()


def has_a_keyword(*, rng: random.Random = chance) -> float:
    return rng.random()


@functools.lru_cache(None)
def is_cached() -> float:
    return chance.random()


@pytest.fixture(autouse=True)
def _module_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for module in (helpers, package, submodule):
        module.__file__ = str(tmp_path / f"{module.__name__}.py")
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for module in (helpers, submodule):
        module.rng = np.random.default_rng(1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (chance.random, "the function itself"),
        (np.random.RandomState(1).rand, "the function itself"),
        (functools.partial(max, chance), "an argument of the partial of max"),
        (functools.partial(max, key=chance), "an argument of the partial of max"),
        (functools.partial(reads_a_global), "the global chance"),
        (encloses(np.random.default_rng(1)), "value, which <lambda>() encloses"),
        (encloses(np.random.PCG64(1)), "value, which <lambda>() encloses"),
        (encloses(encloses(chance)), "value, which <lambda>() encloses"),
        (encloses([0, {"a": chance}]), "a value of a member of value, which <lambda>() encloses"),
        (reads_a_global, "the global chance of"),
        (reads_inside_of_others, "the global chance of"),
        (reads_a_container, "a member of a value of the global drawn_by of"),
        (reads_a_module, "the global rng of helpers_of_the_user"),
        (has_a_default, "a default of has_a_default()"),
        (has_a_keyword, "a default of has_a_keyword()"),
        (is_cached, "the global chance of"),
        (Model(rng=np.random.default_rng(1)).draw, "the attribute rng of Model"),
        (Model(deep=Plain(chance)).draw, "the attribute shared of Model"),
        (Plain(Plain(chance)).run, "the attribute value of Plain"),
        (Slotted(), "the attribute rng of Slotted"),
        (Model, "the attribute shared of Model"),
        (encloses(Derived(1)), "the attribute shared of Derived"),
        (encloses(Private(chance)), "the attribute _Private__gen of Private"),
        (encloses(Pair(1, chance)), "a member of value"),
        (encloses(OrderedDict(a=deque([chance]))), "a member of a value of value"),
        (encloses(SimpleNamespace(rng=chance)), "the attribute rng of SimpleNamespace"),
        (reads_a_submodule, "the global rng of package_of_the_user.sub"),
    ],
)
def test_a_generator_is_found_and_named(function: Callable[..., Any], name: str) -> None:
    assert find_generator(function).startswith(name)


@pytest.mark.parametrize(
    "function",
    [
        len, random.random, random.gauss, np.random.rand, np.random.default_rng, reads_libraries, encloses(random),
        encloses(random.SystemRandom()), encloses(np.zeros(3)), Plain(1).run, Hostile(), functools.partial(max, 1),
        encloses([[0]] * 5000), random.Random,
    ],
)  # fmt: skip
def test_a_function_without_a_generator_names_none(function: Callable[..., Any]) -> None:
    assert find_generator(function) == ""


def test_a_value_that_contains_itself_is_searched_once() -> None:
    endless: list[Any] = []
    endless += [endless, encloses(endless)]
    assert find_generator(encloses(endless)) == ""


@pytest.mark.parametrize("function", [random.random, random.gauss, np.random.rand, np.random.normal, random.seed])
def test_functions_of_the_global_generators_are_pickled_by_reference(function: Callable[..., Any]) -> None:
    read = pickle.loads(dumps(function))
    assert read.__self__ is function.__self__  # type: ignore[attr-defined]


@pytest.mark.parametrize("generator", [random.Random(1), np.random.RandomState(1), np.random.default_rng(1)])
def test_generators_that_are_not_global_are_pickled_with_their_state(generator: Any) -> None:
    assert pickle.loads(dumps(generator)).random() == generator.random()


def test_generators_of_modules_are_found() -> None:
    assert generator_in([helpers.__name__]) == "helpers_of_the_user.rng"
    assert generator_in(["random", "numpy.random", "numpy.random.mtrand", "not_loaded", __name__ + "_"]) == ""
