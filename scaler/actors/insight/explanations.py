"""Explanations: what an open task waits for, as a word, and as a sentence that tells people what to do.

The part that has the task (the task, its graph, the balancer or its worker proxy) answers or forwards a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from scaler.actors.graphs.graph_node import GraphNodeState
from scaler.actors.insight.recent_runs import RecentRuns
from scaler.actors.messages.tasks import (
    NOT_KNOWN,
    ExplainForAdmin,
    ExplainInput,
    ExplainNode,
    ExplainRun,
    ExplainTask,
    Tries,
    age,
)
from scaler.actors.policy.interface import Capacity
from scaler.actors.tasks.task_states import CANCELING, DELAYED, LEAVING, READY, RETURNING, RUNNING, State, shown_state
from scaler.actors.workers.runs import RunRecord
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.client import ExplainResponse, GraphInput
from scaler.wire.messages.common import RunState
from scaler.wire.messages.priority import user_priority_of
from scaler.wire.messages.vocabulary import (
    CANCEL,
    CHILDREN,
    INPUTS,
    LAST_SCHEDULER,
    NO_ROOM,
    NO_WORKER,
    NOT_ABLE,
    RETRY,
    TAKEN,
    TURN,
    UNKNOWN,
    WORKER,
    Reason,
)
from scaler.wire.messages.worker import RunStatus

DEPENDENCIES_MOST = 1000
"""Limit of the dependencies of one node that are examined."""
STEPS_MOST = 100
"""The length up to which a chain of nodes is followed. In a chain, each node waits for the next."""
SHOWN_SECONDS = 1.0
UINT64_MOST = 2**64 - 1


def explain(
    question: ExplainTask,
    state: State,
    found: tuple[Reason, str],
    tries: Tries = NOT_KNOWN,
    worker: str = "",
    seconds: float = 0.0,
) -> None:
    """Answer a question about this task, or about a task that waits for this task (`question.because`).

    Args:
        seconds: for how long, at least, this task has been in its state; 0: unknown.
    """
    if state is READY and seconds >= SHOWN_SECONDS:
        who = "that node" if question.because else "it"
        found = found[0], f"{found[1]}; {who} has waited for {age(seconds)}"
    sentence = found[1]
    if question.because:
        state, tries, worker, seconds = READY, NOT_KNOWN, "", question.seconds
        sentence = question.because + (sentence[3:] if sentence.startswith("it ") else f"waits: {sentence}")
    shown = shown_state(state)
    past, milliseconds = tries.shown(question.asked_at), min(int(seconds * 1000), UINT64_MOST)
    answer = ExplainResponse(question.task_id, shown, found[0], sentence, worker, tries.number, past, milliseconds)
    question.asker.send(answer)


def explain_node(question: ExplainTask, reason: Reason, sentence: str) -> None:
    """Answer a question about a node that has not become a task."""
    explain(question, READY, (reason, sentence))


def unknown_task(question: ExplainTask, worker: str) -> ExplainResponse:
    """Return the answer about a task that the session does not have. `worker`: where the task ran; empty: unknown."""
    sentence = "the scheduler does not have it: it has just ended, or has not arrived yet"
    return ExplainResponse(question.task_id, "", UNKNOWN, sentence, worker)


def ask_next(question: ExplainTask, sessions: Iterator[ActorRef], recent_runs: RecentRuns) -> None:
    """Forward an admin's question to the next open client session. Answer the question if no session is left."""
    session = next((each for each in sessions if not each.is_stopped()), None)
    if session is None:
        question.asker.send(unknown_task(question, recent_runs.worker_of(question.task_id)))
    else:
        session.send(ExplainForAdmin(question, sessions))


