"""scaler_cluster, also called scaler_worker: run one agent and its workers in the foreground."""

from __future__ import annotations

import argparse
import sys

from scaler.agent.agent import run_agent
from scaler.cli.options import (
    HelpFormatter,
    Option,
    add_event_loop_option,
    add_logging_options,
    add_number_options,
    checked,
    make_settings,
)
from scaler.cluster.cluster import usable_cores
from scaler.config import ClusterConfig, ConfigError
from scaler.process.logs import set_up_logging

EXAMPLES = """\
examples:
  scaler_cluster tcp://127.0.0.1:2345                a worker per core
  scaler_cluster tcp://10.0.0.5:2345 -n 4            four workers, for a scheduler on another machine
  scaler_cluster ipc:///tmp/scaler -wn left,right    two workers with names
"""

NUMBERS = (
    Option("heartbeat_interval_seconds", ("-hi", "--heartbeat-interval"), "S", "seconds between signs of life"),
    Option(
        "task_timeout_seconds",
        ("-tts", "--task-timeout-seconds"),
        "S",
        "a task that runs for longer is ended with TimeoutError; 0: none is",
    ),
    Option(
        "death_timeout_seconds",
        ("-ds", "--death-timeout-seconds"),
        "S",
        "without a scheduler for so long the cluster ends itself",
    ),
    Option(
        "garbage_collect_interval_seconds",
        ("-gc", "--garbage-collect-interval-seconds"),
        "S",
        "objects and functions that no task of a worker used for so long are dropped from its process",
    ),
    Option(
        "trim_memory_threshold_bytes",
        ("-tm", "--trim-memory-threshold-bytes"),
        "BYTES",
        "a process with more memory than this gives back to the system what it does not use",
    ),
    Option("io_threads", ("-it", "--io-threads"), "N", "threads for the network"),
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        "scaler_cluster",
        description="Run workers on this machine: they take tasks from the scheduler at ADDRESS, one at a time each. "
        "The scheduler may be started later.",
        epilog=EXAMPLES,
        formatter_class=HelpFormatter,
    )
    add = parser.add_argument
    add("address", metavar="ADDRESS", help="of the scheduler: tcp://host:port or ipc:///path")
    add(
        "-n",
        "--num-of-workers",
        dest="n_workers",
        type=int,
        default=None,
        metavar="N",
        help=f"how many tasks run at once (default: as many as names, else a worker per core, here {usable_cores()})",
    )
    add(
        "-wn",
        "--worker-names",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="A,B",
        help="a name per worker (default: made of host name and process id)",
    )
    add_number_options(parser, ClusterConfig, NUMBERS)
    add(
        "-hps",
        "--hard-processor-suspend",
        dest="hard_processor_suspend",
        action="store_true",
        help="stop the process of a task that waits for others (SIGSTOP) until what it waits for is there",
    )
    add(
        "--engine",
        default="processes",
        metavar="NAME",
        help="what runs the tasks: an engine that is installed here, as NAME or NAME://...",
    )
    add_event_loop_option(parser, "-el", "--event-loop")
    add_logging_options(parser, ("--logging-config-file",))
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; ends the process."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.n_workers is None:
        options.n_workers = len(options.worker_names) or usable_cores()
    config = checked(parser, lambda: make_settings(ClusterConfig, options))
    try:
        set_up_logging(config.logging)
        code = run_agent(config)
    except ConfigError as error:
        parser.error(str(error))
    sys.exit(code)


if __name__ == "__main__":
    main()
