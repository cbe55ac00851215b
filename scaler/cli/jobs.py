"""scaler_jobs: look at jobs: what a scheduler keeps in its folder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from scaler.config import ConfigError
from scaler.jobs.folder import UNREADABLE, job_places, read_jobs
from scaler.jobs.record import OPEN, JobRecord, Summary
from scaler.monitor import units
from scaler.version import __version__

DESCRIPTION = """\
Look at the jobs that a scheduler keeps in a folder. With --file the folder itself is read: no
scheduler need run, and one that runs is not disturbed. Nothing is changed, and no value is unpickled.
"""
EPILOG = """\
examples:
  scaler_jobs --file /var/lib/scaler list      a line for each job: rows, how many are done and failed, bytes, age
  scaler_jobs --file /var/lib/scaler check     reads all, and says what is damaged; exit code 1 if anything is
"""
HEAD = ("JOB", "OWNER", "FUNCTION", "STATE", "ROWS", "DONE", "FAILED", "BYTES", "CHANGED")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        "scaler_jobs", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "--file", metavar="FOLDER", type=Path, required=True, help="the folder where a scheduler keeps its jobs"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("list", help="show all jobs, a line for each")
    commands.add_parser("check", help="read all, and say what is damaged")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; ends the process."""
    arguments = make_parser().parse_args(argv)
    try:
        sys.exit({"list": _list, "check": _check}[arguments.command](arguments.file.expanduser()))
    except ConfigError as error:
        sys.exit(f"scaler_jobs: {error}")
    except OSError as error:
        sys.exit(f"scaler_jobs: {error.filename or ''}: {error.strerror or error}")


def line_of(summary: Summary) -> tuple[str, ...]:
    """Return what is shown of a job."""
    terms = summary.terms
    state = summary.state if summary.state != OPEN or summary.is_sealed else "not all rows are here"
    counts = (f"{summary.rows:,}", f"{summary.done:,}", f"{summary.failed:,}", units.size(summary.size_bytes).strip())
    return terms.name, terms.owner, terms.function, state, *counts, units.ago(time.time() - summary.changed)


def show(lines: Iterable[tuple[str, ...]]) -> None:
    """Print lines as a table."""
    table = [HEAD, *lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD))]
    for line in table:
        texts = [text.ljust(width) if at < 4 or at == 8 else text.rjust(width)
                 for at, (text, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        print("  ".join(texts).rstrip())


def _list(folder: Path) -> int:
    found = list(read_jobs(folder))
    show(line_of(each) for _, each in found if isinstance(each, Summary))
    damaged = [(place, each) for place, each in found if not isinstance(each, Summary)]
    for place, error in damaged:
        print(f"{place} cannot be read: {error}", file=sys.stderr)
    return int(bool(damaged))


def _check(folder: Path) -> int:
    n_problems = n_jobs = 0
    for _ in read_jobs(folder):
        n_jobs += 1
    for place in job_places(folder):
        for problem in _problems(place):
            n_problems += 1
            print(f"{place}: {problem}")
    print(f"{n_jobs} jobs, {n_problems or 'no'} problems; nothing was changed")
    return int(n_problems > 0)


def _problems(place: Path) -> list[str]:
    try:
        record = JobRecord.open(place, writing=False)
    except UNREADABLE as error:
        return [f"it cannot be read: {error}"]
    try:
        return record.problems()
    except UNREADABLE as error:
        return [f"it cannot be read to its end: {error}; {record.done + record.failed:,} rows have ended"]
    finally:
        record.close()


if __name__ == "__main__":
    main()
