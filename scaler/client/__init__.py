"""The client's side, in the user's process: futures, calls and the link to the scheduler.

Users hold a `client`. The client prepares `calls` and passes them to the `link`; a `future` gets the result. `aio` has
the client for asyncio. A `Client` and its futures may be used in any thread. Actors and the code of tasks are
elsewhere.
"""

from scaler.client.calls.options import TaskOptions
from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference

__all__ = ["Client", "ObjectReference", "ScalerFuture", "TaskOptions"]
