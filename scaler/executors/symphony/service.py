"""The Symphony service that runs the tasks: deploy it on the hosts of the grid, see docs/howto/symphony.md.

    python -m scaler.executors.symphony.service

The input of a task is `cloudpickle.dumps((function, *arguments))`, and its output is `cloudpickle.dumps(result)`. Any
service that does the same can replace this one. The hosts need the packages that the functions import, and for this
service also Scaler. With another service on hosts without Scaler, tasks can use no clients.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from array import array
from typing import Any

import cloudpickle

from scaler.errors import DeserializeObjectError, SerializeObjectError

REMOTE_TRACEBACK = "scaler_remote_traceback"
"""The name of the attribute in which an exception carries its traceback from this service."""


def message_class(soamapi: Any) -> type[Any]:
    """Return the class of the messages to and from Symphony. `payload` is the bytes of one message."""

    class PayloadMessage(soamapi.Message):  # type: ignore[misc]  # it is not installed where this is checked
        def __init__(self, payload: bytes = b"") -> None:
            super().__init__()
            self.payload = payload

        def on_serialize(self, stream: Any) -> None:
            data = array("b", self.payload)
            stream.write_byte_array(data, 0, len(data))

        def on_deserialize(self, stream: Any) -> None:
            self.payload = array("b", stream.read_byte_array("b")).tobytes()

    return PayloadMessage


def container_class(soamapi: Any) -> type[Any]:
    """Return the class with which Symphony runs the tasks of this service."""
    message = message_class(soamapi)

    class TaskContainer(soamapi.ServiceContainer):  # type: ignore[misc]  # it is not installed where this is checked
        def on_invoke(self, task_context: Any) -> None:
            received = message()
            task_context.populate_task_input(received)
            try:
                task_context.set_task_output(message(_answer(received.payload)))
            except BaseException as error:  # raised again, with its traceback
                with contextlib.suppress(Exception):  # an exception may refuse attributes
                    setattr(error, REMOTE_TRACEBACK, traceback.format_exc())
                raise

    return TaskContainer


def _answer(payload: bytes) -> bytes:
    try:
        function, *arguments = cloudpickle.loads(payload)
    except Exception as error:  # unpickling runs code of the user
        raise DeserializeObjectError(f"the task cannot be read at the service: {error}") from error
    result: Any = function(*arguments)
    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as error:  # pickling runs code of the user
        raise SerializeObjectError(f"a value of type {type(result).__name__} cannot be serialised: {error}") from error


def main() -> None:
    """Run the service until Symphony ends it."""
    import soamapi  # noqa: PLC0415 - IBM's module, which only the hosts of a grid have

    sys.exit(container_class(soamapi)().run())


if __name__ == "__main__":
    main()
