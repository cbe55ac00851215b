"""scaler_engine_cluster: run one agent whose workers hand their tasks to another engine, in the foreground."""

from __future__ import annotations

import argparse

from scaler.cli import cluster, options
from scaler.executors.executor import NEEDS_PROCESSES
from scaler.settings import ClusterConfig

EXAMPLES = """\
examples:
  scaler_engine_cluster tcp://10.0.0.5:2345 --engine concurrent.futures:ProcessPoolExecutor -n 8
  scaler_engine_cluster tcp://10.0.0.5:2345 --engine my_package.pools:make_pool --concurrency 32
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = options.make_parser(
        "scaler_engine_cluster",
        ClusterConfig,
        "Take tasks from the scheduler at ADDRESS and hand them to the engine that you name: an installed one, or "
        "MODULE:FACTORY, a function that returns a concurrent.futures.Executor.",
        EXAMPLES,
        without=NEEDS_PROCESSES,
    )
    parser.add_argument("--concurrency", dest="n_workers", type=int, metavar="N", help="the same as -n")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; ends the process."""
    cluster.run(make_parser(), argv)


if __name__ == "__main__":
    main()
