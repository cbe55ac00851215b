"""NestedSession: the client inside a processor. It ends with the process, not after a time-out.

A process may be silent for minutes, because its task holds the interpreter or because it is stopped while it waits. The
agent notices the end of the process. The agent's session then ends the nested session, at the latest when the agent's
session ends. The tasks of an ended nested session are cancelled, since nested tasks end with their parent's process.

Nested tasks name the account of their root client, so a recursion has the share of one client. The account is not
checked: code in a task that names another account could do any other harm to a worker as well.

The session reports to the agent when the process does nothing but wait, so that the agent may stop the process. The
session reports again when an item for the client is about to be sent, so that the agent continues the process.
"""

from __future__ import annotations

import logging
from typing import Any

from scaler.actors.messages.adoption import AgentsReturned
from scaler.actors.messages.outputs import OutputRequested
from scaler.actors.messages.peers import EndNested, ItemsWaiting
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.vocabulary.events import NESTED_CLIENT, PROCESSOR_ENDED, Departure
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.kit import ActorRef, handles
from scaler.wire.messages.accounts import account_in
from scaler.wire.messages.client import ClientResting, OutputRequest, Task
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorNews

logger = logging.getLogger(__name__)

ACCOUNTS_REMEMBERED = 64
"""The most `ClientContext`s that are cached. They are cheap to make, and a process may run tasks of many clients."""


class NestedSession(ClientSession):
    """The session of one client inside a task, which runs in a processor of an agent."""

    role = NESTED_CLIENT
    reads_all = True

    def __init__(self, agent: ActorRef, processor: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._agent, self._processor = agent, processor
        self._wait = 0
        self._contexts: dict[int, ClientContext] = {}
        """contexts by account, since the process runs tasks of several clients"""

    def _payer(self, peer: Peer) -> Owner:  # noqa: ARG002 - the peer has the owner of the cluster
        """Return the owner without a quota. Quotas count only the tasks that wait for nested tasks."""
        return self._services.directory.owners.nested

    def on_start(self) -> None:
        super().on_start()
        self._objects.payer = self._services.directory.owners.nobody

    @handles(Batch[Task])
    def _submit(self, batch: Batch[Task]) -> None:
        for spec in self._unknown(self._without_graphs(batch)):
            self._start_task(spec, self._context_of(account_in(spec)))

    def _context_of(self, account: int) -> ClientContext:
        context = self._contexts.get(account)
        if context is None:
            if len(self._contexts) >= ACCOUNTS_REMEMBERED:
                self._contexts.clear()
            context = self._contexts[account] = self._context.of_account(account)
        self._objects.payer = context.owner  # what it stores counts for the task that runs now
        return context

    @handles(Batch[OutputRequest])
    def _request_output(self, batch: Batch[OutputRequest]) -> None:
        """Request output of tasks. The process works for several clients, and may request output of all their tasks."""
        self._services.outputs.send(OutputRequested(self._peer, batch, frozenset(self._contexts), None))

    @handles(AgentsReturned)
    def _agents_are_back(self, news: AgentsReturned) -> None:
        super()._agents_are_back(news)
        self._contexts.clear()

    def _check_silence_in(self, seconds: float, departure: Departure) -> None:
        """Do nothing: the agent watches the process."""

    def _log_disconnected(self, reason: str, _seconds: float) -> None:
        logger.log(self._level(), "%s: %s; it may reconnect as long as its process lives", self._title, reason)

    @handles(Batch[ClientResting])
    def _resting(self, batch: Batch[ClientResting]) -> None:
        """Report to the agent that the client merely waits, unless items are pending: then the client reports again."""
        if self._outbox.notify_of_next(self._peer, batch[-1].heard):
            self._wait = batch[-1].wait
            self._tell_agent(has_news=False)

    @handles(ItemsWaiting)
    def _items_waiting(self, _waiting: ItemsWaiting) -> None:
        self._tell_agent(has_news=True)

    def _tell_agent(self, has_news: bool) -> None:
        self._agent.send(Batch[ProcessorNews]([ProcessorNews(self._processor, self._wait, has_news)]))

    @handles(EndNested)
    def _end_nested(self, _end: EndNested) -> None:
        self._depart(PROCESSOR_ENDED, "")
