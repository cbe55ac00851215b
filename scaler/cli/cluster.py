"""scaler_cluster, also called scaler_worker: run one agent and its workers in the foreground.

Modules are imported inside of functions, because the command executes itself again before the first import.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from scaler.process import hash_seed

if TYPE_CHECKING:
    import argparse

    from scaler.settings import ClusterConfig

EXAMPLES = """\
examples:
  scaler_cluster ipc://$HOME/scaler.sock             a worker per core
  scaler_cluster tcp://10.0.0.5:2345 -n 4            four workers, for a scheduler on another machine
  scaler_cluster ipc:///srv/me/s -wn left,right      two workers with names
  scaler_cluster tcp://10.0.0.5:2345 -n 8 --engine concurrent.futures:ProcessPoolExecutor
                                                     runs its tasks with that engine, eight at once
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    from scaler.cli import options
    from scaler.settings import ClusterConfig

    return options.make_parser(
        "scaler_cluster",
        ClusterConfig,
        "Run workers on this machine. Each runs one task at a time for the scheduler at ADDRESS. "
        "The scheduler may be started later.",
        EXAMPLES,
    )


def run_with(parser: argparse.ArgumentParser, config: ClusterConfig) -> NoReturn:
    """Run a cluster, and end the process."""
    from scaler.config import ConfigError
    from scaler.process.interpreter import no_collections, unblock_signals
    from scaler.process.logs import set_up_logging
    from scaler.processor.lifecycle.preparation import PreparationError
    from scaler.settings import ClusterConfig

    unblock_signals()
    with no_collections():
        if config.engine == ClusterConfig.engine:
            from scaler.processor.lifecycle import first_fork_server, fork_server  # of the usual engine alone

            first_fork_server.fork(fork_server.import_client, fork_server.serve)
        from scaler.agent.agent import run_agent  # the fork has no modules of the agent
    try:
        set_up_logging(config.logging)
        code = run_agent(config)
    except PreparationError as error:
        logging.getLogger(__name__).critical("the cluster ends: %s", error)
        code = os.EX_CONFIG
    except ConfigError as error:
        parser.error(str(error))
    sys.exit(code)


def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    hash_seed.restart_with_seed("scaler_cluster", "scaler_worker")
    from scaler.cli.terminal import interrupt_ends_process

    with interrupt_ends_process():
        from scaler.cli import options
        from scaler.settings import ClusterConfig

        parser = make_parser()
        run_with(parser, options.read_settings(parser, ClusterConfig, argv))


if __name__ == "__main__":
    main()
