"""A page that is printed once: for pipes, scripts and terminals that cannot show a screen."""

from __future__ import annotations

import json
import time
from typing import Any

from scaler.endpoint import Endpoint
from scaler.monitor.model.model import LOOKING, Model
from scaler.monitor.report import report
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.top.frame import FrameInput, draw
from scaler.monitor.top.panels import ROWS
from scaler.monitor.top.view import TopView

_AWAITED = frozenset({"scheduler", "clients", "workers", "functions"})
_LINES_BESIDE = ROWS + 10
_ROWS_LEAST = 8


def listen(subscriber: Subscriber, timeout: float) -> Model | None:
    """Receive until state and rates are known, or for `timeout` seconds. Return the model; None if nothing arrived."""
    model = Model()
    ends_at = time.monotonic() + timeout
    while time.monotonic() < ends_at and not subscriber.problem:
        subscriber.wait(min(0.1, timeout))
        for news in subscriber.receive():
            model.take(news, time.monotonic())
        if model.heads.keys() >= _AWAITED and model.rates.tasks is not None and model.verdict is not LOOKING:
            break
    return model if model.received_at is not None else None


def page(model: Model, endpoint: Endpoint, width: int, is_unicode: bool) -> str:
    """Return the page as text, with all workers."""
    height = _LINES_BESIDE + max(_ROWS_LEAST, len(model.workers))
    moment = FrameInput(time.monotonic(), endpoint, is_unicode=is_unicode, is_plain=True)
    lines = draw(model, TopView(), width, height, moment).lines()
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def as_json(model: Model) -> str:
    """Return the whole state as JSON, for programs; each row is a line."""
    parts = report(model, time.monotonic())
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {_lines_of(value)}" for name, value in parts.items()) + "\n}"


def _lines_of(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
