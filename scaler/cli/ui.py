"""scaler_ui: show a cluster in the browser."""

from __future__ import annotations

import argparse
import sys

from scaler.cli import options
from scaler.cli.terminal import ends_in_order, fail, say
from scaler.config import ConfigError
from scaler.settings.ui import UiConfig

EXAMPLES = """\
examples:
  scaler_ui tcp://127.0.0.1:2345                     prints the address to open in a browser of this machine
  scaler_ui tcp://127.0.0.1:2345 --store ~/night.db  history is kept in a file for a week
  ssh -L 50001:127.0.0.1:50001 HOST                  then that address also works in a browser of your own machine
The page changes nothing in the cluster. Anyone who has its address with the token can see it. The token is in the file
whose path is printed. Programs read it there: curl -H "Authorization: Bearer $(cat FILE)" http://127.0.0.1:50001/metrics
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    return options.make_parser(
        "scaler_ui",
        UiConfig,
        "Show what a cluster does, in the browser: rates, workers, tasks, failures, memory, and a week of history.",
        EXAMPLES,
    )


@ends_in_order
def main(argv: list[str] | None = None) -> None:
    """Run the command, and end the process."""
    from scaler.monitor.ui.run import PageSite, is_loopback, run_ui  # noqa: PLC0415 - `-h` needs no web server

    parser = make_parser()
    config = options.read_settings(parser, UiConfig, argv)

    def tell(site: PageSite) -> None:
        if config.metrics_only:
            say(f"scaler_ui has metrics of {config.address} at")
            say(f"  {site.url.partition('?')[0]}metrics")
        else:
            say(f"scaler_ui shows {config.address} at")
            say(f"  {site.url}")
        say(f"The token is in {site.token_file}. Ctrl-C ends the page, not the cluster.", flush=True)
        if not is_loopback(config.host):
            say("The page is open to your network and unencrypted: put a proxy with TLS in front of it.", flush=True)

    try:
        sys.exit(run_ui(config, tell))
    except ConfigError as error:
        fail("scaler_ui", error)


if __name__ == "__main__":
    main()
