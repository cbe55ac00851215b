"""Differences: prints how this process differs from the one in which a task failed.

Prints one block of text on standard error before a call runs again; nothing if there is no difference. Values of
environment variables are neither printed nor compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from scaler.processor.execution.place import ProcessFacts, process_facts
from scaler.texts import NAME_CHARACTERS, printable

NAMES_MOST = 12
"""The maximum number of names of environment variables in one line of the text."""


def report_differences(label: str, remote: ProcessFacts | None, function: Any, notes: Sequence[str] = ()) -> None:
    """Print the differences between this process and the one in which a task failed.

    Args:
        remote: facts about the process in which the task failed; None if they are unknown.
        function: the function of the task; None if it cannot be read here.
        notes: further differences, as sentences.
    """
    lines = [*differences(remote, process_facts(function)), *notes]
    if lines and sys.stderr is not None:
        where = "" if remote is None or not remote.worker else f", which failed on worker {remote.worker}"
        head = f"rerun of {printable(label, NAME_CHARACTERS)}{where}: what differs here"
        sys.stderr.write("\n  ".join((head, *lines)) + "\n")
        sys.stderr.flush()


def differences(remote: ProcessFacts | None, local: ProcessFacts) -> list[str]:
    """Return the differences between two processes as lines of text; empty if there are none."""
    if remote is None:
        return ["unknown: the failure does not describe its process (host, Python, packages, environment variables)"]
    lines = []
    if remote.host != local.host:
        lines.append(f"host: {local.host} here, {remote.host} there")
    if remote.python != local.python:
        lines.append(f"Python: {local.python} here, {remote.python} there")
    if packages := [*_packages(remote, local)]:
        lines.append(f"packages: {', '.join(packages)}")
    for where, names in (("there", _missing(remote, local)), ("here", _missing(local, remote))):
        if names:
            shown, more = ", ".join(names[:NAMES_MOST]), len(names) - NAMES_MOST
            lines.append(f"environment variables set only {where}: {shown}{f' and {more} more' if more > 0 else ''}")
    return lines


def _packages(remote: ProcessFacts, local: ProcessFacts) -> Iterator[str]:
    for package, version in remote.packages.items():
        own = local.packages.get(package) or _installed(package)
        if own != version:
            yield f"{package} {own or 'missing'} here, {version} there"


def _installed(package: str) -> str:
    try:
        return metadata.version(metadata.packages_distributions().get(package, [package])[0])
    except (metadata.PackageNotFoundError, ValueError):
        return ""


def _missing(one: ProcessFacts, other: ProcessFacts) -> list[str]:
    """Return the names of variables that are in `one` but not in `other`. If the list of `other` was cut, leave out
    names that sort after its last name.
    """
    end = other.variables[-1] if other.omitted and other.variables else None
    known = {*other.variables}
    return [name for name in one.variables if name not in known and (end is None or name <= end)]
