"""Scaler: a distributed task engine for many small tasks, and for long ones that must not get lost."""

from scaler.process.standard_streams import open_standard_streams as _open_standard_streams

_open_standard_streams()  # before the imports below open files

# isort: split

from scaler.client import dashboard as _dashboard
from scaler.client import lifetime as _lifetime
from scaler.client import tracing as _tracing
from scaler.client.aio.client import AsyncClient
from scaler.client.aio.future import AsyncFuture
from scaler.client.calls.options import TaskOptions
from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.client.presence import SchedulerInfo, WorkerInfo
from scaler.client.progress.futures import progress
from scaler.cluster.child_process import StartError
from scaler.cluster.cluster import Cluster
from scaler.cluster.combo import SchedulerClusterCombo
from scaler.cluster.combo import start_local_cluster as _start_local_cluster
from scaler.cluster.combo import start_thread_cluster as _start_thread_cluster
from scaler.cluster.dashboard import Dashboard as _Dashboard
from scaler.cluster.recorder import Recorder as _Recorder
from scaler.cluster.scheduler import Scheduler
from scaler.config import ConfigError
from scaler.errors import (
    ClientCancelledException,
    ClientQuitException,
    ClientShutdownException,
    DeserializeObjectError,
    DisconnectedError,
    MissingObjects,
    NoWorkerError,
    ProcessorDiedError,
    ScalerError,
    SerializeObjectError,
    TaskFailedError,
    TaskNotFoundError,
    WorkerDiedError,
)
from scaler.serialization import DefaultSerializer, Serializer
from scaler.task_context import CurrentTask, current_task
from scaler.version import __version__

_lifetime.start_local_cluster = _start_local_cluster
_lifetime.start_thread_cluster = _start_thread_cluster
_dashboard.start_page = _Dashboard
_tracing.start_recorder = _Recorder

__all__ = [
    "AsyncClient",
    "AsyncFuture",
    "Client",
    "ClientCancelledException",
    "ClientQuitException",
    "ClientShutdownException",
    "Cluster",
    "ConfigError",
    "CurrentTask",
    "DefaultSerializer",
    "DeserializeObjectError",
    "DisconnectedError",
    "MissingObjects",
    "NoWorkerError",
    "ObjectReference",
    "ProcessorDiedError",
    "ScalerError",
    "ScalerFuture",
    "Scheduler",
    "SchedulerClusterCombo",
    "SchedulerInfo",
    "SerializeObjectError",
    "Serializer",
    "StartError",
    "TaskFailedError",
    "TaskNotFoundError",
    "TaskOptions",
    "WorkerDiedError",
    "WorkerInfo",
    "__version__",
    "current_task",
    "progress",
]


def __dir__() -> list[str]:
    """Show what is for users; modules of the package that were imported on the way are not."""
    return [*__all__]
