"""Policy: decides which worker runs which task. A plain value behind one interface; only the balancer calls it.

`placement` is the policy, over an order of tasks: `in_order` (`fifo`, and within one client) or `fair_share` (`fair`).
`constrained` has the tasks that ask for resources, and `worker_loads` knows who has room. Never here: messages, actors,
clocks.
"""

from scaler.actors.policy.interface import Decisions, Policy, Ready, Spec
from scaler.actors.policy.needs import Needs, Offer, needs_of
from scaler.actors.policy.placement import Placement, make_policy
from scaler.actors.policy.rounds import LOOK_SECONDS
from scaler.actors.policy.worker_loads import WORK_AHEAD_US

__all__ = [
    "LOOK_SECONDS",
    "WORK_AHEAD_US",
    "Decisions",
    "Needs",
    "Offer",
    "Placement",
    "Policy",
    "Ready",
    "Spec",
    "make_policy",
    "needs_of",
]
