from __future__ import annotations

import dataclasses
import pickle
from concurrent.futures import CancelledError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scaler import Client, ConfigError, TaskOptions
from scaler.client.calls.options import for_each_worker, for_executor, for_one, named_as
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.priority import LEAST, MOST


def test_task_options_are_immutable_values() -> None:
    options = TaskOptions(name="load", priority=-1, profiling=True)
    assert options == TaskOptions(name="load", priority=-1, profiling=True) != TaskOptions(name="load")
    assert len({options, TaskOptions(name="load", priority=-1, profiling=True)}) == 1
    assert pickle.loads(pickle.dumps(options)) == options
    assert repr(options) == "TaskOptions(name='load', priority=-1, profiling=True)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.priority = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": 7}, "name must be a str, not 7"),
        ({"priority": "x"}, "priority must be an int, not 'x'"),
        ({"priority": True}, "priority must be an int, not True"),
        ({"priority": 1.0}, "priority must be an int, not 1.0"),
        ({"profiling": 1}, "profiling must be a bool, not 1"),
        ({"at_most_once": 1}, "at_most_once must be a bool, not 1"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=f"^{sentence}$"):
        TaskOptions(**wrong)


@pytest.mark.parametrize("priority", [LEAST - 1, MOST + 1])
def test_a_priority_that_does_not_fit_is_refused(priority: int) -> None:
    assert [TaskOptions(priority=most).priority for most in (LEAST, MOST)] == [-32768, 32767]
    with pytest.raises(ConfigError, match=f"priority must be between -32,768 and 32,767, not {priority}"):
        TaskOptions(priority=priority)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        TaskOptions(colour=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"retries": "x"}, TypeError, "retries must be an int"),
        ({"retries": -1}, ConfigError, "retries must be between 0 and"),
        ({"retry_delay": -1}, ConfigError, "retry_delay must be between 0 and"),
        ({"retry_delay": "soon"}, ConfigError, "retry_delay must be a number"),
        ({"timeout": 0}, ConfigError, "timeout must be between 0.001 and"),
        ({"timeout": "1"}, ConfigError, "timeout must be a number"),
        ({"retry_on": "ValueError"}, TypeError, "retry_on must be an exception class or a tuple"),
        ({"retry_on": (ValueError, int)}, TypeError, "retry_on must be an exception class or a tuple"),
        ({"retries": 1, "at_most_once": True}, ConfigError, "retries run a task a second time"),
    ],
)
def test_bad_retries_and_limits_are_refused(wrong: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        TaskOptions(**wrong)
    with pytest.raises(ConfigError):
        TaskOptions(at_most_once=True).over(TaskOptions(retries=2))


def test_numbers_of_numpy_are_stored_as_plain_ones() -> None:
    options = TaskOptions(
        priority=np.int16(3),  # type: ignore[arg-type]
        retries=np.int64(2),  # type: ignore[arg-type]
        retry_delay=np.float64(0.25),
        timeout=np.float32(30),  # type: ignore[arg-type]
        capabilities={"gpu": np.int64(1), "disk": "2G"},  # type: ignore[dict-item]
        memory=np.uint32(4096),  # type: ignore[arg-type]
        no_worker_timeout=np.int8(5),  # type: ignore[arg-type]
        max_failures=np.float16(0.5),  # type: ignore[arg-type]
        seed=np.int64(7),  # type: ignore[arg-type]
    )
    plain = TaskOptions(
        priority=3,
        retries=2,
        retry_delay=0.25,
        timeout=30.0,
        capabilities={"gpu": 1, "disk": "2G"},
        memory=4096,
        no_worker_timeout=5,
        max_failures=0.5,
        seed=7,
    )
    assert (options, repr(options), options.run_options) == (plain, repr(plain), plain.run_options)
    assert b"numpy" not in pickle.dumps(options)
    for wrong in (np.True_, np.float64(2), Fraction(2), 2.0):
        with pytest.raises(TypeError, match="retries must be an int"):
            TaskOptions(retries=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an int is a number of rows, a float below 1 a fraction"):
        TaskOptions(max_failures=np.float32(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [1.0, 2.0, 2.5, float("inf")])
def test_a_float_from_one_on_is_no_number_of_failures(most: float) -> None:
    with pytest.raises(ConfigError, match="an int is a number of rows, a float below 1 a fraction"):
        TaskOptions(max_failures=most)


@pytest.mark.parametrize("most", [-1, -0.5, float("nan"), True, "3", 2**64])
def test_bad_numbers_of_failures_are_refused(most: Any) -> None:
    with pytest.raises(ConfigError, match="max_failures must be"):
        TaskOptions(max_failures=most)


def test_max_failures_is_refused_for_a_call_of_one_task() -> None:
    assert for_one(TaskOptions(retries=1)) == TaskOptions(retries=1)
    for most in (0, 3, 0.5):
        with pytest.raises(ConfigError, match="max_failures is an option of map, map_unordered and start"):
            for_one(TaskOptions(max_failures=most))


@pytest.mark.parametrize("option", ["retry_on", "retry_delay"])
def test_retry_on_and_retry_delay_need_retries(client: Client, option: str) -> None:
    lone = TaskOptions(retry_on=OSError) if option == "retry_on" else TaskOptions(retry_delay=0.5)
    with pytest.raises(ConfigError, match=f"{option} has no effect without retries: write retries=3 beside it"):
        client.options(lone)
    for others in (client.options(retries=2).options(lone), client.options(lone, retries=0)):
        assert getattr(others.task_options, option) == getattr(lone, option)


@pytest.mark.parametrize("option", ["capabilities", "memory", "no_worker_timeout", "max_failures"])
def test_run_on_all_refuses_options_that_choose_a_worker(client: Client, option: str) -> None:
    assert for_each_worker(TaskOptions(retries=1, seed=3)) == TaskOptions(retries=1, seed=3)
    options = TaskOptions(**{option: {"gpu": 1} if option == "capabilities" else 1})
    with pytest.raises(ConfigError, match=f"{option}.*for this call"):
        client.options(options).run_on_all(abs, -1)


def test_a_seed_is_encoded_in_words_and_rows_have_spawn_keys() -> None:
    options = TaskOptions(seed=(7, 2**40))
    assert RunOptions.decode(options.run_options) == RunOptions(seed=(7, 0, 256))
    assert RunOptions.decode(options.spawning_options) == RunOptions(seed=(7, 0, 256), seed_spawns=True)
    assert RunOptions.decode(options.spawning_options).suit_rows
    assert TaskOptions().spawning_options == b""
    assert TaskOptions(seed=(7,)) == TaskOptions(seed=7) == pickle.loads(pickle.dumps(TaskOptions(seed=7)))
    assert repr(TaskOptions(seed=(7, 2**40))) == "TaskOptions(seed=(7, 1099511627776))"
    with pytest.raises(ConfigError, match="negative"):
        TaskOptions(seed=-1)


def test_an_executor_takes_no_seed() -> None:
    assert for_executor(TaskOptions(retries=1)) == TaskOptions(retries=1)
    for options in (TaskOptions(seed=0), TaskOptions(max_failures=1)):
        with pytest.raises(ConfigError):
            for_executor(options)


def test_a_timeout_is_encoded_in_milliseconds() -> None:
    assert RunOptions.decode(TaskOptions(timeout=1.5).run_options) == RunOptions(timeout_ms=1500)


def test_retries_are_encoded_with_the_names_of_exceptions() -> None:
    options = TaskOptions(retries=2, retry_on=(ValueError, CancelledError), retry_delay=0.25)
    names = ("ValueError", "concurrent.futures._base.CancelledError")
    assert RunOptions.decode(options.run_options) == RunOptions(retries=2, retry_on=names, retry_delay_ms=250)
    assert RunOptions.decode(TaskOptions(retries=1).run_options).retry_on == ("Exception",)
    assert RunOptions.decode(TaskOptions(retries=1, retry_on=OSError).run_options).retry_on == ("OSError",)
    assert TaskOptions(retries=0, retry_on=OSError).run_options == b""


def test_later_options_override_earlier_ones() -> None:
    before = TaskOptions(name="load", priority=4, profiling=True)
    assert TaskOptions(priority=0, profiling=False).over(before) == TaskOptions(
        name="load", priority=0, profiling=False
    )
    assert TaskOptions().over(before) == before


def test_only_options_of_the_run_that_are_set_are_encoded() -> None:
    assert TaskOptions(name="load", priority=4, profiling=False).run_options == b""
    assert RunOptions.decode(TaskOptions(profiling=True).run_options) == RunOptions(profiling=True)


def test_capabilities_are_encoded_as_whole_numbers_by_name() -> None:
    options = TaskOptions(capabilities={"memory": "8G", "gpu": 1, "ssd": 0}, no_worker_timeout=2.5)
    travelling = RunOptions.decode(options.run_options)
    assert travelling.capabilities == (("gpu", 1), ("memory", 8 * 2**30), ("ssd", 0))
    assert travelling.no_worker_timeout_ms == 2500
    assert options == TaskOptions(capabilities={"ssd": 0, "gpu": 1, "memory": "8G"}, no_worker_timeout=2.5)
    assert len({options, TaskOptions(capabilities={"gpu": 1})}) == 2
    assert TaskOptions(capabilities={}).over(options).run_options == TaskOptions(no_worker_timeout=2.5).run_options
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"capabilities": "gpu"}, TypeError, "capabilities must be a dict such as"),
        ({"capabilities": {"gpu": -1}}, ConfigError, "amount of the capability gpu must be a whole number from 0"),
        ({"capabilities": {"gpu": 0.5}}, ConfigError, "not 0.5"),
        ({"capabilities": {"": 1}}, ConfigError, "name of a capability"),
        ({"capabilities": {7: 1}}, ConfigError, "name of a capability"),
        (
            {"capabilities": {f"c{number}": 1 for number in range(65)}},
            ConfigError,
            "capabilities, not 65",
        ),
        ({"no_worker_timeout": 0}, ConfigError, "no_worker_timeout must be between 0.001 and"),
        ({"no_worker_timeout": "soon"}, ConfigError, "no_worker_timeout must be a number"),
    ],
)
def test_bad_capabilities_are_refused(wrong: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        TaskOptions(**wrong)


def test_memory_is_an_amount_of_its_capability() -> None:
    travelling = RunOptions.decode(TaskOptions(memory="8G", capabilities={"gpu": 1}).run_options)
    assert travelling.capabilities == (("gpu", 1), ("memory", 8 * 2**30))
    assert RunOptions.decode(TaskOptions(memory=5).over(TaskOptions(priority=1)).run_options).capabilities == (
        ("memory", 5),
    )
    for memory in ("much", 0, 1.5, True):
        with pytest.raises(ConfigError, match="memory"):
            TaskOptions(memory=memory)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="leave one of them out"):
        TaskOptions(memory=1, capabilities={"memory": 1})


@named_as("Written")
class Base:
    limit = 3

    def look(self) -> Base:
        return self

    @property
    def name(self) -> str:
        return "as it was"


class Derived(Base):
    pass


def test_an_error_about_arguments_shows_the_public_name_of_the_class() -> None:
    with pytest.raises(TypeError, match=r"^Written\.look\(\) takes 1 positional argument but 2 were given"):
        Derived().look(1)  # type: ignore[call-arg]


def test_a_class_with_a_public_name_changes_only_its_errors() -> None:
    made = Derived()
    assert made.look() is made
    assert (made.limit, made.name, Base.__qualname__) == (3, "as it was", "Base")
