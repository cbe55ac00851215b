"""Directions: which messages may travel which way.

Each direction is a union of the same name in the schemas.

client --> scheduler --> client         CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
agent --> scheduler --> agent           AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
processor --> agent --> processor       PROCESSOR_TO_AGENT, AGENT_TO_PROCESSOR
scheduler --> monitor                   SCHEDULER_TO_MONITOR
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientHello,
    ClientResting,
    ClientShutdownResponse,
    ExplainRequest,
    ExplainResponse,
    GraphInput,
    GraphNode,
    GraphTask,
    GraphTaskCancel,
    InfoRequest,
    InfoResponse,
    OutputLine,
    OutputRequest,
    OutputResponse,
    Task,
    TaskCancel,
    TaskResult,
    WorkerInfo,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    Chunk,
    HelloReply,
    HelloRequest,
    ObjectInstruction,
    ObjectKept,
    ObjectRequest,
    ObjectResponse,
)
from scaler.wire.messages.monitor import (
    StateAgent,
    StateBins,
    StateClient,
    StateCount,
    StateEvent,
    StateFailure,
    StateFunction,
    StateGraph,
    StateHead,
    StateLine,
    StateMove,
    StateNode,
    StateObject,
    StateProcessors,
    StateScheduler,
    StateTask,
    StateWaiting,
)
from scaler.wire.messages.processor import (
    CollectGarbage,
    EndProcessor,
    EngineCapacity,
    EngineDown,
    ProcessorReady,
    ResumeRequest,
    ResumeTask,
    TaskBlocked,
    TaskOutput,
    TaskUnblocked,
)
from scaler.wire.messages.worker import (
    AgentState,
    DisconnectRequest,
    DisconnectResponse,
    DrainRequest,
    LeaveRequest,
    ProcessorGone,
    ProcessorNews,
    RecallRequest,
    RecallResponse,
    RestartRequest,
    RunBlocked,
    RunCancel,
    RunOutput,
    RunQuestion,
    RunResult,
    RunStanding,
    RunTask,
    RunUnblocked,
    WatchRequest,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
    WorkersClosed,
)


@dataclass(frozen=True)
class Direction:
    """The messages that may travel one way, and the schema's name for the union of them."""

    name: str
    schema: str
    number: int
    """written into every message, so that it is never read as one of another direction"""
    items: Sequence[type]
    """in the order of the union"""

    @property
    def batches(self) -> list[type[Batch[Any]]]:
        """The classes in which they arrive."""
        return [Batch.__class_getitem__(item) for item in self.items]


CLIENT_TO_SCHEDULER = Direction(
    "ClientToScheduler",
    "client",
    1,
    (
        ClientHello,
        Task,
        TaskCancel,
        ObjectInstruction,
        ObjectRequest,
        ClientHeartbeat,
        ClientDisconnect,
        GraphTask,
        GraphNode,
        GraphTaskCancel,
        ClientResting,
        Chunk,
        InfoRequest,
        ExplainRequest,
        GraphInput,
        OutputRequest,
    ),
)
SCHEDULER_TO_CLIENT = Direction(
    "SchedulerToClient",
    "client",
    2,
    (
        HelloReply,
        HelloRequest,
        TaskResult,
        ObjectResponse,
        ClientHeartbeatEcho,
        ClientShutdownResponse,
        ObjectRequest,
        Chunk,
        InfoResponse,
        WorkerInfo,
        ExplainResponse,
        OutputLine,
        OutputResponse,
    ),
)
AGENT_TO_SCHEDULER = Direction(
    "AgentToScheduler",
    "worker",
    3,
    (
        WorkerHello,
        RunResult,
        ObjectRequest,
        WorkerHeartbeat,
        DisconnectRequest,
        ObjectKept,
        ProcessorGone,
        RecallResponse,
        RunBlocked,
        RunUnblocked,
        DrainRequest,
        Chunk,
        AgentState,
        RunOutput,
        RunStanding,
        WorkersClosed,
    ),
)
SCHEDULER_TO_AGENT = Direction(
    "SchedulerToAgent",
    "worker",
    4,
    (
        HelloReply,
        HelloRequest,
        RunTask,
        RunCancel,
        ObjectResponse,
        ObjectInstruction,
        WorkerHeartbeatEcho,
        DisconnectResponse,
        RecallRequest,
        ProcessorNews,
        Chunk,
        WatchRequest,
        RestartRequest,
        RunQuestion,
        LeaveRequest,
    ),
)
AGENT_TO_PROCESSOR = Direction(
    "AgentToProcessor",
    "processor",
    5,
    (RunTask, ObjectResponse, ObjectInstruction, CollectGarbage, ResumeTask, EndProcessor, RunCancel),
)
PROCESSOR_TO_AGENT = Direction(
    "ProcessorToAgent",
    "processor",
    6,
    (ProcessorReady, RunResult, TaskBlocked, ResumeRequest, TaskUnblocked, EngineDown, TaskOutput, EngineCapacity),
)
SCHEDULER_TO_MONITOR = Direction(
    "SchedulerToMonitor",
    "monitor",
    7,
    (
        StateHead,
        StateScheduler,
        StateCount,
        StateClient,
        StateAgent,
        StateProcessors,
        StateFunction,
        StateBins,
        StateFailure,
        StateTask,
        StateMove,
        StateGraph,
        StateNode,
        StateObject,
        StateEvent,
        StateLine,
        StateWaiting,
    ),
)
DIRECTIONS = (
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_CLIENT,
    AGENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    AGENT_TO_PROCESSOR,
    PROCESSOR_TO_AGENT,
    SCHEDULER_TO_MONITOR,
)
