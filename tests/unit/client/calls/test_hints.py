"""Hints: logged once in a program, and only for large values, generators and repeated seeds."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from scaler import Client
from scaler.client.calls import arguments, functions
from scaler.client.calls.arguments import ArgumentPacker
from scaler.client.calls.hints import TIMES, WORTH_A_HINT_BYTES, Hints
from scaler.pickling.serialization import DefaultSerializer

DRAWN = "contains a random generator"
SENT = "sends it once"

chance = random.Random(1)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Hints:
    caplog.set_level(logging.WARNING, "scaler.client")
    hints = Hints()
    for module in (arguments, functions):
        monkeypatch.setattr(module, "hints", hints)
    return hints


def in_main(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function as if the main script had defined it."""
    function.__module__, function.__qualname__ = "__main__", name
    return function


def holds(generator: Any) -> Callable[[], float]:
    return lambda: generator.random() / 2


def test_a_function_with_a_random_generator_is_logged_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    functions_that_draw = (holds(chance), holds(np.random.default_rng(1)), chance.random)
    for function in functions_that_draw:
        client.submit(function)
    (said,) = caplog.messages
    assert DRAWN in said
    assert "holds.<locals>.<lambda> contains" in said
    assert "(generator, which <lambda>() encloses)" in said
    assert "scaler.current_task().rng()" in said


@pytest.mark.parametrize("function", [len, holds(1), [].append])
def test_functions_without_a_random_generator_are_not_logged(
    fresh: Hints, function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    fresh.look_at_function(function)
    assert caplog.messages == []


def test_functions_with_code_that_was_checked_are_not_checked_again(
    fresh: Hints, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fresh.look_at_function(holds(1))
    monkeypatch.delattr("scaler.client.calls.hints.find_generator")
    fresh.look_at_function(holds(2))
    assert caplog.messages == []


@pytest.fixture
def packer() -> ArgumentPacker:
    return ArgumentPacker(DefaultSerializer(), "tcp://127.0.0.1:1")


@pytest.mark.parametrize("value", [np.ones(WORTH_A_HINT_BYTES // 8), bytes(WORTH_A_HINT_BYTES), [0.5] * 200_000])
def test_a_large_value_that_is_sent_repeatedly_is_logged_once(
    packer: ArgumentPacker, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(TIMES + 3):
        assert len(caplog.messages) == (number >= TIMES)
        packer.pack((number, value), {})
    (said,) = caplog.messages
    assert said.startswith(f"the same {type(value).__name__} of ")
    assert SENT in said


def test_small_values_and_large_ones_sent_once_are_not_logged(
    packer: ArgumentPacker, caplog: pytest.LogCaptureFixture
) -> None:
    small = np.ones(WORTH_A_HINT_BYTES // 16)
    kept = [np.full(WORTH_A_HINT_BYTES // 8, number) for number in range(6)]
    for value in kept:
        packer.pack((value, small), {})
    assert caplog.messages == []


def test_a_buffer_that_changes_for_each_task_is_not_logged(
    packer: ArgumentPacker, fresh: Hints, caplog: pytest.LogCaptureFixture
) -> None:
    value = np.zeros(WORTH_A_HINT_BYTES // 8)
    for number in range(10):
        value[-1] = number
        packer.pack((value,), {})
    assert caplog.messages == []
    assert fresh._sent is None  # no further checksums


TABLE = np.ones(WORTH_A_HINT_BYTES // 8)


class Rude:
    """A value whose attributes and size cannot be read."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __sizeof__(self) -> int:
        raise RuntimeError


def holding(*values: Any) -> Callable[[int], int]:
    return lambda number: len(values) + number


def test_a_function_that_is_pickled_repeatedly_with_large_values_is_logged_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    look_up = in_main(lambda number: TABLE[number], "look_up")
    for number in range(TIMES + 3):
        assert len(caplog.messages) == (number >= TIMES)
        client.submit(look_up, number)
        client.submit(holding(TABLE[:10]), number)
    (said,) = caplog.messages
    assert said.startswith("the function look_up contains 1.0 MiB (the global TABLE of __main__)")
    assert f"{TIMES} times" in said
    assert "client.send_object(value)" in said


def test_the_value_that_makes_a_function_large_is_named_although_others_cannot_be_read(
    fresh: Hints, caplog: pytest.LogCaptureFixture
) -> None:
    size = WORTH_A_HINT_BYTES
    for function in (holding(Rude(), TABLE), holding(1)):
        fresh.look_at_pickle(function, size, b"first")
    assert caplog.messages == []
    for content in (b"second", b"third", b"second", b"second"):  # other values each time are no reason
        fresh.look_at_pickle(partial(max, TABLE), size, content)
    (said,) = caplog.messages
    assert "(an argument of the partial of max) and was pickled" in said
    fresh._pickled = {}
    for _ in range(TIMES):
        fresh.look_at_pickle(holding(Rude(), TABLE), size, b"third")
    assert "(a member of values, which <lambda>() encloses)" in caplog.messages[-1]


AGAIN = "is called again with seed="


def test_a_seed_that_a_client_uses_again_is_logged_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    seeded = client.options(seed=7)
    seeded.submit(abs, -1)
    client.options(seed=(7, 1)).submit(abs, -1)
    client.submit(abs, -1)
    seeded.submit(len, "")
    assert caplog.messages == []
    for _ in range(3):
        seeded.submit(abs, -1)
        client.options(seed=(7, 1)).submit(abs, -1)
    first, second = caplog.messages
    assert first.startswith(f"abs {AGAIN}7 and draws the same numbers again")
    assert first.endswith("such as seed=(7, 1)")
    assert f"{AGAIN}(7, 1) and" in second


def test_a_generator_that_is_an_argument_of_several_calls_is_logged_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    generators = np.random.default_rng(1), random.Random(1), np.random.RandomState(1)
    client.map(print, [(each,) for each in generators])
    for each in generators:
        each.random()  # type: ignore[attr-defined]
    client.submit(print, generators[0])
    assert caplog.messages == []
    client.map(print, [(1, generators[1])] * 2)
    client.submit(print, generators[1])
    (said,) = caplog.messages
    assert "the same random generator is an argument of several calls" in said
