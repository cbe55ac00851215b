"""Arguments of calls about jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.client.calls.items import not_of_map
from scaler.client.calls.job_names import WINDOW, job_of_map, job_of_start, window_of_map


def test_either_argument_of_start_names_the_job() -> None:
    assert job_of_start("a", None) == job_of_start(None, "a") == "a"


@pytest.mark.parametrize(("job", "name"), [("a", "b"), ("a", "a"), (None, None), (23, None), (None, 23)])
def test_start_needs_exactly_one_job_name_that_is_a_str(job: str | None, name: str | None) -> None:
    with pytest.raises(TypeError, match="job"):
        job_of_start(job, name)


def test_on_change_and_keep_for_need_a_job() -> None:
    assert (job_of_map(None, None), job_of_map("a", None), job_of_map("a", "keep", 1)) == ("raise", "raise", "keep")
    with pytest.raises(TypeError, match="on_change='raise' has no effect on a map without job=: name a job with job="):
        job_of_map(None, "raise")
    with pytest.raises(TypeError, match="keep_for='1y' has no effect on a map without job=: name a job with job="):
        job_of_map(None, None, "1y")


@pytest.mark.parametrize(
    ("method", "unknown", "hint"),
    [
        (Client.map, "jobs", "write job="),
        (Client.map_unordered, "job_name", "write job="),
        (Client.start, "jobs", "write job="),
        (Client.start, "keep_fr", "did you mean 'keep_for'"),
        (Client.start, "retries", "client.options(retries=...).start"),
        (Client.map, "on_chance", "did you mean 'on_change'"),
        (Client.map, "keep_fo", "did you mean 'keep_for'"),
        (Client.map, "name", "the name of a job is job="),
        (Client.start, "window", "it is an argument of map and map_unordered"),
        (Client.map, "windows", "did you mean 'window'"),
        (AsyncClient.map, "windows", "did you mean 'window'"),
        (AsyncClient.map, "time_out", "did you mean 'timeout'"),
        (AsyncClient.map_unordered, "progress", "it is an argument of map;"),
        (Client.map_unordered, "progress", "it is an argument of map;"),
        (Client.start, "return_exceptions", "it is an argument of map, map_unordered and job.results"),
        (Client.start, "other", "client.start(functools.partial"),
    ],
)
def test_the_error_for_an_unknown_argument_of_a_call_suggests_the_right_one(
    method: Callable[..., Any], unknown: str, hint: str
) -> None:
    assert hint in str(not_of_map(method, [unknown]))


def test_a_window_of_a_map_with_a_job_is_refused() -> None:
    window_of_map(None, 3, WINDOW)
    window_of_map("a", WINDOW, WINDOW)
    with pytest.raises(TypeError, match="window=3 has no effect on a map with job="):
        window_of_map("a", 3, WINDOW)
