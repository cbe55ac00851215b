"""scaler_symphony_cluster: run one agent whose workers pass their tasks to a Symphony service, in the foreground.

Modules are imported inside of functions, because the command executes itself again before the first import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.cli.cluster import run_with
from scaler.process import hash_seed

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  scaler_symphony_cluster tcp://10.0.0.5:2345 ScalerService -n 100
  scaler_symphony_cluster tcp://10.0.0.5:2345 ScalerService -n 30 -w london
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    from scaler.cli import options
    from scaler.settings import SymphonyConfig

    return options.make_parser(
        "scaler_symphony_cluster",
        SymphonyConfig,
        "Run tasks of the scheduler at ADDRESS in the service SERVICE of IBM Spectrum Symphony. "
        "The Python module soamapi of the Symphony client must be in PYTHONPATH.",
        EXAMPLES,
    )


def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    hash_seed.restart_with_seed("scaler_symphony_cluster")
    from scaler.cli.terminal import interrupt_ends_process

    with interrupt_ends_process():
        from scaler.cli import options
        from scaler.settings import SymphonyConfig

        parser = make_parser()
        run_with(parser, options.read_settings(parser, SymphonyConfig, argv).of_cluster())


if __name__ == "__main__":
    main()
