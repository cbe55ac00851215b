"""Records of jobs with any content are shown or reported by `scaler_jobs --file`, in bounded time and memory."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from scaler.cli.jobs import main
from tests.support.forged_jobs import forge, make_job
from tests.support.processes import called

SEED = 35
SLOW_SECONDS = 20.0
GROWTH_BYTES = 512 << 20


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(400, marks=[pytest.mark.more, pytest.mark.timeout(600)]),
        pytest.param(20_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_any_record_is_shown_or_reported(count: int, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    original, folder = tmp_path / "original", tmp_path / "keep"
    place = folder / make_job(original).relative_to(original)
    before, n_shown, slowest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, 0.0
    for number in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)
        try:
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                forge(place, chance)
        except (sqlite3.Error, ValueError, TypeError, OverflowError):
            pass  # what was forged before is in the way of the rest
        for command in ("list", "check"):
            began = time.monotonic()
            code, said = called(main, "--file", str(folder), command)
            assert code in (0, 1), f"{command} of input {number}"
            assert "\x1b" not in said, f"{command} of input {number}"
            n_shown += command == "list" and not code
            slowest = max(slowest, time.monotonic() - began)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(f"{count:,} records, {n_shown:,} shown, slowest {slowest:.3f} s, grown by {grown >> 20} MiB")
    assert 0 < n_shown < count
    assert slowest < SLOW_SECONDS
    assert grown < GROWTH_BYTES
