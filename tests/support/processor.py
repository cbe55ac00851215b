"""The agent's end of one real processor process, for tests of what user code does to its process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scaler.ids import IdSource, ObjectId, TaskId, content_id
from scaler.pickling.serialization import (
    OBJECT,
    VALUE,
    DefaultSerializer,
    Serializer,
    argument_block,
    from_frames,
    function_to_frames,
    to_frames,
)
from scaler.processor.channel import Channel
from scaler.processor.lifecycle.signals import INTERRUPT_SIGNAL
from scaler.processor.progress_page import ProgressPage, new_progress_page
from scaler.settings import ClusterConfig, LoggingConfig
from scaler.wire.codec.codec import decode, encode
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import ProcessorReady, TaskOutput
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.processes import wait_until

DEFAULT = DefaultSerializer()
PROGRAM = """
import socket, sys
from scaler.settings import ClusterConfig
from scaler.processor.lifecycle.bootstrap import Bootstrap
from scaler.processor.execution.task_context import ProcessorSpec
spec = ProcessorSpec(7, bytes(16), worker="w")
bootstrap = Bootstrap(ClusterConfig.from_json(sys.argv[3]))
bootstrap.run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), spec)
"""


class Driver:
    def __init__(
        self, directory: Path, logging: LoggingConfig | None = None, stdout: int | None = None, **settings: Any
    ) -> None:
        ours, theirs = socket.socketpair()
        page = new_progress_page()
        self.log = directory / "log"
        logging = logging or LoggingConfig((str(self.log),))
        config = ClusterConfig("tcp://127.0.0.1:1", 1, logging=logging, **settings)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(theirs.fileno()), str(page), config.to_json()],
            pass_fds=(theirs.fileno(), page),
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=stdout,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        ours.settimeout(None)
        self.channel = Channel(ours)
        self.progress = ProgressPage(page)
        os.close(page)
        self.arrived: list[tuple[float, RunResult]] = []
        self.kinds: list[type] = []
        self.output: list[TaskOutput] = []
        self._new_id = IdSource()
        [batch] = decode(PROCESSOR_TO_AGENT, *self.channel.receive()[0])
        assert type(batch) is Batch[ProcessorReady]
        assert batch[0].pid == self.process.pid

    def close(self) -> None:
        self.channel.close()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait(60)

    def start(self, function: Callable[..., Any], *arguments: Any) -> int:
        """Start a task, and return its number when it is executed."""
        self.send(self.task(self.function(function), *arguments))
        return int(wait_until(lambda: self.progress.executing, "the task is executed"))

    def interrupt(self, number: int) -> None:
        self.progress.interrupt(number)
        self.process.send_signal(INTERRUPT_SIGNAL)

    def interrupt_until_over(self, number: int) -> None:
        """Send the signal repeatedly until the task is interrupted, as the agent does, and wait until it has ended."""
        self.interrupt_until_taken(number)
        wait_until(lambda: self.progress.executing != number, "the task has ended")

    def interrupt_until_taken(self, number: int) -> None:
        """Send the signal until the task is interrupted or has ended, because a single signal may come too early."""
        self.progress.interrupt(number)

        def is_taken() -> bool:
            if self.progress.executing == number and self.progress.is_interrupt_due:
                self.process.send_signal(INTERRUPT_SIGNAL)
                return False
            return True

        wait_until(is_taken, "the task is interrupted")

    def send(self, *items: Any) -> None:
        for header, frames in encode(AGENT_TO_PROCESSOR, items):
            self.channel.send(header, frames)

    def store(self, frames: Sequence[Any]) -> ObjectId:
        object_id = content_id(frames)
        self.send(ObjectResponse(object_id, 1, frames))
        return object_id

    def function(self, function: Callable[..., Any], serializer: Serializer = DEFAULT) -> ObjectId:
        return self.store(function_to_frames(serializer, function))

    def task(self, function_id: ObjectId, *arguments: Any, **keywords: Any) -> RunTask:
        """Return a task; a `Reference` stands for its object."""
        named = [("", value) for value in arguments] + list(keywords.items())
        block = b"".join(
            argument_block(OBJECT, value.object_id, name)
            if isinstance(value, Reference)
            else argument_block(VALUE, bytes(to_frames(DEFAULT, value)[0]), name)
            for name, value in named
        )
        return RunTask(TaskId(self._new_id()), 0, 1, function_id, block, b"")

    @property
    def log_text(self) -> str:
        """The log of the process, including the prints of its tasks."""
        return Path(f"{self.log}.w").read_text()

    def results(self, count: int) -> list[RunResult]:
        results: list[RunResult] = []
        while len(results) < count:
            for message in self.channel.receive():
                for batch in decode(PROCESSOR_TO_AGENT, *message):
                    self.kinds += map(type, batch)
                    if type(batch) is Batch[TaskOutput]:
                        self.output += batch
                        continue
                    results += batch
                    self.arrived += [(time.monotonic(), result) for result in batch]
        return results

    def call(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> RunResult:
        self.send(self.task(self.function(function), *arguments, **keywords))
        [result] = self.results(1)
        return result


class Reference:
    def __init__(self, object_id: ObjectId) -> None:
        self.object_id = object_id


def value_of(result: RunResult) -> Any:
    assert result.status == TaskStatus.SUCCESS, TaskFailure.decode(result.payload)
    return from_frames(DEFAULT, result.frames or [result.payload])


def failure_of(result: RunResult) -> TaskFailure:
    assert result.status == TaskStatus.FAILED
    return TaskFailure.decode(result.payload)
