"""ClientContext: what the tasks of a client have in common.

Made by its client session, and handed to all its tasks and graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TypeAlias

from scaler.actors.peers.owners import Owner
from scaler.actors.policy.needs import Needs, needs_of
from scaler.actors.services import Services
from scaler.ids import ClientId, GraphId
from scaler.kit import ActorRef
from scaler.wire.messages.client import Task

Begun: TypeAlias = tuple["ActorRef | None", int]
"""A worker, and the attempt that it has; None: it waits."""

OpenRows: TypeAlias = Callable[["ClientContext", Task, Begun], Sequence[ActorRef]]


class ClientContext:
    """The collaborators of a client's tasks, the settings, their account, and so their owner.

    Args:
        label: what their client calls itself.
        adoption: asked first whether an agent has a run of a task; None if its client has had no other scheduler.
    """

    __slots__ = (
        "account", "adoption", "balancer", "client_id", "directory", "ended", "events", "graph_id", "has_begun",
        "label", "next_attempt", "notes_begins", "object_store", "open_rows", "owner", "read_options", "services",
        "session", "since",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        session: ActorRef,
        client_id: ClientId,
        account: int = 0,
        adoption: ActorRef | None = None,
        label: str = "",
    ) -> None:
        self.services = services
        self.session = session
        self.client_id = client_id
        self.account, self.label = account, label
        self.owner: Owner = services.directory.accounts.owner_of(account)
        self.adoption = adoption
        self.balancer, self.object_store = services.balancer, services.object_store  # each task uses these
        self.events, self.ended = services.events, services.events.ended
        self.directory, self.next_attempt = services.directory, services.directory.next_attempt
        self.read_options = services.read_options
        self.graph_id: GraphId | None = None
        """of the graph that the tasks are nodes of"""
        self.open_rows: OpenRows = _no_rows
        """opens a task for each row of a range, in place of the one that the range has"""
        self.notes_begins = False
        """whether the session notes of each of the tasks that it may begin, and their orders are held until it has"""
        self.has_begun = False
        """whether a worker has had one of the tasks"""
        self.since = 0.0
        """when the scheduler heard of that graph"""

    def split(self, spec: Task, begun: Begun = (None, 0)) -> Sequence[ActorRef]:
        """A range that waits, or that a worker has, is a task for each row from now on. Return these; none if its
        client has left.

        This is a call and no message, since client session and worker proxy must agree at any moment on which tasks
        there are.
        """
        return self.open_rows(self, spec, begun)

    def needs_of(self, options: bytes) -> Needs | None:
        """Return what a task with these options asks for; None: any worker will do."""
        asked = self.read_options(options)
        return needs_of(asked.capabilities, asked.no_worker_timeout_ms, asked.worker)

    def of_graph(self, graph: ActorRef, graph_id: GraphId, since: float) -> ClientContext:
        """Return the context of a graph's tasks, with the graph instead of the session."""
        context = copy(self)
        context.session, context.graph_id, context.since = graph, graph_id, since
        return context

    def of_account(self, account: int) -> ClientContext:
        """Return the context of tasks with another account, which may be another owner's, and so another client's."""
        context, accounts = copy(self), self.directory.accounts
        context.account, context.owner, context.label = account, accounts.owner_of(account), accounts.label_of(account)
        return context


def _no_rows(_context: ClientContext, _spec: Task, _begun: Begun) -> Sequence[ActorRef]:
    return ()
