"""The message of a Symphony task: bytes, both ways.

Made here for the engine and for the service, from whatever `soamapi` is installed. The package has no other knowledge
of how Symphony carries bytes.
"""

from __future__ import annotations

from array import array
from typing import Any

REMOTE_TRACEBACK = "scaler_remote_traceback"
"""The attribute with which an exception carries its traceback from the service, if it came from ours."""


def message_class(soamapi: Any) -> type[Any]:
    """Return the class of messages: made with bytes, or empty to be filled; the bytes are its `payload`."""

    class PayloadMessage(soamapi.Message):  # type: ignore[misc]  # it is not installed where this is checked
        """One input or one output."""

        def __init__(self, payload: bytes = b"") -> None:
            super().__init__()
            self.payload = payload

        def on_serialize(self, stream: Any) -> None:
            data = array("b", self.payload)
            stream.write_byte_array(data, 0, len(data))

        def on_deserialize(self, stream: Any) -> None:
            self.payload = array("b", stream.read_byte_array("b")).tobytes()

    return PayloadMessage
