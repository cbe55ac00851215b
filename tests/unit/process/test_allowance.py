"""Allowance: a number of lines per second."""

from __future__ import annotations

from scaler.process.allowance import CHARACTERS_PER_LINE, Allowance
from tests.support.virtual_clock import VirtualClock


def passing(allowance: Allowance, lines: int) -> int:
    return sum(allowance.take(10) for _ in range(lines))


def test_a_burst_passes_and_then_the_allowed_lines_in_each_second() -> None:
    clock = VirtualClock(1000.0)
    allowance = Allowance(100, 2, clock)
    assert passing(allowance, 500) == 200
    clock.advance(0.1)
    assert passing(allowance, 500) == 0, "it stays closed until a part of the burst is available"
    clock.advance(0.9)
    assert passing(allowance, 500) == 100
    clock.advance(60.0)
    assert passing(allowance, 500) == 200


def test_a_long_line_counts_as_several() -> None:
    allowance = Allowance(10, 1, VirtualClock(1000.0))
    assert allowance.take(9 * CHARACTERS_PER_LINE)
    assert not allowance.take(2 * CHARACTERS_PER_LINE)


def test_an_allowance_of_zero_lets_no_line_pass() -> None:
    assert passing(Allowance(0, 2, VirtualClock(1000.0)), 3) == 0


def test_lines_that_pass_in_any_case_delay_later_ones_at_most_by_a_burst() -> None:
    clock = VirtualClock(1000.0)
    allowance = Allowance(10, 1, clock)
    assert passing(allowance, 20) == 10
    for _ in range(100):
        allowance.charge(10)
    clock.advance(1.0)
    assert passing(allowance, 5) == 0
    clock.advance(0.5)
    assert passing(allowance, 10) == 5