def queue_reason(found: Capacity) -> tuple[Reason, str]:
    """Return what a task in the balancer's queue waits for."""
    if not found.workers:
        return NO_WORKER, "no worker is connected to the scheduler; start workers with scaler_cluster ADDRESS"
    if found.missing:
        return NOT_ABLE, f"no worker can take it: {found.missing}"
    if found.asked and not (found.has_free and found.with_room):
        taken = "and other tasks use all of it" if not found.has_free else "but where it is free, all workers are full"
        have = "the worker has" if found.able == 1 else f"{found.able:,} workers have"
        return NO_ROOM if found.has_free else TAKEN, (
            f"it asks for {found.asked}; {have} that, {taken}; it starts when other tasks have ended, and "
            "earlier with more such workers"
        )
    if found.with_room:
        return TURN, "a worker has a free place, and receives it in a moment"
    are = "the one worker is" if found.workers == 1 else f"all {found.workers:,} workers are"
    if found.held:
        and_are = "and is" if found.workers == 1 else f"and {found.held:,} of them {'is' if found.held == 1 else 'are'}"
        return NO_ROOM, (
            f"{are} full, {and_are} paused, because memory and disk for values are full there. It starts when results "
            "are read or their futures dropped, and earlier with more object_memory_bytes or spill_bytes"
        )
    return NO_ROOM, (
        f"{are} full, with {found.tasks:,} task{'s' * (found.tasks != 1)}; it starts when some of these have ended, "
        "and earlier with more workers"
    )


def of_low_priority(found: tuple[Reason, str], priority: int) -> tuple[Reason, str]:
    """Return the explanation `found`, with the priority added if a negative priority makes the task wait longer."""
    wish = user_priority_of(priority)
    if wish >= 0 or found[0] not in (NO_ROOM, TAKEN):
        return found
    return found[0], f"{found[1]}; its priority is {wish}, so all tasks of its client with a higher one go first"


NODE_REASON = INPUTS, "it needs results of other nodes of its graph that are not available yet"
"""The usual explanation of a graph node that is not a task yet. The answer about a single node has more detail."""

_OWN: dict[State, tuple[Reason, str]] = {
    RETURNING: (
        LAST_SCHEDULER,
        "its client had another scheduler before, and a worker may already run it; this is known in a few seconds",
    ),
    LEAVING: (
        LAST_SCHEDULER,
        "a worker of the last scheduler already has it, and the scheduler is taking over its run",
    ),
    DELAYED: (RETRY, "it raised an exception, and runs again after a pause (its options retries and retry_delay)"),
    CANCELING: (CANCEL, "it was cancelled, and its worker is stopping it"),
}
_CANCELED_IN_QUEUE = (CANCEL, "it was cancelled while it waited, and is about to end")


def explain_unassigned(question: ExplainTask, state: State, tries: Tries) -> None:
    """Answer a question about a task that is neither in the queue nor at a worker."""
    seconds = question.asked_at - tries.past[-1].at if state is DELAYED and tries.past else 0.0
    explain(question, state, _OWN.get(state, _CANCELED_IN_QUEUE), tries, seconds=seconds)


def explain_run(
    asked: ExplainRun, name: str, runs: Mapping[TaskId, RunRecord], is_cut: bool, where: RunStatus | None = None
) -> None:
    """Answer a question about a task at a worker, unless the run of the task has ended.

    Args:
        runs: the tasks of the worker.
        is_cut: whether the connection of the worker's agent is lost.
        where: the agent's report on the run; None if the agent has not reported.
    """
    run = runs.get(asked.task_id)
    if run is None:
        return
    state = CANCELING if run.canceled else RUNNING
    is_known = where is not None and where.state in (RunState.RUNS, RunState.WAITS)
    seconds = where.run_ms / 1000 if where is not None and is_known else 0.0
    if where is not None and not (is_cut or run.canceled or run.released):
        found = _as_the_agent_reports(name, len(runs), where)
    else:
        found = _at_worker(name, len(runs), run.released > 0, run.canceled, is_cut)
    explain(asked.question, state, found, asked.tries, name, seconds)


