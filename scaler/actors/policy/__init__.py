"""Policy: decides where tasks go. A plain value behind one interface.

interface the calls of the balancer, and the decisions that it gets placement the policy: durations, places, refusals
and rounds, over some order of tasks in_order first come, first served: `fifo`, and the order within one client
fair_share client by client in turn: `fair` choosy the tasks that ask for more than a place, and turns between kinds of
them
"""

from scaler.actors.policy.interface import Decisions, Policy, Ready, Spec
from scaler.actors.policy.needs import Needs, Offer, needs_of
from scaler.actors.policy.placement import Placement, make_policy
from scaler.actors.policy.places import MAP_AHEAD_US, WORK_AHEAD_US
from scaler.actors.policy.rounds import LOOK_SECONDS
from scaler.actors.policy.rules import FAIR, FIFO, Rules

__all__ = [
    "FAIR",
    "FIFO",
    "LOOK_SECONDS",
    "MAP_AHEAD_US",
    "WORK_AHEAD_US",
    "Decisions",
    "Needs",
    "Offer",
    "Placement",
    "Policy",
    "Ready",
    "Rules",
    "Spec",
    "make_policy",
    "needs_of",
]
