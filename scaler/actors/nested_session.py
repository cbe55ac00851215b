"""NestedSession: the client inside a processor. It lives and ends with the process, and not by its signs of life.

Its tasks hold the interpreter for minutes, or the process is stopped while it waits: its silence means nothing. Its
agent knows when it is dead. So the agent's session ends it: when the agent says that the processor has ended, and with
itself. Then its tasks are cancelled: the children of a task die with its process.

What its tasks submit is on the account of the client that they are for, which the scheduler said with each of them, so
that a recursion has the share of one client. Code in a task could name another account; it could as well do anything
else to a worker.

The agent also hears when the process only waits and may be stopped, and when it must go on because something was said
to the client.
"""

from __future__ import annotations

from typing import Any

from scaler.actors.client_session import ClientSession
from scaler.actors.events import NESTED_CLIENT, PROCESSOR_ENDED, Departure
from scaler.actors.kit import ActorRef, handles
from scaler.actors.messages.peers import EndNested, NestedIn, NewsSaid
from scaler.actors.task import Home, TaskActor
from scaler.wire.messages.client import ClientResting, Task
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorNews

ACCOUNTS_REMEMBERED = 64
"""A home is made anew in no time, and a process that lives for weeks may run tasks of many clients."""


class NestedSession(ClientSession):
    """One client inside a task."""

    role = NESTED_CLIENT

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._agent: ActorRef | None = None
        self._processor = 0
        self._wait = 0
        """what its task waits for, as the task numbers it"""
        self._homes: dict[int, Home] = {}
        """by account: its process runs tasks of one client after the other"""

    @handles(NestedIn)
    def _nested_in(self, nested: NestedIn) -> None:
        self._agent, self._processor = nested.agent, nested.processor

    @handles(Batch[Task])
    def _submit(self, batch: Batch[Task]) -> None:
        tasks, spawn, home_of = self._tasks, self.spawn, self._home_of
        for spec in batch:
            if spec.task_id not in tasks:
                tasks[spec.task_id] = spawn(TaskActor(spec, home_of(spec.account)))

    def _home_of(self, account: int) -> Home:
        home = self._homes.get(account)
        if home is None:
            if len(self._homes) >= ACCOUNTS_REMEMBERED:
                self._homes.clear()
            home = self._homes[account] = self._home.of_account(account)
        return home

    def _check_silence_in(self, seconds: float, departure: Departure) -> None:
        """Its agent looks after it."""

    @handles(Batch[ClientResting])
    def _resting(self, batch: Batch[ClientResting]) -> None:
        """If anything is on the way, it will say again that it only waits."""
        if self._outbox.await_news(self._connection, batch[-1].heard):
            self._wait = batch[-1].wait
            self._tell_agent(has_news=False)

    @handles(NewsSaid)
    def _news_said(self, _said: NewsSaid) -> None:
        self._tell_agent(has_news=True)

    def _tell_agent(self, has_news: bool) -> None:
        if self._agent is not None:
            self._agent.send(Batch[ProcessorNews]([ProcessorNews(self._processor, self._wait, has_news)]))

    @handles(EndNested)
    def _end_nested(self, _end: EndNested) -> None:
        self._depart(PROCESSOR_ENDED, "")
