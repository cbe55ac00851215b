"""WorkerNames: which names of workers are in use, so that each worker of a scheduler has a name of its own.

An agent whose names are in use is not refused but gets other names, because a restarted agent may connect before its
former session has ended.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from scaler.actors.vocabulary.hellos import listed, names_of
from scaler.ids import AgentId
from scaler.wire.messages.worker import WorkerHello

logger = logging.getLogger(__name__)


class WorkerNames:
    """The names of the workers of all agents with a session."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._by_agent: dict[bytes, tuple[str, ...]] = {}
        self._next: dict[str, int] = {}
        """by name that more than one worker has requested: the number for the next suffix"""

    def take(self, hello: WorkerHello) -> WorkerHello:
        """Return an agent's hello with assigned names: its own names or, where a name is taken, `NAME#2` and so on."""
        wanted = names_of(hello)
        names = tuple(name and self._own(name) for name in wanted)
        self._by_agent[hello.agent_id] = names
        changed = [f"{name} instead of {other}" for name, other in zip(names, wanted, strict=True) if name != other]
        if not changed:
            return hello
        logger.warning(
            "workers get other names, because their own are in use: %s; choose names with --worker-names",
            listed(changed),
        )
        return replace(hello, worker_names=",".join(names))

    def _own(self, name: str) -> str:
        own, number = name, self._next.get(name, 2)
        while own in self._taken:
            own = f"{name}#{number}"
            number += 1
        if own != name:
            self._next[name] = number
        self._taken.add(own)
        return own

    def release(self, agent_id: AgentId | bytes) -> None:
        """Free the names of an agent whose session has ended. Unknown agents are ignored."""
        names = self._by_agent.pop(agent_id, ())
        self._taken.difference_update(names)
        if not self._taken:
            self._next = {}
