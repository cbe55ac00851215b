"""Result coalescing: which results wait a moment for others, so that several travel in one message.

Asked by the link for each batch of results. Each message wakes the scheduler, the client and this agent once more, on
cores that tasks could use. So the result of a task that says `together` waits while its worker has enough to do, and
leaves with whatever is said next.

Must never: let a worker run short of tasks, or keep a result that anybody may be waiting for alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler.agent.ledger import Ledger
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

WAIT_SECONDS = 0.08
"""No result waits longer than this. The scheduler counts its task for so long as work of the worker."""
LEFT_US = 25_000
"""While the rest of its queue is expected to take so long, a worker can wait for further tasks: half of what the
scheduler sends ahead when several clients wait."""
LEFT_TASKS = 2
"""The rest is so many tasks at least: one that runs, and one in the processor that goes on when that has ended."""


def may_wait_for_others(results: Sequence[RunResult], ledger: Ledger) -> bool:
    """Return whether these results, which the ledger has not seen yet, may wait. They are of one worker."""
    if not results:
        return False
    last = results[-1]
    left = ledger.not_blocked_at(last.worker) - len(results)
    if left < LEFT_TASKS or left * last.duration_us < LEFT_US:
        return False
    for result in results:
        if result.status != TaskStatus.SUCCESS or result.frames:
            return False
        task = ledger.find(result.task_id, result.attempt)
        if task is None or not task.together:
            return False
    return True
