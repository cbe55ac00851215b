"""Where tasks go: the policy, a plain value behind one interface, and the rules that it follows.

interface    what the balancer calls, and what it is told to do
placement    the policy: durations, places, refusals and rounds, over some order of tasks
in_order     first come, first served: `fifo`, and the order within one client
fair_share   client by client in turn: `fair`
"""

from scaler.actors.policy.interface import Decisions, Policy, Ready, Spec
from scaler.actors.policy.placement import Placement, make_policy
from scaler.actors.policy.places import WORK_AHEAD_US
from scaler.actors.policy.rounds import LOOK_SECONDS
from scaler.actors.policy.rules import FAIR, FIFO, Rules

__all__ = [
    "FAIR",
    "FIFO",
    "LOOK_SECONDS",
    "WORK_AHEAD_US",
    "Decisions",
    "Placement",
    "Policy",
    "Ready",
    "Rules",
    "Spec",
    "make_policy",
]
