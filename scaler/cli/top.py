"""scaler_top: watch a cluster in the terminal."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from scaler.cli import options
from scaler.cli.terminal import drop_output, ends_in_order, fail, say, say_lines
from scaler.config import ConfigError
from scaler.monitor import report
from scaler.monitor.record import record, summary_of
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.top.frame import silence_advice
from scaler.monitor.top.print_once import as_json, listen, page
from scaler.monitor.top.program import TOPICS, TopProgram
from scaler.monitor.top.screen import Screen, can_show
from scaler.texts import escaped

DESCRIPTION = """\
Watch what a cluster does: its scheduler, workers, functions, clients and failures. It changes nothing.
Press ? for help and q to quit. If the output is not a terminal, it prints one page.
"""
EXAMPLES = """\
examples:
  scaler_top tcp://127.0.0.1:2345                    the scheduler's address, on its machine
  scaler_top ipc:///tmp/127.0.0.1_2345_monitor       the monitor address that scaler_scheduler prints
  scaler_top tcp://127.0.0.1:2345 --once             one page
  scaler_top tcp://127.0.0.1:2345 --once --json      one page for programs; exit code 1 if the scheduler does not answer
  scaler_top tcp://127.0.0.1:2345 --trace run.json --seconds 30    a trace for ui.perfetto.dev
"""
_SECONDS = options.seconds(0.1, 3600)
TRACE_SECONDS = 10.0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = options.new_parser("scaler_top", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "address",
        metavar="MONITOR_ADDRESS",
        nargs="?",
        default=os.environ.get("SCALER_ADDRESS"),
        help="the address of the monitor stream, or of the scheduler (default: the variable SCALER_ADDRESS)",
    )
    parser.add_argument(
        "-t",
        "--timeout",
        type=_SECONDS,
        default=5.0,
        metavar="SECONDS",
        help="after this time without a message, show what to check (default: 5)",
    )
    options.add_trust(parser)
    parser.add_argument("--once", action="store_true", help="print one page and end")
    parser.add_argument("--json", action="store_true", help="with --once: print it as JSON")
    parser.add_argument("--trace", metavar="FILE", help="record the tasks of some seconds, for ui.perfetto.dev")
    parser.add_argument(
        "--seconds",
        type=_SECONDS,
        metavar="N",
        help="with --trace: how long to record, from the first message (default: 10; Ctrl-C ends it earlier)",
    )
    return parser


@ends_in_order
def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        arguments.address = arguments.address or options.address_in(arguments.key_file)
    except ConfigError as error:
        parser.error(str(error))
    if not arguments.address:
        parser.error(
            "the address of the scheduler is required: give it as an argument, as SCALER_ADDRESS, or in --key-file"
        )
    if arguments.json and not arguments.once:
        parser.error("--json is for one page: add --once")
    if arguments.seconds is not None and not arguments.trace:
        parser.error("--seconds is for a trace: add --trace FILE")
    try:
        subscriber = Subscriber(
            arguments.address,
            {*TOPICS, *(report.TOPICS if arguments.json else ())},
            key_file=arguments.key_file,
            trust_users=arguments.trust_users,
        )
    except ConfigError as error:
        parser.error(str(error))
    try:
        status = _watch(subscriber, arguments)
        sys.stdout.flush()
        sys.exit(escaped(status, "\n") if isinstance(status, str) else status)
    except BrokenPipeError:
        raise  # handled by `ends_in_order`
    except OSError as error:
        drop_output()
        fail("scaler_top", f"the output cannot be written: {error.strerror or error}")
    finally:
        subscriber.close()


def _watch(subscriber: Subscriber, arguments: argparse.Namespace) -> str | int:
    if arguments.trace:
        return _record(subscriber, arguments)
    is_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    if arguments.once or not is_terminal:
        return _print_once(subscriber, arguments)
    kind = os.environ.get("TERM", "")
    if not can_show(kind):
        return (
            f"scaler_top: a terminal {kind!r} cannot show a changing screen. Set TERM to its type, such as "
            f"xterm, or print one page: scaler_top {arguments.address} --once"
        )
    TopProgram(subscriber, Screen(), arguments.timeout).run()
    return 0


def _record(subscriber: Subscriber, arguments: argparse.Namespace) -> str | int:
    trace = record(subscriber, arguments.seconds or TRACE_SECONDS, first_seconds=arguments.timeout)
    if not trace.received:
        advice = "\n".join(silence_advice(subscriber.endpoint, subscriber.problem))
        return f"scaler_top: no message from {subscriber.endpoint}.\n{advice}"
    try:
        trace.write(arguments.trace)
    except OSError as error:
        return f"scaler_top: the trace cannot be written: {error}"
    say(summary_of(trace, arguments.trace))
    return 0


def _print_once(subscriber: Subscriber, arguments: argparse.Namespace) -> str | int:
    model = listen(subscriber, arguments.timeout)
    if model is None:
        advice = "\n".join(silence_advice(subscriber.endpoint, subscriber.problem))
        seconds = "" if subscriber.problem else f" for {arguments.timeout:g} s"
        return f"scaler_top: no message from {subscriber.endpoint}{seconds}.\n{advice}"
    if arguments.json:
        say_lines(as_json(model))
    else:
        is_unicode = "utf" in (sys.stdout.encoding or "").lower()
        say_lines(page(model, subscriber.endpoint, shutil.get_terminal_size((100, 24)).columns, is_unicode))
    return 0


if __name__ == "__main__":
    main()
