"""scaler_cluster, also called scaler_worker: run one agent and its workers in the foreground."""

from __future__ import annotations

import argparse
import sys

from scaler.cli.options import HelpFormatter, add_logging_options, checked, event_loop, logging_config
from scaler.cluster import usable_cores
from scaler.config import ClusterConfig, ConfigError
from scaler.process.logs import set_up_logging
from scaler.worker.agent import run_agent

EXAMPLES = """\
examples:
  scaler_cluster tcp://127.0.0.1:2345                a worker per core
  scaler_cluster tcp://10.0.0.5:2345 -n 4            four workers, for a scheduler on another machine
  scaler_cluster ipc:///tmp/scaler -wn left,right    two workers with names
"""


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
    add("-hi", "--heartbeat-interval", type=float, default=2, metavar="S", help="seconds between signs of life")
    add(
        "-ds",
        "--death-timeout-seconds",
        type=float,
        default=300,
        metavar="S",
        help="without a scheduler for so long the cluster ends itself",
    )
    add("-el", "--event-loop", type=event_loop, default="builtin", metavar="LOOP", help="builtin or uvloop")
    add("-it", "--io-threads", type=int, default=1, metavar="N", help="threads for the network")
    add_logging_options(parser, ("--logging-config-file",))
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; ends the process."""
    parser = make_parser()
    options = parser.parse_args(argv)
    config = checked(
        parser,
        lambda: ClusterConfig(
            address=options.address,
            n_workers=options.num_of_workers
            if options.num_of_workers is not None
            else len(options.worker_names) or usable_cores(),
            worker_names=options.worker_names,
            io_threads=options.io_threads,
            heartbeat_interval_seconds=options.heartbeat_interval,
            death_timeout_seconds=options.death_timeout_seconds,
            event_loop=options.event_loop,
            logging=logging_config(options),
        ),
    )
    try:
        set_up_logging(config.logging)
        code = run_agent(config)
    except ConfigError as error:
        parser.error(str(error))
    sys.exit(code)


if __name__ == "__main__":
    main()
