"""RandomGenerators: seeded for a call, and fresh for the next call, with the generators of this process."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scaler.processor.execution.random_generators import TORCH, KeptState, RandomGenerators
from scaler.wire.messages.seeds import NO_SEED, CallSeed

SEVEN = CallSeed((7,), (3,))

STAND_IN = """
seeds = []
def manual_seed(seed): seeds.append(seed)
def seed(): seeds.append("fresh")
"""
"""of torch, which is too large to be installed for a test"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    state, numpys, finders = random.getstate(), np.random.get_state(), list(sys.meta_path)
    yield
    random.setstate(state)
    np.random.set_state(numpys)
    sys.meta_path[:] = finders
    for name in (TORCH, "colorsys"):
        sys.modules.pop(name, None)


def drawn() -> tuple[float, float]:
    return random.random(), float(np.random.rand())


def drawn_after(generators: RandomGenerators, seed: CallSeed) -> tuple[float, float]:
    generators.start_call(seed)
    return drawn()


def test_a_seed_gives_the_same_numbers_each_time() -> None:
    generators = RandomGenerators()
    first = drawn_after(generators, SEVEN)
    assert drawn_after(generators, CallSeed((7,), (4,))) != first
    assert drawn_after(generators, NO_SEED) != first
    assert drawn_after(RandomGenerators(), SEVEN) == first


def test_the_generators_are_seeded_as_documented() -> None:
    state = np.random.SeedSequence(7, spawn_key=(3,)).generate_state(18)
    expected = (
        random.Random(int.from_bytes(state[12:16].astype("<u4").tobytes(), "little")).random(),
        np.random.RandomState(state[8:12]).rand(),
    )
    assert drawn_after(RandomGenerators(), SEVEN) == expected


def test_without_numpy_random_has_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = drawn_after(RandomGenerators(), SEVEN)[0]
    monkeypatch.setitem(sys.modules, "numpy", None)  # as where it is not installed
    monkeypatch.setitem(sys.modules, "numpy.random", None)
    generators = RandomGenerators()
    generators.start_call(SEVEN)
    assert random.random() == expected


def test_a_call_without_a_seed_changes_nothing() -> None:
    random.seed(1)
    np.random.seed(1)
    expected = drawn()
    random.seed(1)
    np.random.seed(1)
    assert drawn_after(RandomGenerators(), NO_SEED) == expected


def test_copies_of_a_process_draw_different_numbers_after_a_refresh() -> None:
    state, numpys = random.getstate(), np.random.get_state()
    found = set()
    for _ in range(3):
        random.setstate(state)
        np.random.set_state(numpys)
        RandomGenerators().refresh()
        found.update(drawn())
    assert len(found) == 6


def test_torch_is_seeded_if_it_is_loaded_or_when_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    state = SEVEN.state(18)
    expected = state[16] + (state[17] << 32)
    generators = RandomGenerators()
    generators.start_call(SEVEN)
    import torch  # type: ignore[import-not-found]

    assert torch.seeds == [expected]
    generators.start_call(SEVEN)
    assert torch.seeds == [expected, expected]
    generators.start_call(NO_SEED)
    generators.start_call(NO_SEED)
    assert torch.seeds == [expected, expected, "fresh"]
    assert torch.__spec__.loader.get_source("torch") == STAND_IN, "its loader is that of any module"


def test_torch_that_is_imported_by_a_later_call_is_not_seeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    generators = RandomGenerators()
    generators.start_call(SEVEN)
    generators.start_call(NO_SEED)
    import torch

    assert torch.seeds == []


def test_without_torch_its_import_fails_as_usual() -> None:
    RandomGenerators().start_call(SEVEN)
    with pytest.raises(ImportError, match="No module named 'torch'"):
        import torch  # noqa: F401


def test_the_import_of_a_module_does_not_disturb_the_generators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seeds_what_all_share.py").write_text("import random, numpy\nrandom.seed(1)\nnumpy.random.seed(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    random.seed(5)
    np.random.seed(5)
    with RandomGenerators().preserved():
        importlib.import_module("seeds_what_all_share")
    assert drawn() == (random.Random(5).random(), np.random.RandomState(5).rand())
    random.seed(5)
    with RandomGenerators().preserved():
        random.random()
    assert random.random() != random.Random(5).random(), "draws without an import are kept"


def test_a_module_that_is_imported_after_a_call_with_a_seed_leaves_fresh_generators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_after_a_seed.py").write_text("import colorsys\nraise ImportError('not here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    generators = RandomGenerators()
    generators.start_call(SEVEN)
    following = drawn(), drawn()
    generators.start_call(SEVEN)
    drawn()
    with pytest.raises(ImportError), generators.preserved():
        importlib.import_module("imported_after_a_seed")
    generators.start_call(NO_SEED)
    assert drawn() not in following


def test_a_bit_generator_that_the_program_set_in_numpy_is_replaced() -> None:
    expected = drawn_after(RandomGenerators(), SEVEN)
    np.random.set_bit_generator(np.random.PCG64(1))
    assert drawn_after(RandomGenerators(), SEVEN) == expected


def test_the_state_is_restored_with_the_bit_generator_of_the_program() -> None:
    usual, own = np.random.get_bit_generator(), np.random.PCG64(3)
    np.random.set_bit_generator(own)
    try:
        kept = KeptState()
        expected = drawn()
        generators = RandomGenerators()
        drawn_after(generators, SEVEN)
        generators.refresh()
        kept.restore()
        assert np.random.get_bit_generator() is own
        assert drawn() == expected
    finally:
        np.random.set_bit_generator(usual)


def test_the_state_of_torch_and_of_its_devices_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(
        f"{STAND_IN}\nclass cuda:\n    is_initialized = lambda: True\n"
        "    get_rng_state_all = lambda: ['device']\n    set_rng_state_all = seeds.append\n"
        "def get_rng_state(): return 'state'\nset_rng_state = seeds.append\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import torch

    kept = KeptState()
    generators = RandomGenerators()
    generators.start_call(SEVEN)
    generators.refresh()
    kept.restore()
    assert torch.seeds[1:] == ["fresh", "state", ["device"]]
