"""Names of jobs, and the default folder of local clusters. Used by clients, so it imports nothing that reads jobs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from urllib.parse import quote

from scaler.config import ConfigError, whole_path
from scaler.texts import shown

NAME_BYTES_MOST = 120
"""The most bytes that the name of a job or an owner may take as a file name."""


def usual_job_folder() -> str | None:
    """Return the default folder of jobs for local clusters of this user; None if the user has no home."""
    with contextlib.suppress(ConfigError):  # in a container, the user may be a number without a name and a home
        return str(Path(os.environ.get("XDG_STATE_HOME") or whole_path("~/.local/state")) / "scaler" / "jobs")
    return None


def check_job_name(name: object) -> str:
    """Return the name of a job as a file name.

    Raises:
        TypeError: if the name is not a `str`.
        ConfigError: if the name is empty, too long, or has unprintable characters.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a job must be a str, not {shown(name)}")
    if not name or not name.isprintable():
        raise ConfigError(f"{shown(name)} is not a valid name of a job: use one or more printable characters")
    file_name = quote(name, safe=" +=,@").replace(".", "%2E", 1) if name[0] == "." else quote(name, safe=" +=,@")
    if len(file_name) > NAME_BYTES_MOST:
        raise ConfigError(
            f"the name of a job is too long: {shown(name)} takes {len(file_name):,} bytes as a file name, and "
            f"{NAME_BYTES_MOST} is the limit; ASCII letters, digits and ' +=,@_.-~' take one byte each, others three "
            "for each byte of their UTF-8"
        )
    return file_name


def check_known_name(name: object) -> None:
    """Check the name of an existing job, which an admin may write as `OWNER/NAME`. Raises as `check_job_name`."""
    own = name.partition("/")[2] if isinstance(name, str) else ""
    check_job_name(own or name)
