"""Lifetime: the start of the local cluster of an asyncio client, which takes longer than a turn of its loop.

Called in the thread of the client's event loop. Must never: leave a cluster behind when the start is cancelled.
"""

from __future__ import annotations

import asyncio

from scaler import starters
from scaler.client import lifetime


async def started_cluster(n_workers: int | None, logs_output: bool) -> starters.LocalCluster:
    """Return a local cluster. If this is cancelled, the cluster is ended first: its start cannot be stopped."""
    loop = asyncio.get_running_loop()
    starting = loop.run_in_executor(None, lifetime.start_cluster, True, n_workers, logs_output)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            await loop.run_in_executor(None, starting.result().shutdown)
        raise
