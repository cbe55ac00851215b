"""RandomGenerators: the global generators of a worker process, of `random`, `numpy.random` and, if loaded, `torch`.

A forked process gives the generators fresh state, because copies of one state draw the same numbers. For a call with
the option `seed` the generators are seeded, and for the next call without `seed` they get fresh state
(docs/howto/monte-carlo.md). Where tasks run in threads of a program, the generators of the program are not changed.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from scaler.process.user_code.on_import import on_import
from scaler.wire.messages.seeds import NO_SEED, CallSeed

TORCH = "torch"
_STATE_WORDS = 18
"""the number of 32-bit words that a seed yields, for all of `CurrentTask.rng`, `numpy.random`, `random` and `torch`"""


class KeptState:
    """The saved state of the global generators of this process, for the libraries that are loaded now."""

    def __init__(self) -> None:
        self._state = random.getstate()
        self._numpy, self._torch = sys.modules.get("numpy.random"), sys.modules.get(TORCH)
        self._numpy_bits = getattr(self._numpy, "get_bit_generator", _nothing)()  # since NumPy 1.24
        self._numpy_state = None if self._numpy is None else self._numpy.get_state(legacy=False)
        self._torch_state = getattr(self._torch, "get_rng_state", _nothing)()
        cuda = getattr(self._torch, "cuda", None)
        is_in_use = getattr(cuda, "is_initialized", _nothing)()
        self._cuda, self._cuda_states = cuda, cuda.get_rng_state_all() if cuda is not None and is_in_use else None

    def restore(self) -> None:
        """Restore the saved state."""
        random.setstate(self._state)
        if self._numpy is not None:
            if self._numpy_bits is not None and self._numpy.get_bit_generator() is not self._numpy_bits:
                self._numpy.set_bit_generator(self._numpy_bits)
            with contextlib.suppress(ValueError):  # that of another bit generator, before NumPy 1.24
                self._numpy.set_state(self._numpy_state)
        if self._torch is not None and self._torch_state is not None:
            self._torch.set_rng_state(self._torch_state)
        if self._cuda is not None and self._cuda_states is not None:
            self._cuda.set_rng_state_all(self._cuda_states)


class RandomGenerators:
    """Seeds the global random generators of this process, or gives them fresh state."""

    def __init__(self) -> None:
        self.seed: CallSeed = NO_SEED
        """the seed of the present call; `NO_SEED` if the call has no seed"""
        self._numpy: ModuleType | None = None
        self._state: Sequence[int] = ()
        self._waits_for_torch = False

    def start_call(self, seed: CallSeed) -> None:
        """Seed the generators for a call. With `NO_SEED`, give them fresh state if an earlier call has seeded them."""
        if seed.seed:
            self._set(seed)
        elif self.seed.seed:
            self.refresh()

    def refresh(self) -> None:
        """Give the generators fresh state, which no other process has."""
        self.seed = NO_SEED
        random.seed()
        if (numpy := sys.modules.get("numpy.random")) is not None:
            _seed_numpy(numpy, _words_of(os.urandom(16)))
        if (seed := getattr(sys.modules.get(TORCH), "seed", None)) is not None:
            with contextlib.suppress(Exception):  # whatever a device of this process raises
                seed()

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Keep the generators' state while a function is read: an import by the function may give all processes the
        same seed.
        """
        n_modules, kept = len(sys.modules), KeptState()
        try:
            yield
        finally:
            is_fresh = not self.seed.seed
            if len(sys.modules) != n_modules:
                self.refresh()
                if is_fresh:
                    kept.restore()

    def _set(self, seed: CallSeed) -> None:
        if not self.seed.seed:
            self._prepare()
        self.seed = seed
        numpy = self._numpy
        if numpy is None:
            self._state = seed.state(_STATE_WORDS)
        else:
            sequence = numpy.SeedSequence(seed.seed, spawn_key=seed.spawn_key)
            state = sequence.generate_state(_STATE_WORDS)
            _seed_numpy(numpy, state[8:12])
            self._state = state.tolist()
        random.seed(_number(self._state[12:16]))
        if (torch := sys.modules.get(TORCH)) is not None:
            self._seed_torch(torch)

    def _prepare(self) -> None:
        """Import NumPy if it is installed. If torch is not loaded, arrange that a later import of torch seeds its
        generator.
        """
        if self._numpy is None:
            with contextlib.suppress(ImportError):
                import numpy.random  # noqa: PLC0415 - it takes a tenth of a second, and few calls have a seed

                self._numpy = numpy.random
        if not self._waits_for_torch and TORCH not in sys.modules:
            self._waits_for_torch = True
            on_import(TORCH, self._seed_torch)

    def _seed_torch(self, torch: Any) -> None:
        if self.seed.seed and (seed := getattr(torch, "manual_seed", None)) is not None:
            seed(_number(self._state[16:18]))


def _seed_numpy(numpy: Any, words: Sequence[int]) -> None:
    """Seed the global generator of `numpy.random`, and restore its usual bit generator if a task has set another."""
    kind_of = getattr(numpy, "get_bit_generator", None)  # since NumPy 1.24
    if kind_of is not None and type(kind_of()) is not numpy.MT19937:
        numpy.set_bit_generator(numpy.MT19937())
    numpy.seed(words)


def _nothing() -> None:
    """Return None, as the state of a generator whose library is not loaded."""


def _number(words: Sequence[int]) -> int:
    """Return the integer that consists of these 32-bit words, the lowest word first."""
    return sum(word << 32 * place for place, word in enumerate(words))


def _words_of(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
