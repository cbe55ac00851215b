"""Differences: prints how this process differs from the one in which a task failed.

Prints one block of lines on standard error before a call runs again; nothing if there is no difference. Values of
environment variables are neither printed nor compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from scaler.processor.execution.place import ProcessFacts, place_here
from scaler.texts import NAME_CHARACTERS, printable

NAMES_MOST = 12
"""The maximum number of names of variables in one line."""


def report_differences(label: str, there: ProcessFacts | None, function: Any, notes: Sequence[str] = ()) -> None:
    """Print the differences between this process and the one in which a task failed.

    Args:
        label: the name of the task in the text.
        there: facts about the other process; None if they are unknown.
        function: the function; None if it cannot be read here.
        notes: further differences, as sentences.
    """
    lines = [*differences(there, place_here(function)), *notes]
    if lines and sys.stderr is not None:
        where = "" if there is None or not there.worker else f", which failed on worker {there.worker}"
        head = f"rerun of {printable(label, NAME_CHARACTERS)}{where}: what differs here"
        sys.stderr.write("\n  ".join((head, *lines)) + "\n")
        sys.stderr.flush()


def differences(there: ProcessFacts | None, here: ProcessFacts) -> list[str]:
    """Return the differences as lines; empty if there are none."""
    if there is None:
        return ["unknown: the failure does not describe its process (host, Python, packages, environment variables)"]
    lines = []
    if there.host != here.host:
        lines.append(f"host: {here.host} here, {there.host} there")
    if there.python != here.python:
        lines.append(f"Python: {here.python} here, {there.python} there")
    if packages := [*_packages(there, here)]:
        lines.append(f"packages: {', '.join(packages)}")
    for where, names in (("there", _missing(there, here)), ("here", _missing(here, there))):
        if names:
            shown, more = ", ".join(names[:NAMES_MOST]), len(names) - NAMES_MOST
            lines.append(f"environment variables set only {where}: {shown}{f' and {more} more' if more > 0 else ''}")
    return lines


def _packages(there: ProcessFacts, here: ProcessFacts) -> Iterator[str]:
    for package, version in there.packages.items():
        own = here.packages.get(package) or _installed(package)
        if own != version:
            yield f"{package} {own or 'missing'} here, {version} there"


def _installed(package: str) -> str:
    try:
        return metadata.version(metadata.packages_distributions().get(package, [package])[0])
    except (metadata.PackageNotFoundError, ValueError):
        return ""


def _missing(one: ProcessFacts, other: ProcessFacts) -> list[str]:
    """Return the variables that are set in `one` only. Names after the end of a cut list are not compared."""
    end = other.variables[-1] if other.omitted and other.variables else None
    known = {*other.variables}
    return [name for name in one.variables if name not in known and (end is None or name <= end)]
