"""scaler_scheduler: run a scheduler in the foreground."""

from __future__ import annotations

import argparse
import sys

from scaler.actors.policy import LOOK_SECONDS
from scaler.cli.options import (
    HelpFormatter,
    Option,
    add_event_loop_option,
    add_logging_options,
    add_number_options,
    checked,
    make_settings,
)
from scaler.config import ConfigError, SchedulerConfig
from scaler.process.logs import set_up_logging
from scaler.scheduler.scheduler import SchedulerProcess

EXAMPLES = """\
examples:
  scaler_scheduler tcp://127.0.0.1:2345              for this machine
  scaler_scheduler ipc:///tmp/scaler                 for this machine, without a port
  scaler_scheduler tcp://0.0.0.0:2345                for a trusted network: whoever reaches the port can run code
then, in other terminals:
  scaler_cluster tcp://127.0.0.1:2345 -n 4
  python -c "from scaler import Client; print(Client('tcp://127.0.0.1:2345').submit(pow, 2, 10).result())"
"""

NUMBERS = (
    Option("io_threads", ("--io-threads",), "N", "threads for the network; one does some GB/s"),
    Option(
        "max_number_of_tasks_waiting",
        ("-mt", "--max-number-of-tasks-waiting"),
        "N",
        "refuse new tasks when so many wait and no worker has a free place; -1: refuse none",
    ),
    Option(
        "client_timeout_seconds",
        ("-ct", "--client-timeout-seconds"),
        "S",
        "a client silent for so long is dead: its tasks are cancelled",
    ),
    Option(
        "worker_timeout_seconds",
        ("-wt", "--worker-timeout-seconds"),
        "S",
        "a cluster silent for so long is dead: its tasks go to other workers",
    ),
    Option(
        "object_retention_seconds",
        ("-ot", "--object-retention-seconds"),
        "S",
        "clusters keep the functions that nobody needs any more for so long",
    ),
    Option(
        "load_balance_seconds",
        ("-ls", "--load-balance-seconds"),
        "S",
        "take waiting tasks from busy workers for idle ones at most so often; 0: never",
    ),
    Option(
        "load_balance_trigger_times",
        ("-lbt", "--load-balance-trigger-times"),
        "N",
        f"only if so many looks in a row, {LOOK_SECONDS * 1000:g} ms apart, find some idle and tasks waiting at others",
    ),
    Option(
        "per_worker_queue_size",
        ("-qs", "--per-worker-queue-size"),
        "N",
        "the most tasks at one worker, the running one included",
    ),
    Option(
        "crash_limit", ("--crash-limit",), "N", "how often a task may be running when its process dies before it fails"
    ),
)


def truth(text: str) -> bool:
    """Return the truth value of what a user typed."""
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    if text.lower() in ("false", "no", "off", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        "scaler_scheduler",
        description="Run a scheduler: clients send it tasks, and it hands them to the workers of clusters.",
        epilog=EXAMPLES,
        formatter_class=HelpFormatter,
    )
    add = parser.add_argument
    add("address", metavar="ADDRESS", help="where to listen: tcp://host:port or ipc:///path")
    add_number_options(parser, SchedulerConfig, NUMBERS)
    add_event_loop_option(parser, "-e", "--event-loop")
    add(
        "-p",
        "--protected",
        type=truth,
        nargs="?",
        const=True,
        default=True,
        metavar="BOOL",
        help="refuse clients that ask the scheduler to shut down",
    )
    add(
        "--no-protected", dest="protected", action="store_false", default=argparse.SUPPRESS, help="the same as -p False"
    )
    add_logging_options(parser, ("-lc", "--logging-config-file"))
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; ends the process."""
    parser = make_parser()
    options = parser.parse_args(argv)
    config = checked(parser, lambda: make_settings(SchedulerConfig, options))
    try:
        set_up_logging(config.logging)
        process = SchedulerProcess(config)
    except ConfigError as error:
        parser.error(str(error))
    except OSError as error:
        sys.exit(f"scaler_scheduler: {error.strerror or error}")
    sys.exit(process.run())


if __name__ == "__main__":
    main()
