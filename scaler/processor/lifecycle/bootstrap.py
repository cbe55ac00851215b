"""Bootstrap: turns a forked process into a processor. Whatever all processors of a node share is made before the fork.

    fork server --Bootstrap--> logging, streams, settings --fork--> Bootstrap.run --> Processor

Little is done after the fork: a task may be waiting for the process, and the kernel copies each page of memory that the
process writes to.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import multiprocessing
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic_ns, sleep

from scaler import task_context
from scaler.pickling import pickled_classes
from scaler.process.logs import set_up_logging, share_devices
from scaler.process.user_code.descriptors import KeptDescriptors, high_duplicate
from scaler.processor.channel import Channel
from scaler.processor.execution.outputs import OutputHandler, OutputSender
from scaler.processor.execution.process_state import ProcessState
from scaler.processor.execution.streams import TaskStreams
from scaler.processor.execution.task_context import ProcessorSpec
from scaler.processor.execution.terminal import refuse_breakpoints
from scaler.processor.lifecycle import signals
from scaler.processor.lifecycle.ending import LEAVE_SECONDS, leave
from scaler.processor.lifecycle.preparation import PreparationError, initialize
from scaler.processor.processor import Processor
from scaler.processor.progress_page import ProgressPage
from scaler.settings import ClusterConfig


class Bootstrap:
    """The shared state of all processors of a node, prepared after preloading and before the first fork."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._streams = _streams(config, "any") if share_devices(config.logging) else None
        self._connect = task_context.connector(config.address)
        self._descriptors = KeptDescriptors()
        if config.authentication_key:
            multiprocessing.current_process().authkey = bytes.fromhex(config.authentication_key)

    def run(self, connection: socket.socket, progress_descriptor: int, spec: ProcessorSpec) -> None:
        """Run a processor in this freshly forked process. Return when the processor has ended."""
        config = self._config
        os.environ["SCALER_ADDRESS"] = config.address  # for processes that a task starts
        streams = self._streams or _streams(config, spec.worker)
        with contextlib.suppress(ValueError, OSError, AttributeError, RuntimeError):
            faulthandler.enable()  # reports where a segmentation fault occurred, if there is a stderr
        streams.enter()
        refuse_breakpoints()
        connection = _with_high_descriptor(connection)

        if sys.platform != "linux":  # on Linux the kernel ends it
            arguments = (connection.fileno(),)
            threading.Thread(target=_exit_with_agent, args=arguments, name="scaler-lifeline", daemon=True).start()
        connection.setblocking(True)
        progress = ProgressPage(progress_descriptor)
        os.close(progress_descriptor)
        processor = Processor(Channel(connection, remembers_blocks=True), progress, spec, config)
        handler = _forward(processor.outputs, streams, config.task_output_in_log)
        os.register_at_fork(after_in_child=streams.forked)
        os.register_at_fork(after_in_child=processor.forked)
        continued = processor.waiting.continued if config.hard_processor_suspend else None
        signals.catch_signals(processor.interrupt, processor.keyboard, continued)
        task_context.enter(processor.waiting)
        pickled_classes.accept_changes()
        processor.generators.refresh()
        processor.waiting.preparing = "an initializer"
        try:
            initialize(config.initializer)
        except PreparationError as error:
            progress.failure = str(error)
            os._exit(os.EX_CONFIG)
        processor.waiting.preparing = ""
        state = ProcessState(streams.of, self._descriptors, handler)
        after_task = _after_task(processor.outputs, streams, state)
        after_task(monotonic_ns())
        processor.run(after_task, self._connect)
        leave(connection.fileno(), partial(after_task, monotonic_ns()))


def _streams(config: ClusterConfig, worker: str) -> TaskStreams:
    """Set up logging. Return the streams that log the output of tasks."""
    set_up_logging(config.logging, worker=worker, is_strict=False)
    return TaskStreams()


def _with_high_descriptor(connection: socket.socket) -> socket.socket:
    """Move a connection to a high descriptor, if one is free, because user code rarely closes high descriptors."""
    with contextlib.suppress(OSError):
        moved = socket.socket(fileno=high_duplicate(connection.fileno()))
        connection.close()
        return moved
    return connection


def _forward(outputs: OutputSender, streams: TaskStreams, logs_tasks: bool) -> OutputHandler:
    """Forward the output of tasks to the agent, and log it if `logs_tasks`. Return the handler for records of tasks."""
    streams.forward, streams.logs_tasks = outputs.send_line, logs_tasks
    if not logs_tasks:
        for handler in logging.getLogger().handlers:
            handler.addFilter(outputs.belongs_in_log)
    own = OutputHandler(outputs)
    logging.getLogger().addHandler(own)
    return own


def _after_task(outputs: OutputSender, streams: TaskStreams, state: ProcessState) -> Callable[[int], None]:
    """Return the function to call after each task, which takes the start time of the task."""
    held, written, timer_handler, ignore = outputs.held, streams.written, signals.timer_handler, signals.ignore
    output, error, next_check_ns = sys.stdout, sys.stderr, 0

    def after_task(started_ns: int) -> None:
        nonlocal output, error, next_check_ns
        if written:
            streams.after_task()
        if held:
            outputs.after_task()
        try:
            is_due = started_ns >= next_check_ns or sys.stdout is not output or sys.stderr is not error
        except AttributeError:  # a task has deleted one
            is_due = True
        if is_due:
            output, error, next_check_ns = state.restore(started_ns)
        if timer_handler() is not ignore:
            signals.stop_timer()

    return after_task


def _exit_with_agent(channel: int) -> None:
    """Wait until the agent has closed its end of the channel, and exit soon after, whatever the main thread does."""
    poll = select.poll()
    poll.register(channel, 0)
    poll.poll()
    sleep(LEAVE_SECONDS)
    os._exit(1)
