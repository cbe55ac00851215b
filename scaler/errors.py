"""What can go wrong, as one tree. `except ScalerError` catches all that Scaler itself raises about a task or a link.

An exception that a task raises is not in this tree: it arrives as the user's own type, and its `__cause__` shows the
traceback of where it was raised. A scheduler that stays away is the builtin `TimeoutError`.
"""

from __future__ import annotations


class ScalerError(Exception):
    """The base of all errors of this package."""


class ProcessorDiedError(ScalerError):
    """The process that ran the task ended (exit, signal, out of memory) as often as the crash limit allows."""


class WorkerDiedError(ScalerError):
    """The worker that ran the task was lost as often as the crash limit allows."""


class NoWorkerError(ScalerError):
    """The task was refused: no worker has a free place and the queue is full."""


class TaskNotFoundError(ScalerError):
    """The scheduler knows no such task."""


class MissingObjects(ScalerError):  # noqa: N818 - the name is a public contract
    """An object that the task needs is not stored any more."""


class DisconnectedError(ScalerError):
    """The client is disconnected, or the link to the scheduler was refused."""


class SerializeObjectError(ScalerError):
    """A value cannot be serialised, so it cannot travel."""


class DeserializeObjectError(ScalerError):
    """A value arrived but cannot be read here, for instance because its module is missing."""


class TaskFailedError(ScalerError):
    """The task raised an exception that cannot travel. The text names its type and shows its message and traceback."""


class ClientCancelledException(ScalerError):  # noqa: N818 - the name is a public contract
    """The client cancelled its work."""


class ClientShutdownException(ScalerError):  # noqa: N818 - the name is a public contract
    """The scheduler refused to shut down, or is shutting down."""


class ClientQuitException(ScalerError):  # noqa: N818 - the name is a public contract
    """The client left while the call was open."""


class ProtocolError(ScalerError):
    """Bytes from a peer that are not a message of this protocol."""


class TaskInterrupt(BaseException):
    """Raised inside a task that is to end now, wherever it is: what it does in `finally` and `with` is done, then it is
    over. Not a `ScalerError`, not even an `Exception`, so that no task takes it for a failure of its own.
    """


class RemoteTraceback(Exception):  # noqa: N818 - it is shown, never caught
    """Carries the traceback of another process as text: the `__cause__` of a task's exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
