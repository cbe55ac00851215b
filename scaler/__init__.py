"""Scaler: a distributed task engine for many small tasks, and for long ones that must not get lost.

The first use of a public name imports the module that defines it, because schedulers and workers need few of the names.
The modules beside this file are used by many packages: ids, errors, addresses.
"""

from scaler.process.standard_streams import open_standard_streams as _open_standard_streams

_open_standard_streams()  # before the imports below open files

# isort: split

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from scaler import starters as _starters
from scaler.endpoint import Endpoint as _Endpoint
from scaler.version import __version__

if TYPE_CHECKING:
    from scaler.client.aio.client import AsyncClient
    from scaler.client.aio.future import AsyncFuture
    from scaler.client.aio.job import AsyncJob
    from scaler.client.calls.options import TaskOptions
    from scaler.client.client import Client
    from scaler.client.future import ScalerFuture
    from scaler.client.insight.explanation import Story
    from scaler.client.insight.presence import ObjectInfo, SchedulerInfo, WorkerInfo
    from scaler.client.insight.task_log import TaskProgress
    from scaler.client.jobs.job import FailedRow, Job, JobProgress
    from scaler.client.object_reference import ObjectReference
    from scaler.client.progress.futures import progress
    from scaler.cluster.child_process import StartError
    from scaler.cluster.cluster import Cluster
    from scaler.cluster.combo import SchedulerClusterCombo
    from scaler.cluster.scheduler import Scheduler
    from scaler.config import ConfigError
    from scaler.errors import (
        AuthenticationError,
        ClientCancelledException,
        ClientQuitException,
        ClientShutdownException,
        DeserializeObjectError,
        DisconnectedError,
        JobConflictError,
        JobError,
        MissingObjects,
        NotAllowedError,
        NoWorkerError,
        ObjectTooLargeError,
        ProcessorDiedError,
        RerunError,
        ScalerError,
        SerializeObjectError,
        TaskFailedError,
        TaskNotFoundError,
        TooManyFailuresError,
        WorkerDiedError,
    )
    from scaler.pickling.serialization import DefaultSerializer, Serializer
    from scaler.task_context import CurrentTask, current_task

__all__ = [
    "AsyncClient",
    "AsyncFuture",
    "AsyncJob",
    "AuthenticationError",
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
    "FailedRow",
    "Job",
    "JobConflictError",
    "JobError",
    "JobProgress",
    "MissingObjects",
    "NoWorkerError",
    "NotAllowedError",
    "ObjectInfo",
    "ObjectReference",
    "ObjectTooLargeError",
    "ProcessorDiedError",
    "RerunError",
    "ScalerError",
    "ScalerFuture",
    "Scheduler",
    "SchedulerClusterCombo",
    "SchedulerInfo",
    "SerializeObjectError",
    "Serializer",
    "StartError",
    "Story",
    "TaskFailedError",
    "TaskNotFoundError",
    "TaskOptions",
    "TaskProgress",
    "TooManyFailuresError",
    "WorkerDiedError",
    "WorkerInfo",
    "__version__",
    "current_task",
    "progress",
]

_PLACES = {
    "AsyncClient": "scaler.client.aio.client",
    "AsyncFuture": "scaler.client.aio.future",
    "AsyncJob": "scaler.client.aio.job",
    "AuthenticationError": "scaler.errors",
    "Client": "scaler.client.client",
    "ClientCancelledException": "scaler.errors",
    "ClientQuitException": "scaler.errors",
    "ClientShutdownException": "scaler.errors",
    "Cluster": "scaler.cluster.cluster",
    "ConfigError": "scaler.config",
    "CurrentTask": "scaler.task_context",
    "DefaultSerializer": "scaler.pickling.serialization",
    "DeserializeObjectError": "scaler.errors",
    "DisconnectedError": "scaler.errors",
    "FailedRow": "scaler.client.jobs.job",
    "Job": "scaler.client.jobs.job",
    "JobConflictError": "scaler.errors",
    "JobError": "scaler.errors",
    "JobProgress": "scaler.client.jobs.job",
    "MissingObjects": "scaler.errors",
    "NoWorkerError": "scaler.errors",
    "NotAllowedError": "scaler.errors",
    "ObjectInfo": "scaler.client.insight.presence",
    "ObjectReference": "scaler.client.object_reference",
    "ObjectTooLargeError": "scaler.errors",
    "ProcessorDiedError": "scaler.errors",
    "RerunError": "scaler.errors",
    "ScalerError": "scaler.errors",
    "ScalerFuture": "scaler.client.future",
    "Scheduler": "scaler.cluster.scheduler",
    "SchedulerClusterCombo": "scaler.cluster.combo",
    "SchedulerInfo": "scaler.client.insight.presence",
    "SerializeObjectError": "scaler.errors",
    "Serializer": "scaler.pickling.serialization",
    "StartError": "scaler.cluster.child_process",
    "Story": "scaler.client.insight.explanation",
    "TaskFailedError": "scaler.errors",
    "TaskNotFoundError": "scaler.errors",
    "TaskOptions": "scaler.client.calls.options",
    "TaskProgress": "scaler.client.insight.task_log",
    "TooManyFailuresError": "scaler.errors",
    "WorkerDiedError": "scaler.errors",
    "WorkerInfo": "scaler.client.insight.presence",
    "current_task": "scaler.task_context",
    "progress": "scaler.client.progress.futures",
}
"""public name -> module that defines it"""


def _import_client() -> None:
    _import_module("scaler.client.client")


def _start_local_cluster(settings: _starters.LocalSettings, logs_output: bool) -> _starters.LocalCluster:
    from scaler.cluster.combo import start_local_cluster  # noqa: PLC0415

    return start_local_cluster(settings, logs_output)


def _start_thread_cluster(settings: _starters.LocalSettings) -> _starters.LocalCluster:
    from scaler.cluster.combo import start_thread_cluster  # noqa: PLC0415

    return start_thread_cluster(settings)


def _start_page(endpoint: _Endpoint) -> _starters.LocalPage:
    from scaler.cluster.dashboard import PageProcess  # noqa: PLC0415

    return PageProcess(endpoint)


def _start_recorder(endpoint: _Endpoint, path: str) -> _starters.Recording:
    from scaler.cluster.recorder import Recorder  # noqa: PLC0415

    return Recorder(endpoint, path)


_starters.import_client = _import_client
_starters.local_cluster = _start_local_cluster
_starters.thread_cluster = _start_thread_cluster
_starters.page = _start_page
_starters.recorder = _start_recorder


if not TYPE_CHECKING:  # else type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Return a public name or a module of the package, imported when it is first used."""
        try:
            module = _import_module(_PLACES.get(name, f"scaler.{name}"))
        except ModuleNotFoundError as error:
            if error.name != f"scaler.{name}":
                raise
            raise AttributeError(f"module 'scaler' has no attribute {name!r}", name=name) from None
        if name not in _PLACES:
            return module
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return [*__all__]
