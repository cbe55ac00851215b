"""scaler_scheduler: run a scheduler in the foreground."""

from __future__ import annotations

import argparse
import sys

from scaler.cli.options import HelpFormatter, add_logging_options, checked, event_loop, logging_config
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
    add("--io-threads", type=int, default=1, metavar="N", help="threads for the network; one does some GB/s")
    add(
        "-ct",
        "--client-timeout-seconds",
        type=float,
        default=60,
        metavar="S",
        help="a client silent for so long is dead: its tasks are cancelled",
    )
    add(
        "-wt",
        "--worker-timeout-seconds",
        type=float,
        default=60,
        metavar="S",
        help="a cluster silent for so long is dead: its tasks go to other workers",
    )
    add(
        "-qs",
        "--per-worker-queue-size",
        type=int,
        default=1000,
        metavar="N",
        help="the most tasks at one worker, the running one included",
    )
    add(
        "--crash-limit",
        type=int,
        default=3,
        metavar="N",
        help="how often a task may be running when its process dies before it fails",
    )
    add("-e", "--event-loop", type=event_loop, default="builtin", metavar="LOOP", help="builtin or uvloop")
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
    config = checked(
        parser,
        lambda: SchedulerConfig(
            address=options.address,
            io_threads=options.io_threads,
            client_timeout_seconds=options.client_timeout_seconds,
            worker_timeout_seconds=options.worker_timeout_seconds,
            per_worker_queue_size=options.per_worker_queue_size,
            crash_limit=options.crash_limit,
            protected=options.protected,
            event_loop=options.event_loop,
            logging=logging_config(options),
        ),
    )
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
