"""The engine of any executor of concurrent.futures: how it is found and replaced."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.executors.engines.call import EngineCall
from scaler.executors.engines.engine import FuturesEngine, futures_engine
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import DefaultSerializer, function_to_frames, to_frames
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask

FUNCTION = ObjectId(b"f" * 16)


def call_of(function: Any) -> EngineCall:
    from scaler.ids import content_id

    frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), function)]
    function_id = ObjectId(content_id(frames))
    task = RunTask(TaskId(b"t" * 16), 0, 7, function_id, b"", b"")
    return EngineCall(task, {function_id: frames}, "tcp://127.0.0.1:1", b"n" * 16)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("futures://nothing", "not of the form module:factory"),
        ("futures://:f", "not of the form module:factory"),
        ("there_is_no_such_module:f", "No module named 'there_is_no_such_module'"),
        ("os:nothing", "has no attribute 'nothing'"),
        ("builtins:dict", "returned dict, not a concurrent.futures.Executor"),
    ],
)
def test_a_malformed_factory_is_refused_with_the_reason(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        futures_engine(text, 1, print)


def test_the_result_of_a_call_has_its_status() -> None:
    engine = futures_engine("concurrent.futures:ThreadPoolExecutor", 1, print)
    result = engine.submit(call_of(dict)).result(10)
    assert (result.status, result.attempt) == (TaskStatus.SUCCESS, 7)
    assert result.payload == bytes(to_frames(DefaultSerializer(), {})[0])
    assert engine.submit(call_of(lambda: 1 / 0)).result(10).status == TaskStatus.FAILED
    engine.close()


def test_a_broken_executor_is_replaced() -> None:
    class Breaks(Executor):
        def submit(self, *_arguments: Any, **_keywords: Any) -> Future[Any]:
            raise BrokenExecutor("on purpose")

    made: list[Executor] = [ThreadPoolExecutor(1), Breaks()]
    engine = FuturesEngine(made.pop)
    assert engine.submit(call_of(dict)).result(10).status == TaskStatus.SUCCESS
    assert made == []
    engine.close()
