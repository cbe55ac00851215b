"""Deaths of processes, in words: for logs, and for the errors that users get.

Asked by the proxies of processors and of the fork server.
"""

from __future__ import annotations

import signal


def how_it_ended(exit_code: int) -> str:
    """Return the exit code, or the signal by its name, as a part of a sentence."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"
