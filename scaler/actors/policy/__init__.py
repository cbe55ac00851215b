"""Policy: decides which worker runs which task. A plain value without actors or clocks; only the balancer calls it.

`placement` is the policy. `fair_share` orders the tasks of several clients, and `in_order` those of one client.
`constrained` has the tasks that request resources, and `worker_loads` has the load of each worker.
"""

from scaler.actors.policy.decisions import Decisions
from scaler.actors.policy.placement import Placement, make_policy
from scaler.actors.policy.rounds import LOOK_SECONDS
from scaler.actors.policy.worker_loads import WORK_AHEAD_US
from scaler.actors.vocabulary.needs import Needs, Offer, needs_of

__all__ = [
    "LOOK_SECONDS",
    "WORK_AHEAD_US",
    "Decisions",
    "Needs",
    "Offer",
    "Placement",
    "make_policy",
    "needs_of",
]
