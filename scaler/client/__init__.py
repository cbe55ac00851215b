"""The client's side, in the user's process: futures, calls and the link to the scheduler."""

from scaler.client.calls.options import TaskOptions
from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference

__all__ = ["Client", "ObjectReference", "ScalerFuture", "TaskOptions"]
