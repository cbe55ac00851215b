"""ClientContext: what the tasks of a client have in common.

Made by the client session, and passed to all tasks of the client.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from scaler.actors.vocabulary.events import NEVER_STARTED, TaskMoved
from scaler.actors.vocabulary.needs import Needs, needs_of
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.services import Services
from scaler.actors.vocabulary.task_states import CANCELED, FAILED, shown_state
from scaler.ids import ClientId
from scaler.jobs.terms import LiveCounts
from scaler.kit import ActorRef
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import TaskStatus


class ClientContext:
    """The actors, settings, account and owner that the tasks of one client share.

    Args:
        adoption: the actor that finds runs at agents; None if the client has had no other scheduler.
        live: counts the tasks at workers; None: nothing counts them.
    """

    __slots__ = (
        "account",
        "adoption",
        "balancer",
        "client_id",
        "directory",
        "ended_of",
        "events",
        "has_started",
        "label",
        "live",
        "next_attempt",
        "object_store",
        "owner",
        "read_options",
        "records_starts",
        "services",
        "session",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        session: ActorRef,
        client_id: ClientId,
        account: int = 0,
        adoption: ActorRef | None = None,
        label: str = "",
        live: LiveCounts | None = None,
    ) -> None:
        self.services = services
        self.session = session
        self.client_id = client_id
        self.account, self.label = account, label
        self.owner: Owner = services.directory.accounts.owner_of(account)
        self.adoption = adoption
        self.balancer, self.object_store = services.balancer, services.object_store  # each task uses these
        self.events, self.ended_of = services.events, services.events.ended_of
        self.live = live
        self.directory, self.next_attempt = services.directory, services.directory.next_attempt
        self.read_options = services.read_options
        self.records_starts = False
        """whether the session records each start of a task, and the `RunTask` of a run is held until then"""
        self.has_started = False

    def needs_of(self, options: bytes) -> Needs | None:
        """Return the resources that a task with these options requests; None if any worker may run the task."""
        asked = self.read_options(options)
        return needs_of(asked.capabilities, asked.no_worker_timeout_ms, asked.worker)

    def end_unstarted(self, spec: Task, status: TaskStatus, reason: str = "") -> None:
        """Count the end of a task, or of the rows of a range, that has no actor, and report it to the listener."""
        events = self.events
        events.ended_of.count(spec.function_id, status, spec.rows or 1)
        if events.listener is not None:
            state = shown_state(CANCELED if status == TaskStatus.CANCELED else FAILED, status)
            what = (NEVER_STARTED, state, 0, None, reason, None, self.owner.name, self.label)
            events.listener.send(TaskMoved(self.session, spec, self.client_id, *what))

    def cancel_unstarted(self, specs: Iterable[Task]) -> None:
        """Count tasks, or rows of ranges, that were cancelled while they had no actor, and report them."""
        for spec in specs:
            self.end_unstarted(spec, TaskStatus.CANCELED)

    def of_account(self, account: int) -> ClientContext:
        """Return the context of tasks with another account, which may belong to another client and owner."""
        context, accounts = copy(self), self.directory.accounts
        context.account, context.owner, context.label = account, accounts.owner_of(account), accounts.label_of(account)
        return context
