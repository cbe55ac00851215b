"""SymphonyEngine: sends each call as a task of a session to a Symphony service, and receives the answers.

Answers arrive in threads of `soamapi`, in any order, some even before `send_task_input` returns. A session that fails
loses its tasks, which return to the scheduler. The next call opens a new session, after a pause that grows with each
failure.

    CLOSED --connect, create_session--> OPEN --on_exception, a send that fails--> CLOSED

No lock is held during a call of `soamapi`, which may call back at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, InvalidStateError
from functools import partial
from itertools import chain
from typing import Any

import cloudpickle

from scaler.config import ConfigError
from scaler.executors.engines.call import EngineCall, ended, run
from scaler.executors.engines.engine import EngineLostError
from scaler.executors.symphony.service import REMOTE_TRACEBACK, message_class
from scaler.pickling.serialization import (
    INLINE_BYTES,
    DefaultSerializer,
    Serializer,
    read_arguments,
    result_to_frames,
    size_of,
)
from scaler.processor.execution.failure import describe_failure
from scaler.processor.execution.values import KnownFunction, LoadedValues
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask

PAUSE_SECONDS, PAUSE_MOST_SECONDS = 0.1, 30.0
"""The first and the longest pause after a session fails or does not open; the pause doubles until an answer arrives."""

SESSION_TYPE = "RecoverableAllHistoricalData"
SESSION_NAME = "Scaler"
USER = PASSWORD = "Guest"  # noqa: S105 - what Symphony accepts if it authenticates no users


class _Session:
    """The open calls of one session, and the answers that arrived before the numbers of their calls were known."""

    def __init__(
        self, on_failed: Callable[[_Session, str], None], on_answered: Callable[[], None], new_message: type[Any]
    ) -> None:
        self._on_failed = on_failed
        self._on_answered = on_answered
        self._new_message = new_message
        self._lock = threading.Lock()
        self._sent: dict[str, tuple[Future[RunResult], RunTask, Serializer]] = {}
        self._unmatched: dict[str, Any] = {}
        self.failed_because = ""
        self.handle: Any = None

    def send(self, attributes: Any, future: Future[RunResult], task: RunTask, serializer: Serializer) -> None:
        number = str(self.handle.send_task_input(attributes).get_id())
        with self._lock:
            output = self._unmatched.pop(number, None)
            reason = self.failed_because
            if output is None and not reason:
                self._sent[number] = (future, task, serializer)
                return
        if output is None:
            _settle(future, error=EngineLostError(reason))
        else:
            self._take(output, future, task, serializer)

    def answered(self, output: Any) -> None:
        """Settle the future of the call that this output answers, or keep the output until that call is known."""
        self._on_answered()
        number = str(output.get_id())
        with self._lock:
            sent = self._sent.pop(number, None)
            if sent is None:
                self._unmatched[number] = output
                return
        self._take(output, *sent)

    def failed(self, reason: str) -> None:
        with self._lock:
            if self.failed_because:
                return
            self.failed_because = reason
            lost, self._sent = self._sent, {}
            self._unmatched.clear()
        self._on_failed(self, reason)
        for future, _, _ in lost.values():
            _settle(future, error=EngineLostError(reason))

    def _take(self, output: Any, future: Future[RunResult], task: RunTask, serializer: Serializer) -> None:
        try:
            if output.is_successful():
                message = self._new_message()
                output.populate_task_output(message)
                _settle(future, _success(task, serializer, message.payload))
            else:
                _settle(future, *_failure(task, output.get_exception()))
        except Exception as error:  # noqa: BLE001 - foreign code; only this task has failed
            _settle(future, error=error)


class SymphonyEngine:
    """Sends calls to one Symphony service.

    Args:
        soamapi: IBM's module.
        report: called with a sentence when the session is lost or cannot be opened.

    Raises:
        ConfigError: if the service cannot be reached now.
    """

    def __init__(self, soamapi: Any, service: str, report: Callable[[str], None]) -> None:
        self._soamapi = soamapi
        self._service = service
        self._report = report
        self._new_message = message_class(soamapi)
        self._closed = threading.Event()
        self._pause_seconds = 0.0
        self._session: _Session | None = None
        self._handles: list[Any] = []
        """the connection and the session that were opened last; after a failed attempt, only what it opened"""
        soamapi.initialize()
        self._security = soamapi.DefaultSecurityCallback(USER, PASSWORD)
        try:
            self._open()
        except Exception as error:  # foreign code
            raise ConfigError(
                f"no session of the Symphony service {service!r} can be opened: {error}; check the name of the "
                "service, that it is enabled, and that this host belongs to the cluster (profile.platform)"
            ) from error

    def submit(self, call: EngineCall) -> Future[RunResult]:
        payload, serializer = _payload(call)
        attributes = self._soamapi.TaskSubmissionAttributes()
        attributes.set_task_input(self._new_message(payload))
        future: Future[RunResult] = Future()
        session = self._open_session()
        try:
            session.send(attributes, future, call.task, serializer)
        except Exception as error:  # noqa: BLE001 - foreign code; after any error the session takes no tasks
            session.failed(f"a task could not be sent to the Symphony service {self._service!r}: {error}")
            _settle(future, error=EngineLostError(str(error)))
        return future

    def close(self) -> None:
        self._closed.set()
        self._close_handles()

    # The session

    def _open_session(self) -> _Session:
        """Return the open session. If the session is lost, open a new one with growing pauses."""
        while (session := self._session) is None:
            if self._closed.wait(self._pause_seconds):
                raise EngineLostError("the engine was closed")
            try:
                self._open()
            except Exception as error:  # noqa: BLE001 - foreign code
                self._pause_longer()
                sentence = f"the Symphony service {self._service!r} cannot be reached: {error}"
                self._report(f"{sentence}; next try in {self._pause_seconds:g} s")
        return session

    def _pause_longer(self) -> None:
        self._pause_seconds = min(max(2 * self._pause_seconds, PAUSE_SECONDS), PAUSE_MOST_SECONDS)

    def _answered(self) -> None:
        self._pause_seconds = 0.0

    def _close_handles(self) -> None:
        handles, self._handles = self._handles, []
        for handle in reversed(handles):
            with contextlib.suppress(Exception):  # it may be closed by its failure
                handle.close()

    def _open(self) -> None:
        soamapi = self._soamapi
        self._close_handles()
        connection = soamapi.connect(self._service, self._security)
        self._handles.append(connection)
        session = _Session(self._on_failed, self._answered, self._new_message)
        attributes = soamapi.SessionCreationAttributes()
        attributes.set_session_type(SESSION_TYPE)
        attributes.set_session_name(SESSION_NAME)
        attributes.set_session_flags(soamapi.SessionFlags.PARTIAL_ASYNC)
        attributes.set_session_callback(_callback(soamapi, session))
        session.handle = connection.create_session(attributes)
        self._handles.append(session.handle)
        self._session = session
        if session.failed_because:  # before the line above
            self._session = None

    def _on_failed(self, session: _Session, reason: str) -> None:
        if self._session is session:
            self._session = None
        self._pause_longer()
        self._report(
            f"the session of the Symphony service {self._service!r} is lost: {reason}; its tasks run again, and the "
            f"next session is opened in {self._pause_seconds:g} s"
        )


def _callback(soamapi: Any, session: _Session) -> Any:
    class Callback(soamapi.SessionCallback):  # type: ignore[misc]  # it is not installed where this is checked
        def on_response(self, output: Any) -> None:
            session.answered(output)

        def on_exception(self, exception: Any) -> None:
            session.failed(str(exception))

    return Callback()


def _payload(call: EngineCall) -> tuple[bytes, Serializer]:
    options = RunOptions.decode(call.task.options) if call.task.options else None
    if (options and options.profiling) or _may_hold_client(call):
        # A client must not be unpickled here, and needs its task context. It needs Scaler at the service anyway.
        return cloudpickle.dumps((run, call)), DefaultSerializer()
    values = LoadedValues()
    for object_id, frames in call.objects.items():
        values.store(object_id, frames)
    known: KnownFunction = values.read_function(call.task.function_id)
    stored = partial(values.stored, known.serializer)
    positional, keywords = read_arguments(call.task.payload, known.read, stored, call.task.frames)
    function = partial(known.call, **keywords) if keywords else known.call
    return cloudpickle.dumps((function, *positional)), known.serializer


def _may_hold_client(call: EngineCall) -> bool:
    frames = chain(call.task.frames, *call.objects.values())
    return b"scaler" in call.task.payload or any(b"scaler" in bytes(frame) for frame in frames)


def _success(task: RunTask, serializer: Serializer, payload: bytes) -> RunResult:
    value = cloudpickle.loads(payload)
    if type(value) is RunResult:
        return value
    frames = result_to_frames(serializer, value)
    if len(frames) == 1 and size_of(frames) <= INLINE_BYTES:
        return ended(task, TaskStatus.SUCCESS, bytes(frames[0]))
    return RunResult(task.task_id, task.worker, task.attempt, TaskStatus.SUCCESS, b"", 0, frames)


def _failure(task: RunTask, exception: Any) -> tuple[RunResult | None, BaseException | None]:
    """Return the result of a task whose function raised, or an error if the process of the task died."""
    embedded = exception.get_embedded_exception()
    if not isinstance(embedded, BaseException):
        return None, BrokenExecutor(str(exception))
    failure = describe_failure(embedded)
    traceback = str(getattr(embedded, REMOTE_TRACEBACK, failure.traceback))
    failure = failure._replace(traceback=traceback, task_id=task.task_id)
    return ended(task, TaskStatus.FAILED, failure.encode(), failure.short), None


def _settle(future: Future[RunResult], result: RunResult | None = None, error: BaseException | None = None) -> None:
    try:
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)
    except InvalidStateError:
        return  # the task was cancelled


def symphony_engine(text: str, _n_workers: int, report: Callable[[str], None]) -> SymphonyEngine:
    """Return the engine of `symphony://SERVICE`.

    Raises:
        ConfigError: if IBM's module is not installed, or the service cannot be reached.
    """
    service = text.removeprefix("symphony://")
    if not service or service == text:
        raise ConfigError(f"the engine {text!r} names no service, as in symphony://SERVICE")
    try:
        import soamapi  # noqa: PLC0415 - IBM's module, which is not on PyPI
    except ImportError as error:
        raise ConfigError(
            f"the module soamapi of IBM Spectrum Symphony cannot be imported here: {error}; it comes with the Symphony "
            "client, whose folder of Python modules must be in PYTHONPATH"
        ) from error
    return SymphonyEngine(soamapi, service, report)
