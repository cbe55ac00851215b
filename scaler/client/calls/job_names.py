"""Arguments of calls about jobs: which ones go together, and what to write instead of one that a call does not take.

Used by both clients before anything else. Must never: ask the scheduler.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from scaler.jobs.names import check_job_name
from scaler.texts import shown

OnChange: TypeAlias = Literal["raise", "restart", "keep"]
"""What to do if there is a job of this name with another function or other rows."""


def job_of_map(job: str | None, on_change: OnChange | None) -> OnChange:
    """Return what a map is to do if its job has changed. Check the name of the job, if there is one.

    Raises:
        TypeError: if it is no `str`, or none is named, and `on_change` is for jobs.
        ConfigError: if it cannot be a name.
    """
    if job is not None:
        check_job_name(job)
    elif on_change is not None:
        raise TypeError(
            f"on_change={shown(on_change)} is for a map with a name: give it one with job=, or leave it out"
        )
    return "raise" if on_change is None else on_change


def job_of_start(job: str | None, name: str | None) -> str:
    """Return the name of the job that `start` is to make: either of two arguments says it.

    Raises:
        TypeError: if both do, or neither, or it is no `str`.
        ConfigError: if it cannot be a name.
    """
    if job is not None and name is not None:
        both = f"job={shown(job)} and name={shown(name)}"
        raise TypeError(f"start() takes the name of the job as job= or as name=, not both: {both}")
    found = name if job is None else job
    if found is None:
        raise TypeError('start() needs a name for the job: job="..." (or name="...")')
    check_job_name(found)
    return found
