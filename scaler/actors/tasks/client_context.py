"""ClientContext: what the tasks of a client have in common.

Made by the client session, and passed to all tasks of the client.
"""

from __future__ import annotations

from copy import copy

from scaler.actors.vocabulary.needs import Needs, needs_of
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.services import Services
from scaler.ids import ClientId
from scaler.kit import ActorRef


class ClientContext:
    """The actors, settings, account and owner that the tasks of one client share.

    Args:
        adoption: the actor that finds runs at agents; None if the client has had no other scheduler.
    """

    __slots__ = (
        "account",
        "adoption",
        "balancer",
        "client_id",
        "directory",
        "ended",
        "events",
        "has_started",
        "label",
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
        self.records_starts = False
        """whether the session records each start of a task, and the `RunTask` of a run is held until then"""
        self.has_started = False

    def needs_of(self, options: bytes) -> Needs | None:
        """Return the resources that a task with these options requests; None if any worker may run the task."""
        asked = self.read_options(options)
        return needs_of(asked.capabilities, asked.no_worker_timeout_ms, asked.worker)

    def of_account(self, account: int) -> ClientContext:
        """Return the context of tasks with another account, which may belong to another client and owner."""
        context, accounts = copy(self), self.directory.accounts
        context.account, context.owner, context.label = account, accounts.owner_of(account), accounts.label_of(account)
        return context
