"""scaler_jobs: the command that shows, awaits, ends and transfers jobs, at a scheduler or in its folder of jobs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from scaler.cli import options
from scaler.cli.terminal import fail, say
from scaler.client import lifetime
from scaler.client.jobs.job import Job
from scaler.client.jobs.questions import Info, ask, read_info
from scaler.client.link.requests import JobQuestion
from scaler.client.link.thread import LinkThread
from scaler.config import ConfigError, whole_path
from scaler.errors import ScalerError
from scaler.jobs.folder import UNREADABLE, JobFolder, job_places, read_jobs
from scaler.jobs.record import OPEN, JobRecord, Summary
from scaler.keys.private_files import check_private_folder
from scaler.monitor import units
from scaler.pickling.serialization import DEFAULT_SERIALIZER
from scaler.texts import NAME_CHARACTERS, printable
from scaler.wire.messages.client import JobVerb

DESCRIPTION = """\
Show the jobs of a scheduler (scaler_scheduler --keep FOLDER), wait for them, and end them. With --file the command
reads the folder itself, with or without a running scheduler. Only `give` changes it, and only while no scheduler runs.
"""
EPILOG = """\
examples:
  scaler_jobs tcp://127.0.0.1:2345 list                a line for each job: rows, done and failed ones, bytes
  scaler_jobs tcp://127.0.0.1:2345 show prices         progress, versions and the first failures
  scaler_jobs tcp://127.0.0.1:2345 wait prices         wait for its end; exit code 1 unless all rows are done
  scaler_jobs tcp://127.0.0.1:2345 results prices --start 100    a line for each row, from row 100 on
  scaler_jobs tcp://127.0.0.1:2345 give bob/prices alice    transfer a job of bob to alice; admins only
  scaler_jobs --file /var/lib/scaler list              list jobs without a scheduler
  scaler_jobs --file /var/lib/scaler check             read all values, report damage; exit code 1 if there is any
  scaler_jobs --file /var/lib/scaler give bob/prices alice    transfer a job while no scheduler uses the folder

