"""The durations of runs, from totals and a histogram."""

from __future__ import annotations

import random
import struct

import pytest

from scaler.monitor.model.functions import mean_us, percentile_us, run_counts
from scaler.wire.messages.monitor import StateFunction
from tests.support.monitored import durations, function


def measured(*runs_us: int) -> StateFunction:
    buckets = [0] * 32
    for each in runs_us:
        buckets[each.bit_length()] += 1
    ends = {"least_us": min(runs_us), "most_us": max(runs_us)}
    return StateFunction(runs=len(runs_us), run_us=sum(runs_us), durations=struct.pack("<32I", *buckets), **ends)


def test_without_measured_runs_nothing_is_known() -> None:
    for each in (StateFunction(), function(durations=durations()), StateFunction(durations=b"malformed")):
        assert (mean_us(each), percentile_us(each, 0.95)) == (None, None)
    assert run_counts(StateFunction()) == ()


def test_percentiles_are_interpolated_within_a_bucket() -> None:
    assert percentile_us(function(durations=durations(b0=1)), 0.5) == 0.5
    two = function(durations=durations(b11=50, b21=50))
    assert percentile_us(two, 0.5) == 2048
    assert percentile_us(two, 0.75) == pytest.approx(1.5 * 2**20)


def test_runs_that_take_the_same_time_have_percentiles_of_that_time() -> None:
    """The limits of a bucket differ by a factor of two."""
    runs = measured(*[300_000] * 40)
    assert mean_us(runs) == 300_000
    assert [percentile_us(runs, share) for share in (0.0, 0.5, 0.95, 1.0)] == [300_000] * 4


def test_a_mean_is_not_that_of_a_bucket() -> None:
    assert mean_us(measured(100, 101)) == 100.5


@pytest.mark.parametrize("seed", range(20))
def test_a_percentile_lies_between_the_shortest_and_the_longest_run_and_in_the_bucket_of_the_true_one(
    seed: int,
) -> None:
    chance = random.Random(seed)
    runs_us = sorted(int(2 ** chance.uniform(0, 30)) for _ in range(chance.randrange(1, 200)))
    runs = measured(*runs_us)
    estimates = [percentile_us(runs, share / 100) for share in range(1, 101)]
    assert estimates == sorted(estimates), "a greater share has no shorter time"
    for share, estimate in enumerate(estimates, 1):
        true = runs_us[-(-len(runs_us) * share // 100) - 1]
        assert estimate is not None
        assert runs_us[0] <= estimate <= runs_us[-1]
        assert (1 << true.bit_length() >> 1) <= estimate <= 1 << true.bit_length()
