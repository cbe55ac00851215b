"""Errors: one tree. `except ScalerError` catches every error that Scaler itself raises about a task or a connection.

An exception that a task raises is not in this tree: it arrives as the user's own type, with its remote traceback as its
`__cause__`. A missing scheduler is the builtin `TimeoutError`.
"""

from __future__ import annotations

from typing import Any


def class_name(kind: type) -> str:
    """Return the qualified name of a class; without the module for a builtin class."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class ScalerError(Exception):
    """The base of all errors of this package."""


class ProcessorDiedError(ScalerError):
    """The task has lost its process (exit, signal, out of memory) as often as the crash limit allows.

    The message shows how the process ended. SIGKILL usually means that the host ran out of memory: use fewer workers or
    smaller tasks. SIGSEGV is a crash of compiled code: the standard error of the process's cluster has the Python
    traceback.
    """


class WorkerDiedError(ScalerError):
    """The task has lost its worker as often as the crash limit allows, or the local cluster of this program is lost.

    A worker is lost if its host died, or its connection was down for too long. Look at the log of the named cluster,
    and submit the task again. A local cluster is lost if it ended too often to be restarted, or cannot start with its
    settings; the message says why.
    """


class NoWorkerError(ScalerError):
    """The task was refused, or no connected worker could take it for as long as its `no_worker_timeout`.

    The scheduler refuses a task if no worker has a free place and `max_number_of_tasks_waiting` tasks wait already.
    Submit the task again later, add workers, or raise that setting of the scheduler. If the task needs capabilities
    that no connected worker has, start a cluster that has them; the message names the missing ones.
    """


class TaskNotFoundError(ScalerError):
    """The scheduler or the worker does not know the task.

    Either the task was deleted while a message about it was on its way: submit the task again. Or the task has the
    option `at_most_once`, and it may have started before its scheduler was lost.
    """


class MissingObjects(ScalerError):  # noqa: N818 - the name is a public contract
    """An object that the task needs, or a large result, is no longer stored.

    The client of the object has left, was silent for too long, or has cleared its objects. Send the object again with
    `Client.send_object`. For a large result: submit the task again.
    """


class ObjectTooLargeError(ScalerError):
    """A value is too large for a process that must hold it. The value is not sent, or not resent.

    The message names the value, its size, the process that is short of memory and the limit of that process. It also
    says what to do: give that process more memory, or send less. A value that the workers read from a file or share in
    memory need not be sent (docs/howto/objects.md).

    Attributes:
        value (str): a description of the value.
        size (int): the size of the value, in bytes.
        host (str): the process that cannot hold the value.
        budget (int | None): the maximum size of one value in that process, in bytes; None if unknown.
        cure (str): advice on what to do.
    """

    def __init__(self, value: str, size: int, host: str, budget: int | None, cure: str) -> None:
        super().__init__(value, size, host, budget, cure)
        self.value, self.size, self.host, self.budget, self.cure = value, size, host, budget, cure

    def __str__(self) -> str:
        room = "has no room for it" if self.budget is None else f"takes at most {self.budget:,} bytes for one value"
        return f"{self.value} is too large: it has {self.size:,} bytes, and {self.host} {room}: {self.cure}"

    def renamed(self, value: str) -> ObjectTooLargeError:
        """Return the same error with `value` as the description of the value."""
        return ObjectTooLargeError(value, self.size, self.host, self.budget, self.cure)


class DisconnectedError(ScalerError):
    """The client is disconnected, or the scheduler refused the client.

    After `disconnect`, create a new client. If the scheduler refused the client because of a different version, the
    message names both versions: install the same one on both sides.
    """


class AuthenticationError(DisconnectedError):
    """The scheduler refuses this client, or is not the scheduler that the client expects.

    The message shows the reason and what to do. Possible reasons:

    - this program finds no key for the scheduler;
    - the scheduler has another key than the one in the file;
    - the key is not on the scheduler's list, or is revoked or expired;
    - another user listens at the ipc address (docs/howto/keys.md).
    """


class NotAllowedError(ScalerError):
    """The client is not an admin.

    If other owners use a scheduler, only an admin may restart its workers or drain its clusters. An admin is a client
    that can read the keys in the scheduler's own folder, or has a key with the role admin. A client inside a task is
    never an admin (docs/howto/keys.md).
    """


class SerializeObjectError(ScalerError):
    """A function, an argument or a result cannot be pickled, so it cannot be sent.

    Open files, locks, connections, generators and coroutines belong to one process. Pass the data that they are made
    from, and create them inside the task.
    """


class DeserializeObjectError(ScalerError):
    """A value arrived but cannot be unpickled here, usually because a module is missing.

    The message names the value, and the missing module or the class whose code failed. If the module is your own, send
    it along (`client.upload(module)`), or start the cluster in its folder. Otherwise install the module where the
    workers run, or set `PYTHONPATH` there.
    """


class TaskFailedError(ScalerError):
    """The task failed, and its own exception cannot be raised here, or Scaler itself failed.

    An exception cannot be raised here if it cannot be pickled, or would end your program (`sys.exit`). The message
    shows the type, the text and the traceback of the exception.
    """


class ClientCancelledException(ScalerError):  # noqa: N818 - the name is a public contract
    """Never raised. This class exists for programs that catch it.

    The future of a task that was cancelled raises `concurrent.futures.CancelledError`.
    """


class ClientShutdownException(ScalerError, ValueError):  # noqa: N818 - the name is a public contract
    """The scheduler refused to shut down, or is shutting down.

    A scheduler is protected unless it was started with `--no-protected`.
    """


class ClientQuitException(ScalerError):  # noqa: N818 - the name is a public contract
    """Never raised. This class exists for programs that catch it.

    After a client has left, its open futures raise `concurrent.futures.CancelledError`, and new calls raise
    `DisconnectedError`.
    """


class JobError(ScalerError):
    """A job cannot be created, found or kept; the message shows why. Possible reasons:

    - no job has this name, or the job has expired;
    - the scheduler keeps no jobs (start it as `scaler_scheduler --keep FOLDER`), its disk is full, or its jobs have
      reached the limit `keep_bytes`;
    - another program has the job open, so this program can only read the job (docs/howto/long-jobs.md).
    """


class JobConflictError(JobError):
    """The job of this name has another function, other rows or other options than the call.

    The message shows the difference. Use another name; or `on_change="keep"`, which keeps the results of rows whose
    arguments are the same; or `on_change="restart"`, which drops all results.
    """


class RerunError(ScalerError):
    """A call cannot run again here; the message shows why. `rerun()` raises this error before it calls the function.
    Possible reasons:

    - the task has not failed;
    - the task has the option `at_most_once`, and needs `rerun(again=True)`;
    - a part of the call is lost: the message names the part (docs/howto/debugging.md).
    """


class TooManyFailuresError(ScalerError):
    """More rows of a map or a job have failed than `max_failures` allows, so the map or job was stopped.

    The `__cause__` of this error is the first failure. `Job.failures` returns the failed rows, and `Job.retry` runs
    them again.
    """


class ProtocolError(ScalerError):
    """A peer sent bytes that are not a message of this protocol."""


class TaskInterrupt(BaseException):
    """Raised inside a cancelled task, at any point of its code. The `finally` and `with` blocks of the task run, then
    the task ends.

    This class is a `BaseException` so that `except Exception` in a task does not catch it.
    """


def is_error_of_task(info: Any) -> bool:
    """Return whether the exception that pytest shows is that of a task. Frames of this package are then hidden."""
    return isinstance(info.value.__cause__, RemoteTraceback)


class RemoteTraceback(Exception):  # noqa: N818 - it is shown, never caught
    """The traceback of another process as text: the `__cause__` of a task's exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
