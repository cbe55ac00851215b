"""scaler_jobs: show, await, export, end and transfer jobs, at a scheduler or in its folder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from scaler.cli import options
from scaler.cli.export import FORMATS, ExportFile, export
from scaler.cli.terminal import TableColumn, ends_in_order, fail, say, say_table
from scaler.client import lifetime
from scaler.client.jobs.job import Job
from scaler.client.jobs.job_requests import Info, ask, read_info
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.config import ConfigError, whole_path
from scaler.errors import ScalerError
from scaler.jobs.folder import UNREADABLE, JobFolder, job_places, read_jobs
from scaler.jobs.record import OPEN, JobRecord, JobSummary
from scaler.keys.private_files import check_private_folder
from scaler.monitor import units
from scaler.pickling.serialization import DEFAULT_SERIALIZER
from scaler.texts import did_you_mean, safe_repr
from scaler.wire.messages.client import JobVerb

DESCRIPTION = """\
Show the jobs of a scheduler (scaler_scheduler --keep FOLDER), wait for them, and end them. With --file, the
commands `list`, `check` and `give` read the folder itself. Only `give` changes it, and only while no scheduler runs.
"""
EXAMPLES = """\
examples:
  scaler_jobs tcp://127.0.0.1:2345                     a line for each job: rows, done and failed ones, bytes
  scaler_jobs tcp://127.0.0.1:2345 show prices         progress, versions and the first failures
  scaler_jobs tcp://127.0.0.1:2345 wait prices         wait for its end; exit code 1 unless all rows are done
  scaler_jobs tcp://127.0.0.1:2345 results prices --start 100    a line for each row, from row 100 on
  scaler_jobs tcp://127.0.0.1:2345 export prices prices.csv    a table with a line for each row that has ended
  scaler_jobs tcp://127.0.0.1:2345 give bob/prices alice    transfer a job of bob to alice; for admins
  scaler_jobs --file /var/lib/scaler/jobs              list jobs without a scheduler
  scaler_jobs --file /var/lib/scaler/jobs check        read all values, report damage; exit code 1 if there is any
  scaler_jobs --file /var/lib/scaler/jobs give bob/prices alice    transfer a job while no scheduler uses the folder

NAME is the name of a job; an admin may write OWNER/NAME. Options may stand before and after the other words.

`export` writes one line for each row that has ended: JSON if the name FILE ends in .jsonl, such as
{"row": 0, "status": "done", "value": 1.5}; or the line of a table if FILE ends in .csv. The table has a column for each
item of the first value, if this value is a dict, a dataclass or a tuple. `export` does not wait for open rows: if the
job has any, the exit code is 1. FILE may be - for the standard output.

`results` and `export` unpickle values. So they import the modules that the values need, and run code of these modules.
"""
COLUMNS = (
    TableColumn("JOB", least=12),
    TableColumn("OWNER", least=8, rank=3),
    TableColumn("FUNCTION", least=8, rank=1),
    TableColumn("STATE", least=8),
    TableColumn("ROWS", is_number=True),
    TableColumn("DONE", is_number=True),
    TableColumn("FAILED", is_number=True),
    TableColumn("BYTES", is_number=True, rank=2),
    TableColumn("CHANGED", rank=4),
)
SHOWN_FAILURES = 20

GOODBYE_SECONDS = 2.0
"""The longest wait for the connection to end in order. Without the wait, the scheduler would log a lost connection."""

NO_SCHEDULER_SECONDS = 10.0
"""The longest wait for a scheduler that does not answer."""

SECONDS_MOST = 1e9
"""The largest value of `--timeout`, in seconds."""

NEEDS_SCHEDULER = "{} needs a scheduler: name its address before it{}"
OPTIONS_OF = {"start": "results", "timeout": "wait", "format": "export", "force": "export"}
"""By option: the command that takes the option."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of arguments. It only collects the words of the command; `read_arguments` interprets them."""
    lines = (f"  {' '.join((name, *each.words)):22} {each.text}" for name, each in COMMANDS.items())
    commands = "\n".join(("commands:", *lines, "Without a command, jobs are listed.", ""))
    parser = options.new_parser("scaler_jobs", DESCRIPTION, f"{commands}\n{EXAMPLES}")
    parser.usage = "%(prog)s [options] (ADDRESS | --file FOLDER) [COMMAND [NAME ...]]"
    parser.add_argument("words", metavar="WORD", nargs="*", help="the address of the scheduler, then the command")
    parser.add_argument(
        "--file", dest="folder", metavar="FOLDER", type=Path, help="the folder where a scheduler keeps its jobs"
    )
    options.add_trust(parser)
    parser.add_argument("--start", type=_row, metavar="ROW", help="results: the first row (default: 0)")
    parser.add_argument(
        "--timeout",
        type=options.seconds(0, SECONDS_MOST),
        metavar="SECONDS",
        help="wait: the longest wait (default: without a limit)",
    )
    parser.add_argument(
        "--format", choices=[*FORMATS], help="export: format (default: by the file name; jsonl for standard output)"
    )
    parser.add_argument("--force", action="store_const", const=True, help="export: replace an existing file")
    return parser


