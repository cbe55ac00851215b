"""An actor that records all messages that it receives."""

from __future__ import annotations

from typing import Any

from scaler.kit import Actor
from scaler.kit.actor import HandlerTable


class _AnyTable(HandlerTable):
    def __missing__(self, message_type: type) -> Any:
        return lambda actor, message: actor.messages.append(message)


class Recorder(Actor):
    def __init__(self) -> None:
        self.messages: list[Any] = []

    def take(self, kind: type | None = None) -> list[Any]:
        taken = [message for message in self.messages if kind in (None, type(message))]
        self.messages = [message for message in self.messages if kind not in (None, type(message))]
        return taken


Recorder.handlers = _AnyTable(Recorder.handlers)
