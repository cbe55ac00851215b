"""Seeds: words and states equal those of `numpy.random.SeedSequence`; malformed seeds are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config import ConfigError
from scaler.wire.messages.seeds import NO_SEED, WORDS_MOST, CallSeed, checked_seed, key_number, seed_words, shown_seed

INTEGERS = st.integers(0, 2**130)


@given(st.one_of(INTEGERS, st.lists(INTEGERS, min_size=1, max_size=8).map(tuple)), st.lists(INTEGERS, max_size=3))
def test_a_state_equals_that_of_numpys_seed_sequence(seed: Any, spawn_key: list[int]) -> None:
    expected = np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(18)
    assert CallSeed(seed_words(checked_seed(seed)), tuple(spawn_key)).state(18) == expected.tolist()


@pytest.mark.parametrize("seed", [7, (7,), np.int64(7), np.array(7), (np.uint8(7),)])
def test_an_integer_of_any_class_becomes_an_int(seed: Any) -> None:
    checked = checked_seed(seed)
    assert (type(checked), checked, seed_words(checked)) == (int, 7, (7,))


def test_seeds_are_shown_as_they_are_written() -> None:
    assert checked_seed((np.uint8(7), 2**40)) == (7, 2**40)
    assert seed_words((7, 2**40)) == (7, 0, 256)
    assert [shown_seed(words) for words in ((), (7,), (7, 1))] == [None, 7, (7, 1)]


@pytest.mark.parametrize("seed", [1.5, "7", True, [1], (True,), (1, "2"), np.float64(3), np.array([1, 2]), object()])
def test_a_seed_that_is_not_an_integer_is_a_type_error(seed: Any) -> None:
    with pytest.raises(TypeError, match="seed must be an int or a tuple of ints"):
        checked_seed(seed)


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (-1, "negative"), ((1, -2), "negative"), ((), "not 0"), (2 ** (32 * WORDS_MOST), "not 65"),
        ((1,) * 10**7, "not 10,000,000"), (2 ** (32 * 10**6), "not 1,000,001"),
    ],
    ids=["negative", "a negative member", "empty", "a word too long", "many members", "a long integer"],
)  # fmt: skip
def test_a_seed_out_of_range_is_a_config_error(seed: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        checked_seed(seed)


def test_the_longest_seed_is_accepted() -> None:
    assert len(seed_words(checked_seed(2 ** (32 * WORDS_MOST) - 1))) == WORDS_MOST


def test_different_keys_have_different_numbers() -> None:
    keys = ["a", "b", "", "ä", "\ud800", *map(str, range(1000))]
    numbers = {key_number(key) for key in keys}
    assert len(numbers) == len(keys)
    assert all(0 <= number < 2**64 for number in numbers)


def test_no_seed_has_no_words() -> None:
    assert CallSeed((), ()) == NO_SEED
