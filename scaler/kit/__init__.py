"""The kernel: actors, their dispatcher, timers and supervisors, on Pykka's hooks. The kernel knows nothing of tasks.

All actors of schedulers, agents and executors inherit from the `Actor` of this package.
docs/explanation/actor-semantics.md lists the guarantees.
"""

from scaler.kit.actor import Actor, ActorRef, SupervisedRef, charged_to, handles
from scaler.kit.clock import Clock, Timer
from scaler.kit.dispatcher import Dispatcher
from scaler.kit.lifecycle import (
    ActorStoppedError,
    ChildFailed,
    ChildStopped,
    ExplainedError,
    MessageRefused,
    UnknownMessageError,
)
from scaler.kit.supervisor import (
    BackOff,
    ChildSpec,
    Peers,
    Restart,
    RestartBudget,
    RestartBudgetExceededError,
    Strategy,
    Supervisor,
)

__all__ = [
    "Actor",
    "ActorRef",
    "ActorStoppedError",
    "BackOff",
    "ChildFailed",
    "ChildSpec",
    "ChildStopped",
    "Clock",
    "Dispatcher",
    "ExplainedError",
    "MessageRefused",
    "Peers",
    "Restart",
    "RestartBudget",
    "RestartBudgetExceededError",
    "Strategy",
    "SupervisedRef",
    "Supervisor",
    "Timer",
    "UnknownMessageError",
    "charged_to",
    "handles",
]
