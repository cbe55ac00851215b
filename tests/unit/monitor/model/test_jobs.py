"""Rates and remaining times of jobs, from snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.monitor.model.jobs import JobRates, state_of
from scaler.wire.messages.monitor import StateJob

JOB = StateJob(b"prices..", "prices", state="open", all_rows_known=1, rows=10_000)
SECOND_US = 1_000_000


def seen(*ended: int, job: StateJob = JOB) -> tuple[JobRates, StateJob]:
    rates = JobRates()
    for second, count in enumerate(ended):
        job = replace(job, done=count)
        rates.update([job], second * SECOND_US)
    return rates, job


def test_one_snapshot_of_a_job_gives_no_rate() -> None:
    rates, job = seen(100)
    assert rates.per_second(job) is None
    assert rates.left(job) == "-"


def test_the_rate_of_a_job_is_that_of_the_last_ten_seconds() -> None:
    rates, job = seen(*range(0, 2_000, 100), *range(2_000, 3_300, 200))
    assert rates.per_second(job) == 160
    assert rates.left_seconds(job) == (10_000 - 3_200) / 160


@pytest.mark.parametrize("other", [{"state": "done"}, {"all_rows_known": 0}, {"done": 5_000}])
def test_the_remaining_time_of_a_job_is_unknown_without_a_rate_or_all_rows(other: dict[str, int]) -> None:
    rates, job = seen(5_000, 5_000, job=replace(JOB, **other))
    assert rates.left(job) == "-"


def test_reopened_rows_do_not_make_the_rate_negative() -> None:
    rates, job = seen(0, 1_000, 400, 500)
    assert rates.per_second(job) == 100


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "open"),
        ({"state": "paused", "reason": "its owner has no valid key"}, "paused"),
        ({"state": "paused", "all_rows_known": 0}, "paused"),
        ({"all_rows_known": 0}, "rows missing"),
        ({"reason": "the disk is full"}, "waits"),
        ({"state": "stopped", "reason": "too many"}, "stopped"),
    ],
)
def test_the_shown_state_of_a_job_names_what_is_missing(fields: dict[str, int], text: str) -> None:
    assert state_of(replace(JOB, **fields)) == text