Only `results` unpickles values: it imports the modules that they need, and prints their repr().
"""
HEAD = ("JOB", "OWNER", "FUNCTION", "STATE", "ROWS", "DONE", "FAILED", "BYTES", "CHANGED")
SHOWN_FAILURES = 20

NO_SCHEDULER_SECONDS = 10.0
"""How long the command waits for a scheduler that does not answer."""

TEXTS = {
    "list": "show a line for each job",
    "check": "read all values, and report damage; with --file only",
    "show": "show the progress of a job, and its first failures",
    "wait": "wait for the end of a job",
    "results": "print the results in row order, each as soon as it is available",
    "retry": "run failed rows again, and resume a cancelled or stopped job",
    "cancel": "cancel a job; results of ended rows are kept",
    "forget": "cancel a job, and delete its results",
    "give": "transfer a job that is not running to another owner, as an admin, or with --file",
}
NEEDS_SCHEDULER = "{} needs a scheduler: name its address before it instead of --file"
WITHOUT_NAME = ("list", "check")


def make_parser(is_of_files: bool = False) -> argparse.ArgumentParser:
    """Return the parser of arguments. `is_of_files`: whether a folder is given instead of an address."""
    parser = options.new_parser("scaler_jobs", DESCRIPTION, EPILOG)
    parser.add_argument("--file", metavar="FOLDER", type=Path, help="the folder where a scheduler keeps its jobs")
    if is_of_files:
        parser.set_defaults(address=None)
    else:
        parser.add_argument("address", metavar="ADDRESS", nargs="?", type=_address, help="the address of the scheduler")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in TEXTS.items():
        part = commands.add_parser(name, help=text)
        if name not in WITHOUT_NAME:
            part.add_argument("name", metavar="NAME", help="the name of the job; an admin may write OWNER/NAME")
        if name == "give":
            part.add_argument("owner", metavar="OWNER", help="the new owner, as named in the list of keys")
        if name == "results":
            part.add_argument("--start", type=_row, default=0, metavar="ROW", help="the first row (default: 0)")
        if name == "wait":
            part.add_argument("--timeout", type=float, metavar="SECONDS", help="the longest wait (default: no limit)")
        if name != "check":
            options.add_trust(part)
    return parser


def _address(text: str) -> str:
    if text in TEXTS:
        raise argparse.ArgumentTypeError(NEEDS_SCHEDULER.format(text))
    return text


def _row(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"it must be the number of a row, from 0 on, not {text!r}")
    return int(text)


def main(argv: list[str] | None = None) -> None:
    """Run the command, and exit."""
    words = sys.argv[1:] if argv is None else argv
    is_of_files = any(each.partition("=")[0] == "--file" for each in words)
    parser = make_parser(is_of_files and not any("://" in each for each in words))
    if any("://" in word for word in words) and not {*words} & {*TEXTS, "-h", "--help", "--version"}:
        parser.error(f"name a command after the address: {', '.join(each for each in TEXTS if each != 'check')}")
    arguments = parser.parse_args(words)
    if (arguments.file is None) is (arguments.address is None):
        parser.error("name either the address of a scheduler, or a folder with --file")
    if arguments.file is None and arguments.command == "check":
        parser.error("check reads the files: name their folder with --file")
    if arguments.file is not None and arguments.command not in _OF_FILES:
        parser.error(NEEDS_SCHEDULER.format(arguments.command))
    try:
        if arguments.file is not None:
            sys.exit(_OF_FILES[arguments.command](whole_path(arguments.file), arguments))
        place, key_file = lifetime.place_of(arguments.address, arguments.key_file)
        link = lifetime.new_link(str(place), (NO_SCHEDULER_SECONDS, 2.0), key_file, trust_users=arguments.trust_users)
        try:
            sys.exit(_COMMANDS[arguments.command](link, arguments))
        finally:
            link.close(0)
    except (ConfigError, ScalerError, TimeoutError) as error:
        fail("scaler_jobs", error)
    except OSError as error:
        fail("scaler_jobs", f"{error.filename or ''}: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def line_of(info: Info) -> tuple[str, ...]:
    """Return the texts of the columns for a job."""
    shown = info["state"] if info["state"] != OPEN or info["sealed"] else "not all rows submitted"
    numbers = (f"{info[count]:,}" for count in ("rows", "done", "failed"))
    size, changed = units.size(info["bytes"]).strip(), units.ago(time.time() - info["changed"])
    return info["name"], info["owner"], info["function"], shown, *numbers, size, changed


def show(lines: Iterable[tuple[str, ...]]) -> None:
    """Print lines as a table."""
    table = [HEAD, *(tuple(printable(text, NAME_CHARACTERS) for text in line) for line in lines)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD))]
    for line in table:
        texts = [
            text.ljust(width) if at < 4 or at == 8 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(texts).rstrip())


# At a scheduler


def _job(link: LinkThread, name: str) -> Job:
    return Job(name, link, DEFAULT_SERIALIZER, read_info(ask(link, JobQuestion(JobVerb.SHOW, name))))


def _list(link: LinkThread, _arguments: argparse.Namespace) -> int:
    everybodys = JobQuestion(JobVerb.LIST, "", amount=1)
    show(line_of(info) for info in read_info(ask(link, everybodys)))
    return 0


def _show(link: LinkThread, arguments: argparse.Namespace) -> int:
    job = _job(link, arguments.name)
    found = job.progress()
    say(f"{job.name}: {found.state}{found.reason and f', {found.reason}'}")
    open_rows = found.rows - found.done - found.failed
    say(f"{found.rows:,} rows: {found.done:,} done, {found.failed:,} failed, {open_rows:,} open")
    if found.state == OPEN and not found.all_rows_known:
        say("not all rows were submitted: run its program again")
    if found.seconds:
        took, each = (1e6 * found.seconds / number for number in (1, found.rows - open_rows))
        say(f"rows have run for {units.duration(took)}, {units.duration(each)} each")
    say(f"{units.size(found.size_bytes).strip()} on disk")
    for number, ended, program, created in job.versions():
        rows = f"{ended:,} row{'s' * (ended != 1)}"
        say(f"  version {number + 1}: {rows} ended; made by {program}, {units.ago(time.time() - created).strip()} ago")
    for row, text in job.headlines(SHOWN_FAILURES):
        say(f"  row {row}: {text}")
    if found.failed > SHOWN_FAILURES:
        say(f"  and {found.failed - SHOWN_FAILURES:,} more")
    return 0


def _wait(link: LinkThread, arguments: argparse.Namespace) -> int:
    found = _job(link, arguments.name).wait(arguments.timeout)
    say(f"{arguments.name}: {found.state}, {found.done:,} of {found.rows:,} rows done, {found.failed:,} failed")
    return int(found.done < found.rows)


def _results(link: LinkThread, arguments: argparse.Namespace) -> int:
    for value in _job(link, arguments.name).results(arguments.start, return_exceptions=True):
        first, *more = repr(value).split("\n")
        say(first)
        for line in more:
            say(f"  {line}")
    return 0


def _do(link: LinkThread, arguments: argparse.Namespace) -> int:
    getattr(_job(link, arguments.name), arguments.command)()
    return 0


def _give(link: LinkThread, arguments: argparse.Namespace) -> int:
    ask(link, JobQuestion(JobVerb.GIVE, arguments.name, body=arguments.owner.encode()))
    return 0


_COMMANDS: dict[str, Callable[[LinkThread, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "wait": _wait,
    "results": _results,
    **dict.fromkeys(("retry", "cancel", "forget"), _do),
    "give": _give,
}


# In a folder


def _list_files(folder: Path, _arguments: argparse.Namespace) -> int:
    found = list(read_jobs(folder))
    show(line_of(each.info()) for _, each in found if isinstance(each, Summary))
    damaged = [(place, each) for place, each in found if not isinstance(each, Summary)]
    for place, error in damaged:
        say(f"{place} cannot be read: {error}", sys.stderr)
    return int(bool(damaged))


def _check(folder: Path, _arguments: argparse.Namespace) -> int:
    n_problems = n_jobs = 0
    for _ in read_jobs(folder):
        n_jobs += 1
    for place in job_places(folder):
        for problem in _problems(place):
            n_problems += 1
            say(f"{place}: {problem}")
    say(f"{n_jobs} jobs, {n_problems or 'no'} problems; nothing was changed")
    return int(n_problems > 0)


def _problems(place: Path) -> list[str]:
    try:
        record = JobRecord.open(place, writing=False)
    except UNREADABLE as error:
        return [f"it cannot be read: {error}"]
    try:
        return record.problems()
    except UNREADABLE as error:
        return [f"it cannot be read completely: {error}; {record.done + record.failed:,} rows have ended"]
    finally:
        record.close()


def _give_files(folder: Path, arguments: argparse.Namespace) -> int:
    owner, _, name = arguments.name.partition("/")
    if not (owner and name):
        raise ConfigError(f"name the owner, too: OWNER/NAME instead of {arguments.name!r}")
    check_private_folder(folder, "folder of jobs")
    jobs = JobFolder(folder)
    try:
        place = jobs.place_of(owner, name)
        if not place.is_dir():
            raise ConfigError(f"there is no job {name!r} of {owner} in {folder}")
        given = jobs.give(jobs.open(place), arguments.owner)
        say(f"{given.terms.name}: transferred to {given.terms.owner}")
    except UNREADABLE as error:
        raise ConfigError(f"the job {arguments.name!r} cannot be transferred: {error}") from None
    finally:
        jobs.close()
    return 0


_OF_FILES: dict[str, Callable[[Path, argparse.Namespace], int]] = {
    "list": _list_files,
    "check": _check,
    "give": _give_files,
}


if __name__ == "__main__":
    main()
