"""The errors, under their path in Scaler 1.x. They are the same classes as in `scaler`."""

from scaler.errors import (
    ClientCancelledException,
    ClientQuitException,
    ClientShutdownException,
    DeserializeObjectError,
    DisconnectedError,
    MissingObjects,
    NoWorkerError,
    ProcessorDiedError,
    TaskNotFoundError,
    WorkerDiedError,
)

__all__ = [
    "ClientCancelledException",
    "ClientQuitException",
    "ClientShutdownException",
    "DeserializeObjectError",
    "DisconnectedError",
    "MissingObjects",
    "NoWorkerError",
    "ProcessorDiedError",
    "TaskNotFoundError",
    "WorkerDiedError",
]
