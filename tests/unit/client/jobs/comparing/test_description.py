"""Descriptions: the same for equal values in each process, and different for different values."""

from __future__ import annotations

import functools
import json
import logging
import os
import random
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from scaler.client.jobs.comparing.description import Descriptions, KnownClasses
from scaler.client.object_reference import ObjectReference
from scaler.ids import ObjectId
from tests.unit.client.jobs.comparing.described_rows import KINDS

PROGRAM = Path(__file__).with_name("described_rows.py")


@functools.cache
def described(seed: str, folder: str) -> Any:
    """Return the descriptions that a new process makes."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-W", "ignore", str(PROGRAM)]
    done = subprocess.run(
        program, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_a_kind_are_distinguished_and_recognised_in_another_process(kind: str) -> None:
    check(kind, described("1", "/"), described("77", "/tmp"))


@pytest.mark.thorough
@pytest.mark.processes
def test_values_of_packages_are_distinguished_and_recognised_in_another_process() -> None:
    here, there = described("1", "/"), described("77", "/tmp")
    assert here.keys() == there.keys()
    assert "numpy: array" in here
    for kind in here.keys() - KINDS:
        check(kind, here, there)


def check(kind: str, here: Any, there: Any) -> None:
    known, other, *again = here[kind]
    assert not known[1], f"{kind} cannot be compared: {known[1]}"
    assert known[0] != other[0], f"two values of {kind} have one description"
    assert again in ([], [known]), f"equal values of {kind} have two descriptions"
    assert there[kind] == here[kind], f"{kind} has another description in another process"


@pytest.mark.more
@pytest.mark.processes
def test_twenty_processes_describe_in_the_same_way() -> None:
    assert all(described(str(seed), "/") == described("1", "/") for seed in range(2, 22))


def of(value: Any) -> bytes:
    digest, trouble = Descriptions().of(value)
    assert not trouble
    return digest


def trouble_of(value: Any) -> str:
    return Descriptions().of(value)[1]


class Random:
    def __reduce__(self) -> Any:
        return Random, (), {"x": random.random()}


class ByPlace:
    def __getstate__(self) -> Any:
        return {"place": id(self)}


class Failing:
    def __reduce__(self) -> Any:
        raise RecursionError("no")


class FailingItems(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise SystemExit


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_values_that_change_in_a_pickle_round_trip_cannot_be_compared() -> None:
    for value in (Random(), ByPlace(), (x for x in ()), Failing(), FailingItems("ab"), weakref.proxy(Holder(1))):
        assert trouble_of(value)
        assert trouble_of([Holder({"a": (value,)})]) == trouble_of(value)
    assert trouble_of(Random()).endswith("Random")


def test_a_class_is_tested_once_for_all_its_values() -> None:
    known = KnownClasses()
    assert Descriptions(known=known).of(Random())[1]
    assert Descriptions(known=known).of([1, Random()])[1]
    assert known.are_steady == {Random: False}


def test_a_set_whose_parts_refer_to_each_other_in_its_order_cannot_be_compared() -> None:
    nodes = [Holder(None) for _ in range(3)]
    for node in nodes:
        node.value = {*nodes}
    assert trouble_of(nodes[0]) == "a set in a cycle"


def test_locks_loggers_modules_and_generators_of_the_process_count_by_name() -> None:
    assert of(threading.Lock()) == of(threading.Lock()) != of(threading.RLock())
    assert of(Holder(threading.Event())) == of(Holder(threading.Event()))
    assert of(logging.getLogger("a")) == of(logging.getLogger("a")) != of(logging.getLogger("b"))
    assert of(logging) != of(threading)
    before = of(random.random), of(random.Random(1))
    random.random()
    assert (of(random.random), of(random.Random(1))) == before
    assert of(random.Random(2)) != before[1]


def test_a_reference_is_described_by_the_content_of_its_object() -> None:
    def content_of(reference: ObjectReference) -> bytes:
        return reference.name[:1].encode()

    def described(name: str) -> tuple[bytes, str]:
        reference = ObjectReference(name, ObjectId(os.urandom(16)), 1)
        return Descriptions(content_of=content_of).of([{"a": reference}, reference.as_is()])

    assert described("a1") == described("a2") != described("b1")
    assert trouble_of([ObjectReference("a", ObjectId(bytes(16)), 1)])


def test_the_description_of_a_value_does_not_depend_on_what_was_described_before() -> None:
    left, right = Holder(None), Holder(None)
    left.value, right.value = [right, 1], left
    for values in ([left, right], [right, left], [[left, right], right, left]):
        descriptions = Descriptions()
        assert [descriptions.of(each) for each in values] == [Descriptions().of(each) for each in values]


def test_a_large_graph_of_objects_is_described_once() -> None:
    nodes = [Holder([]) for _ in range(3000)]
    for index, node in enumerate(nodes):
        node.value += [nodes[index - 1], nodes[index // 2], nodes]
    assert of(nodes) == of(nodes)


def test_an_interruption_is_raised_through_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def __reduce__(self) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setattr("scaler.client.jobs.comparing.description.is_interruption", lambda _error: True)
    with pytest.raises(KeyboardInterrupt):
        of(Interrupted())


def test_an_array_is_hashed_once_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    import numpy as np

    from scaler.client.jobs.comparing import described_arrays

    hashed = []
    hash_of = described_arrays._hash_of
    monkeypatch.setattr(described_arrays, "_hash_of", lambda value: hashed.append(value) or hash_of(value))
    arrays = [np.zeros((1000, 1000)), np.asfortranarray(np.zeros((1000, 1000))), np.zeros((1000, 2000))[:, ::2]]
    descriptions = Descriptions()
    tracemalloc.start()
    for _ in range(3):
        for each in arrays:
            assert not descriptions.of_row((1, each))[1]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(hashed) == len(arrays)
    assert most < arrays[0].nbytes / 4
