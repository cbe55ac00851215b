"""Between an agent and the scheduler. As `protocol/worker.capnp`."""

from __future__ import annotations

import struct

from scaler.ids import NO_ID
from scaler.message import message
from scaler.wire.messages.columns import (
    I32,
    U8,
    U16,
    U32,
    U64,
    Bytes,
    FrameColumn,
    Id,
    ObjectIdColumn,
    TaskIdColumn,
    Text,
)
from scaler.wire.messages.common import StatusColumn

HELD_RUN = struct.Struct("<16sIH")
"""A task that an agent still has: its id, the attempt and the worker."""


@message
class WorkerHello:
    """The first message of a cluster's agent on every connection."""

    protocol_version: U16
    package_version: Text
    python_version: Text
    cloudpickle_version: Text
    agent_id: Id
    """random, known to the agent and the scheduler only: with it an agent takes up its workers on a new connection"""
    worker_names: Text
    """one per worker slot, separated by commas; a worker is addressed by its position in this list"""
    held: Bytes
    """the tasks that the agent still has, unacknowledged results included: `HELD_RUN` records, one after the other"""
    agent_token: Id = NO_ID
    """random, known to the agent, its processors and the scheduler: the clients inside its tasks show it"""


@message
class RunTask:
    """Run a task on one of the agent's workers."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    """no other run of this scheduler has the same number; later ones are greater, modulo 2**32"""
    function_id: ObjectIdColumn
    payload: Bytes
    object_ids: Bytes
    priority: I32 = 0
    """as in `Task`"""
    name: Text = ""
    """as in `Task`"""
    options: Bytes = b""
    """as in `Task`"""
    account: U32 = 0
    """on whose share it runs: a number that the scheduler gives each client that is not inside a task. Tasks that this
    one submits are on the same"""


@message
class RunCancel:
    """Drop the task from the worker's queue, or stop it; its result says what became of it."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@message
class RecallRequest:
    """Others are idle: give the task back, unless its processor has it. Whatever is not given back stays."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@message
class RecallResponse:
    """The task did not start here, and is the scheduler's again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@message
class RunResult:
    """How one run of a task ended. The agent keeps it until the scheduler says that it was received."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32
    status: StatusColumn
    payload: Bytes
    duration_us: U32
    """wall time of the call, capped at the largest value"""
    frames: FrameColumn
    """the result, if it is too large for the payload"""
    profile: Bytes = b""
    """a `PROFILE`, if it was measured"""


@message
class RunBlocked:
    """The task waits for others and gives up its place. Said again on a new connection, while it waits."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@message
class RunUnblocked:
    """The task does not wait any more and takes its place again."""

    task_id: TaskIdColumn
    worker: U16
    attempt: U32


@message
class ResultsReceived:
    """The scheduler has so many results of this connection; the agent may forget them."""

    total: U64


@message
class WorkerHeartbeat:
    """I am here."""

    sent_ns: U64


@message
class WorkerHeartbeatEcho:
    """So am I."""

    sent_ns: U64


@message
class ProcessorGone:
    """A processor has ended, and the clients in it with it. Said again on each new connection, for the latest ones."""

    processor: U32


@message
class ProcessorNews:
    """Whether there is anything on the way to a client inside a processor that only waits."""

    processor: U32
    wait: U32
    """as in `ClientResting`"""
    has_news: U8
    """1: something was said to it; 0: nothing, and all that it has said has arrived: it may be stopped"""


@message
class DrainRequest:
    """The agent will leave: give it no new tasks. It gives back those that wait, and leaves after the others."""

    reason: Text


@message
class DisconnectRequest:
    """The agent leaves: take back what it has not finished."""

    reason: Text


@message
class DisconnectResponse:
    """The agent is free to go; or, unasked, is told to."""

    reason: Text
