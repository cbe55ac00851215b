"""Job arguments: checks the arguments `job`, `on_change`, `keep_for` and `name` of calls, before anything is sent."""

from __future__ import annotations

from typing import Literal, TypeAlias

from scaler.jobs.names import check_job_name
from scaler.texts import shown

WINDOW = 1024
"""The default window of `map_unordered`: how many of its tasks may be open, or have unread results, at a time."""

MAP_WINDOW = 16384
"""The default window of `map`, and the largest one: how many of its tasks may be open at a time."""

OnChange: TypeAlias = Literal["raise", "restart", "keep"]
"""How a call treats an existing job of the same name that has another function or other rows."""


def job_of_map(job: str | None, on_change: OnChange | None, keep_for: float | str | None = None) -> OnChange:
    """Check the `job`, `on_change` and `keep_for` arguments of a map. Return `on_change`, "raise" by default.

    Raises:
        TypeError: if `job` is not a `str`, or `on_change` or `keep_for` is given without `job`.
        ConfigError: if `job` is not a valid name.
    """
    if job is not None:
        check_job_name(job)
    for name, value in ("on_change", on_change), ("keep_for", keep_for):
        if job is None and value is not None:
            raise TypeError(
                f"{name}={shown(value)} has no effect on a map without job=: name a job with job=, or leave {name} out"
            )
    return "raise" if on_change is None else on_change


def window_of_map(job: str | None, window: int, default: int) -> None:
    """Raise `TypeError` if `window` is given together with `job`, because the window of a job has no effect."""
    if job is not None and window != default:
        raise TypeError(
            f"window={shown(window)} has no effect on a map with job=, which reads all items before the first result: "
            "leave one of the two out"
        )


def job_of_start(job: str | None, name: str | None) -> str:
    """Return the name of the job that `start` opens. Users give the name as `job` or as `name`.

    Raises:
        TypeError: if both or neither are given, or the name is not a `str`.
        ConfigError: if the name is not valid.
    """
    if job is not None and name is not None:
        both = f"job={shown(job)} and name={shown(name)}"
        raise TypeError(f"start() takes the name of the job as job= or as name=, not both: {both}")
    found = name if job is None else job
    if found is None:
        raise TypeError('start() needs a name for the job: job="..." (or name="...")')
    check_job_name(found)
    return found
