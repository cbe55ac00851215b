"""scaler_scheduler: run a scheduler in the foreground."""

from __future__ import annotations

import argparse
import sys

from scaler.cli import options
from scaler.cli.terminal import fail, interrupt_ends_process
from scaler.config import ConfigError
from scaler.process.interpreter import unblock_signals
from scaler.process.logs import set_up_logging
from scaler.settings import SchedulerConfig

EXAMPLES = """\
examples:
  scaler_scheduler ipc://$HOME/scaler.sock           for yourself on this machine
  scaler_scheduler tcp://0.0.0.0:2345                for other machines: creates keys in ~/.scaler once, and prints
                                                     where; clusters and clients of this user find them there
  scaler_keys allow alice --role client              a key for another user
then, in other terminals:
  scaler_cluster ipc://$HOME/scaler.sock -n 4
  export SCALER_ADDRESS=ipc://$HOME/scaler.sock
  python -c "from scaler import Client; print(Client().submit(pow, 2, 10).result())"
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    return options.make_parser(
        "scaler_scheduler",
        SchedulerConfig,
        "Run a scheduler: it assigns the tasks of clients to the workers of clusters.",
        EXAMPLES,
    )


def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    unblock_signals()
    parser = make_parser()
    config = options.read_settings(parser, SchedulerConfig, argv)
    with interrupt_ends_process():
        from scaler.scheduler.scheduler import SchedulerProcess  # noqa: PLC0415 - `-h` needs no scheduler

        try:
            set_up_logging(config.logging)
            process = SchedulerProcess(config)
        except ConfigError as error:
            parser.error(str(error))
        except OSError as error:
            fail("scaler_scheduler", error.strerror or error)
        sys.exit(process.run())


if __name__ == "__main__":
    main()
