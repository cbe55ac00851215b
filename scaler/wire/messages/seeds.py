"""Seeds: the entropy from which the random generators of a task are seeded.

A call with the option `seed` has the entropy of `numpy.random.SeedSequence(seed, spawn_key=...)`, wherever it runs,
with or without NumPy. This module computes what `SeedSequence` computes (M. E. O'Neill, "Developing a seed_seq
Alternative", 2015). Used by clients, agents and worker processes.
"""

from __future__ import annotations

import hashlib
import operator
from typing import NamedTuple

from scaler.config import ConfigError
from scaler.texts import shown

WORDS_MOST = 64
"""The limit on the 32-bit words of a seed."""

_POOL = 4
"""The number of words of the state of a seed sequence."""
_WORD = 0xFFFFFFFF
_INIT_A, _MULTIPLIER_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULTIPLIER_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = 0xCA01F9DD, 0x4973F715


class CallSeed(NamedTuple):
    """The seed from which the random generators of one call are made."""

    seed: tuple[int, ...]
    """the entropy in 32-bit words, the lowest word of each integer first; empty if the call has no seed"""
    spawn_key: tuple[int, ...] = ()
    """the number of the row of a map, or `key_number` of the key of a graph; empty for a single call"""

    def state(self, n_words: int) -> list[int]:
        """Return `SeedSequence(self.seed, spawn_key=self.spawn_key).generate_state(n_words)`."""
        entropy = self.seed
        if self.spawn_key:
            entropy += (0,) * (_POOL - len(entropy))
            for number in self.spawn_key:
                entropy += _words(number)
        return _generated(_mixed(entropy), n_words)


NO_SEED = CallSeed(())
"""The seed of a call without the option `seed`."""


def checked_seed(seed: object) -> int | tuple[int, ...]:
    """Return the option `seed` as Python integers. A tuple of one integer becomes that integer.

    Raises:
        TypeError: if the option is neither an integer nor a tuple of integers.
        ConfigError: if an integer is negative, or the seed is empty or too long.
    """
    numbers = seed if isinstance(seed, tuple) else (seed,)
    if len(numbers) > WORDS_MOST:
        raise _wrong_length(len(numbers))
    integers = tuple(_checked(number, seed) for number in numbers)
    n_words = sum(max(1, (number.bit_length() + 31) // 32) for number in integers)
    if not 0 < n_words <= WORDS_MOST:
        raise _wrong_length(n_words)
    return integers[0] if len(integers) == 1 else integers


def _wrong_length(n_words: int) -> ConfigError:
    return ConfigError(f"seed must have from 1 to {WORDS_MOST} words of 32 bits, not {n_words:,}: take a shorter one")


def _checked(number: object, seed: object) -> int:
    try:
        if isinstance(number, bool):
            raise TypeError
        value = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"seed must be an int or a tuple of ints, not {shown(seed)}") from None
    if value < 0:
        raise ConfigError(f"seed must not be negative: {shown(seed)}")
    return value


def seed_words(seed: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return a checked seed as 32-bit words."""
    return tuple(word for number in (seed if isinstance(seed, tuple) else (seed,)) for word in _words(number))


def shown_seed(words: tuple[int, ...]) -> int | tuple[int, ...] | None:
    """Return, for display, the option `seed` that these words encode; None without words."""
    return words[0] if len(words) == 1 else words or None


def key_number(key: str) -> int:
    """Return the spawn key of a call in a graph: the first 8 bytes of the BLAKE2b digest of `key`, big-endian."""
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def _words(number: int) -> tuple[int, ...]:
    """Return the 32-bit words of an integer, the lowest first; one word for 0."""
    words = [number & _WORD]
    while number := number >> 32:
        words.append(number & _WORD)
    return tuple(words)


class _Hash:
    """The hash function of a seed sequence, whose multiplier changes with each word."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self._constant, self._multiplier = constant, multiplier

    def __call__(self, word: int) -> int:
        word ^= self._constant
        self._constant = self._constant * self._multiplier & _WORD
        word = word * self._constant & _WORD
        return word ^ word >> 16


def _mixed(entropy: tuple[int, ...]) -> list[int]:
    hashed = _Hash(_INIT_A, _MULTIPLIER_A)
    pool = [hashed(word) for word in (*entropy, 0, 0, 0, 0)[:_POOL]]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mix(pool[target], hashed(pool[source]))
    for word in entropy[_POOL:]:
        for target in range(_POOL):
            pool[target] = _mix(pool[target], hashed(word))
    return pool


def _mix(left: int, right: int) -> int:
    mixed = (_MIX_LEFT * left - _MIX_RIGHT * right) & _WORD
    return mixed ^ mixed >> 16


def _generated(pool: list[int], n_words: int) -> list[int]:
    hashed = _Hash(_INIT_B, _MULTIPLIER_B)
    return [hashed(pool[at % _POOL]) for at in range(n_words)]
