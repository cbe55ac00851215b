"""Which messages may travel which way: this page is the protocol.

Each direction is a union of the schemas that has its name.

client --> scheduler --> client         CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
agent --> scheduler --> agent           AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
processor --> agent --> processor       PROCESSOR_TO_AGENT, AGENT_TO_PROCESSOR
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scaler.wire.messages.client import (
    ClientDisconnects,
    ClientHeartbeatEchos,
    ClientHeartbeats,
    ClientHellos,
    ClientShutdownResponses,
    ClientsResting,
    GraphNodes,
    GraphTaskCancels,
    GraphTasks,
    TaskCancels,
    TaskResults,
    Tasks,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    HelloReplies,
    HelloRequests,
    ObjectInstructions,
    ObjectRequests,
    ObjectResponses,
    ObjectsKept,
)
from scaler.wire.messages.processor import (
    CollectGarbageBatch,
    EndProcessors,
    ProcessorsReady,
    ResumeRequests,
    ResumeTasks,
    TasksBlocked,
    TasksUnblocked,
)
from scaler.wire.messages.worker import (
    DisconnectRequests,
    DisconnectResponses,
    ProcessorsGone,
    ProcessorsNews,
    RecallRequests,
    RecallResponses,
    ResultsReceivedBatch,
    RunCancels,
    RunResults,
    RunsBlocked,
    RunsUnblocked,
    RunTasks,
    WorkerHeartbeatEchos,
    WorkerHeartbeats,
    WorkerHellos,
)


@dataclass(frozen=True)
class Direction:
    """The messages that may travel one way, and the schema's name for the union of them."""

    name: str
    schema: str
    number: int
    """written into every message, so that a message is never read as one of another direction"""
    batches: Sequence[type[Batch[Any]]]


CLIENT_TO_SCHEDULER = Direction(
    "ClientToScheduler",
    "client",
    1,
    (
        ClientHellos,
        Tasks,
        TaskCancels,
        ObjectInstructions,
        ObjectRequests,
        ClientHeartbeats,
        ClientDisconnects,
        GraphTasks,
        GraphNodes,
        GraphTaskCancels,
        ClientsResting,
    ),
)
SCHEDULER_TO_CLIENT = Direction(
    "SchedulerToClient",
    "client",
    2,
    (
        HelloReplies,
        HelloRequests,
        TaskResults,
        ObjectResponses,
        ClientHeartbeatEchos,
        ClientShutdownResponses,
        ObjectRequests,
    ),
)
AGENT_TO_SCHEDULER = Direction(
    "AgentToScheduler",
    "worker",
    3,
    (
        WorkerHellos,
        RunResults,
        ObjectRequests,
        WorkerHeartbeats,
        DisconnectRequests,
        ObjectsKept,
        ProcessorsGone,
        RecallResponses,
        RunsBlocked,
        RunsUnblocked,
    ),
)
SCHEDULER_TO_AGENT = Direction(
    "SchedulerToAgent",
    "worker",
    4,
    (
        HelloReplies,
        HelloRequests,
        RunTasks,
        RunCancels,
        ObjectResponses,
        ObjectInstructions,
        ResultsReceivedBatch,
        WorkerHeartbeatEchos,
        DisconnectResponses,
        RecallRequests,
        ProcessorsNews,
    ),
)
AGENT_TO_PROCESSOR = Direction(
    "AgentToProcessor",
    "processor",
    5,
    (RunTasks, ObjectResponses, ObjectInstructions, CollectGarbageBatch, ResumeTasks, EndProcessors),
)
PROCESSOR_TO_AGENT = Direction(
    "ProcessorToAgent", "processor", 6, (ProcessorsReady, RunResults, TasksBlocked, ResumeRequests, TasksUnblocked)
)
DIRECTIONS = (
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_CLIENT,
    AGENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    AGENT_TO_PROCESSOR,
    PROCESSOR_TO_AGENT,
)
