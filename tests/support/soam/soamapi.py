"""A stand-in for IBM's module `soamapi`: sessions of services that run in separate processes.

Tests control it by files in the folder `SOAMAPI_STAND_IN`, so that all processes see them:

    services   the names of the existing services, one in a line (the file must exist)
    slots      how many processes a session has (2 if it is missing)
    refuse     while it exists, connections are refused
    fail       while it exists, each open session fails
    slow       while it exists, `send_task_input` returns only after the answer has arrived
    backward   while it exists, answers wait for each other and arrive in the opposite order, two by two
    log        what happened: connect, session, task NUMBER, lost
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["SOAMAPI_STAND_IN"])
POLL_SECONDS = 0.02


def _note(text: str) -> None:
    with (FOLDER / "log").open("a", encoding="utf-8") as log:
        log.write(f"{text}\n")


def _is_set(name: str) -> bool:
    return (FOLDER / name).exists()


class SoamException(Exception):  # noqa: N818 - as it is called there
    """An error of Symphony."""

    def __init__(self, text: str, embedded: BaseException | None = None) -> None:
        super().__init__(text)
        self._embedded = embedded

    def get_embedded_exception(self) -> BaseException | None:
        return self._embedded


class SessionFlags:
    PARTIAL_ASYNC = 4


class Message:
    """The base of messages."""


class SessionCallback:
    """The base of callbacks."""


class DefaultSecurityCallback:
    def __init__(self, user: str, password: str) -> None:
        assert (user, password) == ("Guest", "Guest")


class _Stream:
    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def write_byte_array(self, data: array[int], offset: int, length: int) -> None:
        assert data.typecode == "b"
        self.data = data[offset : offset + length].tobytes()

    def read_byte_array(self, typecode: str) -> array[int]:
        return array(typecode, self.data)


def _bytes_of(message: Any) -> bytes:
    stream = _Stream()
    message.on_serialize(stream)
    return stream.data


class SessionCreationAttributes:
    def __init__(self) -> None:
        self.callback: Any = None
        self.kind = self.name = ""
        self.flags = 0

    def set_session_type(self, kind: str) -> None:
        self.kind = kind

    def set_session_name(self, name: str) -> None:
        self.name = name

    def set_session_flags(self, flags: int) -> None:
        self.flags = flags

    def set_session_callback(self, callback: Any) -> None:
        self.callback = callback


class TaskSubmissionAttributes:
    def __init__(self) -> None:
        self.message: Any = None

    def set_task_input(self, message: Any) -> None:
        self.message = message


class _Handle:
    def __init__(self, number: int) -> None:
        self._number = number

    def get_id(self) -> int:
        return self._number


class _Output(_Handle):
    def __init__(self, number: int, data: bytes | None, exception: SoamException | None) -> None:
        super().__init__(number)
        self._data, self._exception = data, exception

    def is_successful(self) -> bool:
        return self._exception is None

    def populate_task_output(self, message: Any) -> None:
        assert self._data is not None
        message.on_deserialize(_Stream(self._data))

    def get_exception(self) -> SoamException | None:
        return self._exception


class _Session(_Handle):
    """Some processes that take tasks in the order of their submission, and a thread for each of them."""

    def __init__(self, number: int, attributes: SessionCreationAttributes) -> None:
        super().__init__(number)
        assert attributes.kind == "RecoverableAllHistoricalData"
        assert attributes.flags == SessionFlags.PARTIAL_ASYNC
        self._callback = attributes.callback
        self._tasks: queue.SimpleQueue[tuple[int, bytes, threading.Event]] = queue.SimpleQueue()
        self._held: list[_Output] = []
        self._lock = threading.Lock()
        self._next = 0
        self._is_open = True
        slots = int((FOLDER / "slots").read_text()) if _is_set("slots") else 2
        for _ in range(slots):
            threading.Thread(target=self._serve, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def send_task_input(self, attributes: TaskSubmissionAttributes) -> _Handle:
        if not self._is_open:
            raise SoamException("the session is closed")
        with self._lock:
            self._next += 1
            number = self._next
        _note(f"task {number}")
        answered = threading.Event()
        self._tasks.put((number, _bytes_of(attributes.message), answered))
        if _is_set("slow"):
            answered.wait()
        return _Handle(number)

    def close(self) -> None:
        self._is_open = False

    def _watch(self) -> None:
        while self._is_open:
            if _is_set("fail"):
                self._is_open = False
                _note("lost")
                self._callback.on_exception(SoamException("the session was aborted"))
                return
            time.sleep(POLL_SECONDS)

    def _serve(self) -> None:
        service: _ServiceProcess | None = None
        while self._is_open:
            number, data, answered = self._tasks.get()
            service = service or _ServiceProcess()
            try:
                output = service.run(number, data)
            except EOFError:
                output = _Output(number, None, SoamException("the service instance has exited"))
                service = None
            if self._is_open:
                self._answer(output)
            answered.set()

    def _answer(self, output: _Output) -> None:
        if not _is_set("backward"):
            self._callback.on_response(output)
            return
        with self._lock:
            self._held.append(output)
            ready = self._held[::-1] if len(self._held) == 2 else []
            if ready:
                self._held = []
        for held in ready:
            self._callback.on_response(held)


class _ServiceProcess:
    """One instance of the service: a process that runs the file that users deploy."""

    def __init__(self) -> None:
        with Listener(family="AF_UNIX") as listener:
            environment = os.environ | {"SOAMAPI_SERVICE": str(listener.address)}
            program = [sys.executable, "-m", "scaler.executors.symphony.service"]
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            self._process = subprocess.Popen(program, env=environment)
            self._connection = listener.accept()

    def run(self, number: int, data: bytes) -> _Output:
        try:
            self._connection.send_bytes(data)
            result, embedded = pickle.loads(self._connection.recv_bytes())
        except OSError as error:
            self._process.wait()
            raise EOFError from error
        except EOFError:
            self._process.wait()
            raise
        exception = None if embedded is None else SoamException("the service has failed", pickle.loads(embedded))
        return _Output(number, result, exception)


class _Connection(_Handle):
    def create_session(self, attributes: SessionCreationAttributes) -> _Session:
        _note("session")
        return _Session(1, attributes)

    def close(self) -> None:
        pass


_is_initialized = False


def initialize() -> None:
    global _is_initialized  # noqa: PLW0603
    _is_initialized = True


def connect(service: str, callback: DefaultSecurityCallback) -> _Connection:
    assert _is_initialized
    assert isinstance(callback, DefaultSecurityCallback)
    _note("connect")
    if _is_set("refuse"):
        raise SoamException("connection refused")
    if service not in (FOLDER / "services").read_text().split():
        raise SoamException(f"application {service!r} is not registered")
    return _Connection(1)


# The side of the service


class _TaskContext:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.result = b""

    def populate_task_input(self, message: Any) -> None:
        message.on_deserialize(_Stream(self._data))

    def set_task_output(self, message: Any) -> None:
        self.result = _bytes_of(message)


class ServiceContainer:
    """The base of containers."""

    on_create_service: Callable[..., None] = staticmethod(lambda *_: None)

    def run(self) -> int:
        connection: Connection = Client(os.environ["SOAMAPI_SERVICE"])
        self.on_create_service()
        while True:
            try:
                context = _TaskContext(connection.recv_bytes())
            except EOFError:
                return 0
            embedded = None
            try:
                self.on_invoke(context)  # type: ignore[attr-defined]  # of the class that derives from this one
            except BaseException as error:  # noqa: BLE001 - whatever the task raised
                embedded = pickle.dumps(error)
            connection.send_bytes(pickle.dumps((context.result, embedded)))
