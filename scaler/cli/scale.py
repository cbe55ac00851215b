"""scaler_scale: start clusters when a scheduler has work for more workers, and drain idle clusters."""

from __future__ import annotations

import argparse
import math
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from scaler.amounts import read_amounts
from scaler.cli import options
from scaler.cli.terminal import ends_in_order, say
from scaler.config import ConfigError, check_address, whole_path
from scaler.keys.key_file import ADMIN, KeyFile
from scaler.monitor.model.remaining import TARGET_SECONDS
from scaler.monitor.subscriber import Subscriber
from scaler.scaling.clusters import Clusters
from scaler.scaling.plan import Bounds
from scaler.scaling.pool import ClusterPool
from scaler.scaling.program import TOPICS, ScaleProgram
from scaler.scaling.scaling_client import ScalingClient

DESCRIPTION = """\
Start clusters with a command of yours when a scheduler has work for more workers, and drain them when they are idle.
The command runs for as long as its cluster. In it, {address} is the address of the scheduler, {n} the number of workers
(--each) and {names} their names, which are also in SCALER_WORKER_NAMES. A cluster that is drained finishes its running
tasks, and ends. Clusters that were not started by a scaler_scale are counted, but never drained. A scaler_scale takes
over the clusters of one that has ended. Ctrl-C drains all clusters of this scaler_scale.
"""
EXAMPLES = """\
examples:
  scaler_scale tcp://10.0.0.1:2345 --max 16 --each 4 --up "scaler_cluster {address} --drain 600"
  scaler_scale tcp://10.0.0.1:2345 --min 2 --max 64 --each 16 --up "srun -c 16 scaler_cluster {address} --drain 30"
  scaler_scale tcp://10.0.0.1:2345 --max 8 --up "ssh node7 scaler_cluster {address} -wn {names}"
"""
WORKERS_MOST = 1_000_000
_SECONDS = options.seconds(0.1, 1e6)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    workers_or_none = partial(_workers, least=0)
    parser = options.new_parser("scaler_scale", DESCRIPTION, EXAMPLES)
    parser.add_argument("address", metavar="ADDRESS", help="the address of the scheduler")
    parser.add_argument(
        "-ma", "--monitor-address", help="the address of the monitor stream, if the scheduler runs on another machine"
    )
    options.add_trust(parser, "it must be the key of an admin")
    parser.add_argument("--up", required=True, metavar="COMMAND", help="the command that starts a cluster")
    parser.add_argument(
        "--each", type=_workers, default=1, metavar="N", help="the number of workers of each cluster (default: 1)"
    )
    parser.add_argument(
        "--capabilities",
        default="",
        metavar="NAME=N,...",
        help="the capabilities that the command gives each cluster; tasks that request others are not counted",
    )
    parser.add_argument("--only-asked", action="store_true", help="count only tasks that request capabilities")
    parser.add_argument(
        "--min", type=workers_or_none, default=0, metavar="N", help="the least number of workers (default: 0)"
    )
    parser.add_argument("--max", type=_workers, required=True, metavar="N", help="the greatest number of workers")
    _add_times(parser)
    return parser


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--down-idle",
        type=_SECONDS,
        default=60.0,
        metavar="SECONDS",
        help="drain a cluster that has had no task for this time (default: 60)",
    )
    parser.add_argument(
        "--target",
        type=_SECONDS,
        default=TARGET_SECONDS,
        metavar="SECONDS",
        help=f"the time in which the open work should be done (default: {TARGET_SECONDS:g})",
    )
    parser.add_argument(
        "--start-timeout",
        type=_SECONDS,
        default=math.inf,
        metavar="SECONDS",
        help="end a command if its workers do not connect within this time (default: never)",
    )


def _workers(text: str, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) <= WORKERS_MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number between {least} and {WORKERS_MOST}")
    return int(text)


def _say(text: str) -> None:
    say(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _check_admin(file: Path) -> None:
    """Raise `ConfigError` unless the key file contains the key of an admin, because only admins may drain clusters."""
    key = KeyFile.read(whole_path(file))
    if key.role != ADMIN:
        raise ConfigError(f"{key.path} is the key of a {key.role}, and only an admin may drain clusters")


@ends_in_order
def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.min > arguments.max:
        parser.error(f"--min {arguments.min} is more than --max {arguments.max}")
    if arguments.each > arguments.max:
        parser.error(f"one cluster has --each {arguments.each} workers, more than --max {arguments.max}")
    bounds = Bounds(arguments.min, arguments.max, arguments.each, arguments.down_idle, arguments.start_timeout)
    with ExitStack() as stack:
        try:
            endpoint = check_address(arguments.address).trusting(arguments.trust_users)
            amounts = read_amounts(arguments.capabilities.split(",") if arguments.capabilities else ())
            pool = ClusterPool(arguments.each, amounts, is_only_asked=arguments.only_asked)
            if arguments.key_file:
                _check_admin(Path(arguments.key_file))
            owner = ScalingClient(endpoint.with_key(arguments.key_file))
            stack.callback(owner.close)
            clusters = Clusters(arguments.up, endpoint.address, arguments.each, owner)
            watched = arguments.monitor_address or endpoint.address
            subscriber = Subscriber(watched, TOPICS, key_file=arguments.key_file, trust_users=arguments.trust_users)
            stack.callback(subscriber.close)
        except ConfigError as error:
            parser.error(str(error))
        ScaleProgram(subscriber, clusters, bounds, pool, arguments.target, _say).run()
    sys.exit(0)


if __name__ == "__main__":
    main()
