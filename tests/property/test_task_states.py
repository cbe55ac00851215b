"""Whatever happens to a task, in whatever order: only what the table allows comes of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.messages.adoption import NotHeld, RunAdopted, RunFound
from scaler.actors.messages.tasks import (
    BalancerRestarted,
    CancelTask,
    RunLost,
    RunRecalled,
    TaskAssigned,
    TaskNotWaiting,
    TaskRefused,
    TaskWithdrawn,
)
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary import task_states
from scaler.actors.vocabulary.task_states import (
    FINAL,
    IGNORED,
    READY,
    TRANSITIONS,
    Event,
    IllegalTaskTransitionError,
    next_state,
)
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.jobs.terms import LiveCounts
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult
from tests.support.bench import Bench
from tests.support.services import services

EVENTS = sorted({event for row in TRANSITIONS.values() for event in row} | {event for _, event in IGNORED})


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_only_transitions_of_the_table_happen(events: list[Event]) -> None:
    state = READY
    for event in events:
        if state in FINAL:
            break
        before = {known: dict(row) for known, row in TRANSITIONS.items()}
        try:
            following = next_state(state, event)
        except IllegalTaskTransitionError:
            assert event not in TRANSITIONS[state]
            assert (state, event) not in IGNORED
            following = None
        else:
            assert following == TRANSITIONS[state].get(event)
            assert following is not None or (state, event) in IGNORED
        assert before == TRANSITIONS
        state = following or state


@given(st.sampled_from(sorted(FINAL)), st.sampled_from(EVENTS))
def test_nothing_leads_out_of_a_final_state(state: Any, event: Event) -> None:
    assert state not in TRANSITIONS
    with pytest.raises(KeyError):
        next_state(state, event)


RETRIES = RunOptions(retries=2, retry_on=("Exception",), retry_delay_ms=500).encode()
RAISED = TaskFailure("ValueError", "bad", "", b"", ("Exception",)).encode()
NEWS = (
    "assigned", "finished", "lost", "cancel", "withdrawn", "not waiting", "refused", "returned", "restarted",
    "found", "adopted", "not held", "raised", "a pause",
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(NEWS), st.integers(-1, 1), st.sampled_from(TaskStatus)), max_size=40))
def test_a_task_follows_the_table_or_fails_and_ends_at_most_once(story: list[tuple[str, int, TaskStatus]]) -> None:
    bench = Bench()
    session, session_ref = bench.recorder()
    _, balancer = bench.recorder()
    _, store = bench.recorder()
    _, worker = bench.recorder()
    _, adoption = bench.recorder()
    task_id = TaskId(b"t" * 16)
    context = ClientContext(services(balancer, store), session_ref, ClientId(b"c" * 16), 0, adoption, live=LiveCounts())
    actor = TaskActor(Task(task_id, ObjectId(b"f" * 16), b"", b"", options=RETRIES), context)
    logging.disable(logging.CRITICAL)
    try:
        ref = bench.dispatcher.spawn(actor, session_ref)
        for kind, shift, status in story:
            if ref.is_stopped():
                break
            attempt, before = max(0, actor._attempt + shift), actor.state
            messages = {
                "assigned": TaskAssigned(worker, {ref: attempt}),
                "finished": RunResult(task_id, 0, attempt, status, b"", 0, ()),
                "raised": RunResult(task_id, 0, attempt, TaskStatus.FAILED, RAISED, 0, ()),
                "found": RunFound(worker, attempt),
                "adopted": RunAdopted(worker, attempt),
                "not held": NotHeld(),
                "lost": RunLost(attempt, "alpha", was_running=True),
                "cancel": CancelTask(),
                "withdrawn": TaskWithdrawn(),
                "not waiting": TaskNotWaiting(),
                "returned": RunRecalled(attempt),
                "refused": TaskRefused(attempt, "too many wait"),
                "restarted": BalancerRestarted(attempt),
            }
            if kind == "a pause":
                bench.advance(1)
            else:
                bench.tell(ref, messages[kind])
            after = actor.state
            if bench.dispatcher.failures:
                assert after is before
                break
            assert after is before or after in TRANSITIONS[before].values()
            assert context.live is not None
            assert context.live.running == (after in (task_states.RUNNING, task_states.CANCELING))
            assert ref.is_stopped() == (after in FINAL)
    finally:
        logging.disable(logging.NOTSET)
    done = [mail for mail in session.messages if type(mail) is TaskResult]
    assert len(done) == (1 if actor.state in FINAL else 0)
    assert actor.state in (*task_states.TRANSITIONS, *FINAL)
    assert (
        sum(context.ended_of[ObjectId(b"f" * 16)]) == sum(context.events.ended) == len(done) + bench.dispatcher.failures
    )
