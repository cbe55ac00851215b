"""Dashboard: the page of a client's scheduler, and the summary that notebooks show of a client.

Called by the client. It imports no web server. A summary waits at most `SUMMARY_SECONDS` for the scheduler.
"""

from __future__ import annotations

import os
import sys
import weakref

from scaler import starters
from scaler.client.insight import presence
from scaler.client.insight.markup import escaped
from scaler.client.link.link import ClientLink
from scaler.config import ConfigError
from scaler.endpoint import Endpoint
from scaler.errors import DisconnectedError

SUMMARY_SECONDS = 1.0
"""The longest time that a notebook waits for the figures in the summary of a client."""


class Dashboard:
    """Starts a web page about the scheduler at `endpoint`. The page ends when the client `owner` ends.

    Raises:
        ConfigError: if other processes cannot connect to the scheduler.
    """

    def __init__(self, owner: object, endpoint: Endpoint) -> None:
        if starters.page is None or endpoint.is_in_process:
            raise ConfigError("dashboard=True needs a scheduler in a process of its own: leave processes=False out")
        page = starters.page(endpoint)
        self.url = page.url
        self.close = weakref.finalize(owner, _end, page, os.getpid())
        """ends the web page; may be called any number of times"""
        sys.stderr.write(f"scaler: the dashboard is at {self.url}\n")
        sys.stderr.flush()


def _end(page: starters.LocalPage, owner_pid: int) -> None:
    if os.getpid() == owner_pid:  # not in a fork
        page.shutdown()


def summary(link: ClientLink, url: str | None) -> str:
    """Return the HTML that a notebook shows of a client, with all texts escaped. Takes at most `SUMMARY_SECONDS`."""
    address = escaped(link.address)
    if url:
        page = f'<a href="{escaped(url)}" target="_blank" rel="noopener">Open the dashboard</a>'
    else:
        page = f"A dashboard: <code>scaler_ui {address}</code>, or <code>Client(dashboard=True)</code>"
    return (
        f"<div><strong>Scaler client</strong> <code>{link.client_id.hex()[:8]}</code> of <code>{address}</code><br>"
        f"{escaped(_state(link))}<br>{page}</div>"
    )


def _state(link: ClientLink) -> str:
    try:
        found = presence.wait_for_workers(link, 1, SUMMARY_SECONDS)
    except (DisconnectedError, TimeoutError) as error:
        return str(error)
    counts = (found.workers, "worker"), (found.clients, "client"), (found.waiting_tasks, "waiting task")
    return ", ".join(f"{number} {name}{'s' * (number != 1)}" for number, name in counts)
