"""Functions: durations of runs, from the figures that the stream has of each function."""

from __future__ import annotations

from scaler.wire.messages.monitor import DURATIONS, StateFunction


def run_counts(function: StateFunction) -> tuple[int, ...]:
    """Return the numbers of runs by duration: item n counts the runs of 2**(n-1) to 2**n us. Empty if unknown."""
    return DURATIONS.unpack(function.durations) if len(function.durations) == DURATIONS.size else ()


def mean_us(function: StateFunction) -> float | None:
    """Return the mean duration of the runs of a function; None if no run was measured."""
    return function.run_us / function.runs if function.runs else None


def percentile_us(function: StateFunction, share: float) -> float | None:
    """Estimate the duration that the share `share` (0 to 1) of the runs did not exceed; None if no run was measured.

    Within a bucket of the histogram, durations are assumed to be spread evenly. The estimate lies between the shortest
    and the longest run.
    """
    counts = run_counts(function)
    wanted = share * sum(counts)
    below: float = 0
    for number, count in enumerate(counts):
        if count and below + count >= wanted:
            low, high = max(1 << number >> 1, function.least_us), min(1 << number, function.most_us)
            return max(function.least_us, min(low + (high - low) * (wanted - below) / count, function.most_us))
        below += count
    return None