def _row(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"the number of a row is 0 or greater, not {text!r}")
    return int(text)


def read_arguments(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Return the options, the address or None, the command, and its arguments by their names in lower case.

    Invalid arguments end the command with exit code 2.
    """
    arguments = parser.parse_intermixed_args(argv)
    words: list[str] = arguments.words
    arguments.address = None
    if arguments.folder is None:
        if not words or words[0] in COMMANDS:
            needs = NEEDS_SCHEDULER.format(words[0], "") if words else "name the address of a scheduler"
            in_folder = not words or COMMANDS[words[0]].run_in_folder
            parser.error(f"{needs}, or a folder with --file" if in_folder else needs)
        arguments.address = words.pop(0)
    elif words and "://" in words[0]:
        parser.error("name either the address of a scheduler, or a folder with --file")
    arguments.command, *names = words or ["list"]
    command = COMMANDS.get(arguments.command)
    if command is None:
        similar = did_you_mean(arguments.command, COMMANDS)
        parser.error(f"{arguments.command!r} is not a command: choose from {', '.join(COMMANDS)}{similar}")
    if len(names) != len(command.words):
        usage = " ".join((arguments.command, *command.words))
        parser.error(f"write {usage}, not {' '.join((arguments.command, *names))}")
    vars(arguments).update((word.lower(), name) for word, name in zip(command.words, names, strict=True))
    _check(parser, arguments, command)
    return arguments


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace, command: _Command) -> None:
    """Refuse a command if the scheduler or the folder that it needs is missing. Refuse options of other commands."""
    if arguments.folder is None and command.run is None:
        parser.error(f"{arguments.command} reads the files: name their folder with --file")
    if arguments.folder is not None and command.run_in_folder is None:
        parser.error(NEEDS_SCHEDULER.format(arguments.command, " instead of --file"))
    for option, owner in OPTIONS_OF.items():
        if getattr(arguments, option) is not None and arguments.command != owner:
            parser.error(f"--{option} is an option of {owner}, not of {arguments.command}")


@ends_in_order
def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    parser = make_parser()
    arguments = read_arguments(parser, argv)
    try:
        sys.exit(_run(COMMANDS[arguments.command], arguments))
    except (ConfigError, ScalerError, TimeoutError) as error:
        fail("scaler_jobs", error)
    except BrokenPipeError:
        raise  # handled by `ends_in_order`
    except OSError as error:
        fail("scaler_jobs", ": ".join(filter(None, (error.filename, error.strerror or str(error)))))


def _run(command: _Command, arguments: argparse.Namespace) -> int:
    if arguments.folder is not None:
        assert command.run_in_folder is not None
        return command.run_in_folder(whole_path(arguments.folder), arguments)
    assert command.run is not None
    place, key_file = lifetime.place_of(arguments.address, arguments.key_file)
    link = lifetime.new_link(str(place), (NO_SCHEDULER_SECONDS, 2.0), key_file, trust_users=arguments.trust_users)
    try:
        return command.run(link, arguments)
    finally:
        link.close(GOODBYE_SECONDS)


def line_of(info: Info) -> tuple[str, ...]:
    """Return the texts of the columns for a job."""
    shown = info["state"] if info["state"] != OPEN or info["sealed"] else "not all rows submitted"
    numbers = (f"{info[count]:,}" for count in ("rows", "done", "failed"))
    size, changed = units.size(info["bytes"]).strip(), units.ago(time.time() - info["changed"])
    return info["name"], info["owner"], info["function"], shown, *numbers, size, changed


# At a scheduler


def _job(link: ClientLink, name: str) -> Job:
    return Job(name, link, DEFAULT_SERIALIZER, read_info(ask(link, JobQuestion(JobVerb.SHOW, name))))


def _list(link: ClientLink, _arguments: argparse.Namespace) -> int:
    everybodys = JobQuestion(JobVerb.LIST, "", amount=1)
    say_table(COLUMNS, map(line_of, read_info(ask(link, everybodys))))
    return 0


def _show(link: ClientLink, arguments: argparse.Namespace) -> int:
    job = _job(link, arguments.name)
    found = job.progress()
    say(f"{job.name}: {found.state}{found.reason and f', {found.reason}'}")
    open_rows = found.rows - found.done - found.failed
    say(f"{found.rows:,} rows: {found.done:,} done, {found.failed:,} failed, {open_rows:,} open")
    if open_rows:
        say(f"{found.handed_out:,} handed out, {found.running:,} running")
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


def _wait(link: ClientLink, arguments: argparse.Namespace) -> int:
    found = _job(link, arguments.name).wait(arguments.timeout)
    say(f"{arguments.name}: {found.state}, {found.done:,} of {found.rows:,} rows done, {found.failed:,} failed")
    return int(found.done < found.rows)


def _results(link: ClientLink, arguments: argparse.Namespace) -> int:
    for value in _job(link, arguments.name).results(arguments.start or 0, return_exceptions=True):
        first, *more = safe_repr(value).split("\n")
        say(first)
        for line in more:
            say(f"  {line}")
    return 0


def _do(link: ClientLink, arguments: argparse.Namespace) -> int:
    getattr(_job(link, arguments.name), arguments.command)()
    return 0


def _give(link: ClientLink, arguments: argparse.Namespace) -> int:
    ask(link, JobQuestion(JobVerb.GIVE, arguments.name, body=arguments.owner.encode()))
    return 0


def _export(link: ClientLink, arguments: argparse.Namespace) -> int:
    target = ExportFile.of(arguments.file, arguments.format, replaces=bool(arguments.force))
    return export(_job(link, arguments.name), target)


# In a folder


def _list_files(folder: Path, _arguments: argparse.Namespace) -> int:
    found = list(read_jobs(folder))
    say_table(COLUMNS, [line_of(each.info()) for _, each in found if isinstance(each, JobSummary)])
    damaged = [(place, each) for place, each in found if not isinstance(each, JobSummary)]
    for place, error in damaged:
        say(f"{place} cannot be read: {error}", sys.stderr)
    return int(bool(damaged))


def _check_files(folder: Path, _arguments: argparse.Namespace) -> int:
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


class _Command(NamedTuple):
    """A command of `scaler_jobs`, with its description (`text`) and the names of its arguments (`words`).

    Attributes:
        run: runs the command at a scheduler; None if the command needs a folder.
        run_in_folder: runs the command in a folder of jobs; None if the command needs a scheduler.
    """

    text: str
    words: tuple[str, ...] = ()
    run: Callable[[ClientLink, argparse.Namespace], int] | None = None
    run_in_folder: Callable[[Path, argparse.Namespace], int] | None = None


COMMANDS = {
    "list": _Command("show a line for each job", (), _list, _list_files),
    "show": _Command("show the progress of a job, and its first failures", ("NAME",), _show),
    "wait": _Command("wait for the end of a job", ("NAME",), _wait),
    "results": _Command("print the results in row order, each as soon as it is available", ("NAME",), _results),
    "export": _Command("write the rows that have ended into a file", ("NAME", "FILE"), _export),
    "retry": _Command("run failed rows again, and resume a cancelled or stopped job", ("NAME",), _do),
    "cancel": _Command("cancel a job, and keep the results of ended rows", ("NAME",), _do),
    "forget": _Command("cancel a job, and delete its results", ("NAME",), _do),
    "give": _Command(
        "transfer a stopped job to another owner, as an admin or with --file",
        ("NAME", "OWNER"),
        _give,
        _give_files,
    ),
    "check": _Command("read all values, and report damage; with --file only", (), None, _check_files),
}


if __name__ == "__main__":
    main()
