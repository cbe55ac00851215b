"""Names of jobs."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.jobs.names import check_job_name, check_known_name, usual_job_folder


@pytest.mark.parametrize("name", [23, 2.5, None, b"a", date(2026, 11, 28), Path("a"), [], object()])
def test_a_name_that_is_no_str_is_refused(name: Any) -> None:
    for check in check_job_name, check_known_name:
        with pytest.raises(TypeError, match="the name of a job must be a str, not "):
            check(name)


def test_the_error_for_a_job_name_that_is_too_long_has_its_bytes_as_a_file_name() -> None:
    assert len(check_job_name("日" * 13)) == 117
    with pytest.raises(ConfigError, match=r"takes 180 bytes as a file name, and 120 is the limit; .* three for each"):
        check_job_name("日" * 20)
    assert check_job_name("x" * 120) == "x" * 120


def test_an_error_about_a_huge_name_is_short() -> None:
    for name in "x" * 1_000_000, "\0" * 1_000_000:
        with pytest.raises(ConfigError) as error:
            check_job_name(name)
        assert len(str(error.value)) < 500


def test_a_job_name_may_be_preceded_by_its_owner() -> None:
    check_known_name("bob" * 30 + "/" + "prices" * 10)
    with pytest.raises(ConfigError, match="too long"):
        check_known_name("bob/" + "x" * 121)
    with pytest.raises(ConfigError, match="is not a valid name of a job"):
        check_known_name("bob/a\nb")


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_has_a_folder_of_jobs_only_with_xdg_state_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usual_job_folder() is None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert usual_job_folder() == str(tmp_path / "scaler" / "jobs")
