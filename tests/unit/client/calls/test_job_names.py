"""Arguments of calls about jobs."""

from __future__ import annotations

import pytest

from scaler.client.calls.items import not_of_map
from scaler.client.calls.job_names import job_of_map, job_of_start


def test_either_argument_of_start_names_the_job() -> None:
    assert job_of_start("a", None) == job_of_start(None, "a") == "a"


@pytest.mark.parametrize(("job", "name"), [("a", "b"), ("a", "a"), (None, None), (23, None), (None, 23)])
def test_both_or_none_or_no_str_is_a_type_error(job: str | None, name: str | None) -> None:
    with pytest.raises(TypeError, match="job"):
        job_of_start(job, name)


def test_what_to_do_about_a_change_needs_a_job() -> None:
    assert (job_of_map(None, None), job_of_map("a", None), job_of_map("a", "keep")) == ("raise", "raise", "keep")
    with pytest.raises(TypeError, match="on_change='raise' is for a map with a name: give it one with job="):
        job_of_map(None, "raise")


@pytest.mark.parametrize(
    ("call", "unknown", "hint"),
    [
        ("map", "jobs", "write job="),
        ("map_unordered", "job_name", "write job="),
        ("start", "jobs", "write job="),
        ("start", "keep_fr", "did you mean 'keep_for'"),
        ("start", "retries", r"client\.options\(retries=\.\.\.\)\.start"),
        ("map", "on_chance", "did you mean 'on_change'"),
        ("map", "keep_for", "it is an argument of start"),
        ("map", "name", "the name of a job is job="),
        ("start", "other", r"client\.start\(functools\.partial"),
    ],
)
def test_an_argument_that_a_call_does_not_take_names_the_right_one(call: str, unknown: str, hint: str) -> None:
    assert hint.replace("\\", "") in str(not_of_map(call, [unknown]))
