"""ClientContext: what the tasks of a client have in common.

Made by its client session, and handed to all its tasks and graphs. Must never: know a single task.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Protocol

from scaler.actors.insight.events import Events
from scaler.actors.peers.attempt_times import AttemptTimes
from scaler.actors.policy.needs import Needs, needs_of
from scaler.actors.tasks.unstarted import Unstarted
from scaler.ids import ClientId, GraphId
from scaler.kit import ActorRef


class Options(Protocol):
    """What a task asks for, as far as its actor has to know."""

    @property
    def at_most_once(self) -> bool: ...

    @property
    def was_said(self) -> bool: ...

    @property
    def retries(self) -> int: ...

    @property
    def retry_on(self) -> tuple[str, ...]: ...

    @property
    def retry_delay_ms(self) -> int: ...

    @property
    def capabilities(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def no_worker_timeout_ms(self) -> int: ...

    @property
    def worker(self) -> str: ...

    def retry_reason(self, failure: bytes) -> str: ...


class ClientContext:
    """The common part of a client's tasks: their collaborators, their crash limit and their account.

    Args:
        read_options: returns what the bytes of a task's options ask for.
        adoption: asked first whether an agent has a run of a task; None if its client has had no other scheduler.
    """

    __slots__ = (
        "account", "adoption", "attempt_times", "balancer", "client_id", "crash_limit", "ended", "events", "graph_id",
        "next_attempt", "object_store", "read_options", "session", "since", "unstarted",
    )  # fmt: skip

    def __init__(
        self,
        session: ActorRef,
        balancer: ActorRef,
        object_store: ActorRef,
        events: Events,
        client_id: ClientId,
        crash_limit: int,
        next_attempt: Callable[[], int],
        read_options: Callable[[bytes], Options],
        attempt_times: AttemptTimes,
        unstarted: Unstarted,
        account: int = 0,
        adoption: ActorRef | None = None,
    ) -> None:
        self.session = session
        self.balancer = balancer
        self.object_store = object_store
        self.events = events
        self.ended = events.ended
        self.client_id = client_id
        self.crash_limit = crash_limit
        self.next_attempt = next_attempt
        self.read_options = read_options
        self.attempt_times = attempt_times
        self.unstarted = unstarted
        self.account = account
        self.adoption = adoption
        self.graph_id: GraphId | None = None
        """of the graph that the tasks are nodes of"""
        self.since = 0.0
        """when the scheduler heard of that graph"""

    def needs_of(self, options: bytes) -> Needs | None:
        """Return what a task with these options asks for beside a place; None: nothing."""
        said = self.read_options(options)
        return needs_of(said.capabilities, said.no_worker_timeout_ms, said.worker)

    def of_graph(self, graph: ActorRef, graph_id: GraphId, since: float) -> ClientContext:
        """Return the context of a graph's tasks, with the graph instead of the session."""
        context = copy(self)
        context.session, context.graph_id, context.since = graph, graph_id, since
        return context

    def of_account(self, account: int) -> ClientContext:
        """Return the context of tasks with another account."""
        context = copy(self)
        context.account = account
        return context
