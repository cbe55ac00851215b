"""NestedSession: the client inside a processor. It lives and ends with the process, and not by its signs of life.

Its tasks hold the interpreter for minutes, or the process is stopped while it waits: its silence means nothing. Its
agent knows when it is dead. So the agent's session ends it: when the agent says that the processor has ended, and with
itself. Then its tasks are cancelled: the children of a task die with its process.

The agent also hears when the process only waits and may be stopped, and when it must go on because something was said
to the client.
"""

from __future__ import annotations

from typing import Any

from scaler.actors.client_session import ClientSession
from scaler.actors.kit import ActorRef, handles
from scaler.actors.messages import EndNested, NestedIn, NewsSaid
from scaler.wire.messages.client import ClientResting
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorNews


class NestedSession(ClientSession):
    """One client inside a task."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._agent: ActorRef | None = None
        self._processor = 0
        self._wait = 0
        """what its task waits for, as the task numbers it"""

    @handles(NestedIn)
    def _nested_in(self, nested: NestedIn) -> None:
        self._agent, self._processor = nested.agent, nested.processor

    def _check_silence_in(self, seconds: float) -> None:
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
        self.stop_now()