def _as_the_agent_reports(name: str, tasks: int, where: RunStatus) -> tuple[Reason, str]:
    if where.state == RunState.RUNS:
        process = f" in process {where.pid}" if where.pid else ""
        return WORKER, f"it runs at worker {name}{process}, and has run for {age(where.run_ms / 1000)}"
    if where.state == RunState.NO_ROOM:
        return WORKER, (
            f"it has not started: worker {name} is paused, because memory and disk for values are full on its host. "
            "The worker resumes when results there are read or their futures dropped; if that does not help, give its "
            "cluster more object_memory_bytes or spill_bytes"
        )
    if where.state == RunState.QUEUED and tasks > 1:
        ahead = f"{tasks - 1:,} other task{'s' * (tasks != 2)}"
        first = f"; the running one has run for {age(where.run_ms / 1000)}" if where.run_ms else ""
        return WORKER, (
            f"it has not started: worker {name} has {ahead}, and runs one at a time{first}; it moves when another "
            "worker is idle"
        )
    return _at_worker(name, tasks, is_blocked=False, is_canceled=False, is_cut=False)


def _at_worker(name: str, tasks: int, is_blocked: bool, is_canceled: bool, is_cut: bool) -> tuple[Reason, str]:
    if is_cut:
        return WORKER, (
            f"worker {name} has it, but its connection is lost; the scheduler waits for that worker to reconnect, and "
            "otherwise runs the task elsewhere"
        )
    if is_canceled:
        return CANCEL, f"it was cancelled, and worker {name} is stopping it"
    if is_blocked:
        return (
            CHILDREN,
            f"it is blocked at worker {name}, because it waits for tasks that it has submitted itself; ask about those",
        )
    if tasks <= 1:
        return WORKER, (
            f"worker {name} has it and nothing else: it runs there, or its arguments are on their way there, or its "
            "worker process is starting"
        )
    return WORKER, (
        f"worker {name} has it and {tasks - 1:,} other task{'s' * (tasks != 2)}, and runs one at a time; tasks "
        "that have not started there move when another worker is idle"
    )


def follow(
    asked: ExplainNode,
    nodes: Sequence[GraphNodeState],
    running: Mapping[TaskId, tuple[int, ActorRef]],
    inputs: Mapping[TaskId, GraphInput],
    session: ActorRef,
    since: float,
) -> None:
    """Follow the inputs of a node to the first task that runs or can run, and forward the question to that task.

    Args:
        running: the nodes that are tasks now.
        inputs: the nodes that are results of other tasks; the session forwards a question about such a node.
        since: when the scheduler received the graph.
    """
    question, position = asked.question, asked.position
    for _ in range(STEPS_MOST):
        node = nodes[position] if position < len(nodes) else None
        if node is None or node.status is not None:
            return  # its result is on its way
        if node.task_id in running:
            running[node.task_id][1].send(question)
            return
        if node.task_id in inputs:
            if question.hops >= STEPS_MOST:
                break
            session.send(ExplainInput(replace(question, hops=question.hops + 1), inputs[node.task_id]))
            return
        missing = missing_inputs(node, nodes)
        if not missing:
            explain_node(question, TURN, "its arguments are available, and it is about to start")
            return
        if not question.because:
            seconds = question.asked_at - since
            because = for_inputs(len(missing), len(node.dependencies), seconds)
            question = replace(question, because=because, seconds=seconds)
        position = missing[0]
    explain_node(question, INPUTS, f"it waits for a chain of more than {STEPS_MOST} nodes")


def missing_inputs(node: GraphNodeState, nodes: Sequence[GraphNodeState]) -> list[int]:
    """Return the positions of the missing inputs of a node, among its first `DEPENDENCIES_MOST` inputs."""
    return [each for each in islice(node.dependencies, DEPENDENCIES_MOST) if nodes[each].status is None]


def for_inputs(missing: int, all_of_them: int, seconds: float) -> str:
    """Return the start of a sentence about a node that waits for other nodes."""
    wants = f"it has waited for {age(seconds)} for" if seconds >= SHOWN_SECONDS else "it needs"
    if all_of_them == 1:
        return f"{wants} the result of another node, which "
    return f"{wants} the results of {missing:,} of {all_of_them:,} other nodes; one of them "
