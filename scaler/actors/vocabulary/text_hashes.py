"""TextHashes: which clusters hash texts alike, to warn if tasks cannot partition by `hash(key)`.

Agents that hash differently are accepted, because most tasks do not use hashes of texts.
"""

from __future__ import annotations

import logging

from scaler.actors.vocabulary.hellos import names_of
from scaler.wire.messages.worker import RANDOM_HASHES, WorkerHello

logger = logging.getLogger(__name__)


class TextHashes:
    """The hash of one text at each connected agent, as the agent reports the hash in its hello."""

    def __init__(self) -> None:
        self._agents: dict[int, dict[bytes, str]] = {}
        """the agents that report each hash: the id of each agent, with the name of a worker of the agent"""
        self._by_agent: dict[bytes, int] = {}

    def add(self, hello: WorkerHello) -> None:
        """Store the hash in an agent's hello. Log a warning if it differs from the hashes of all other agents."""
        number = hello.text_hash
        if not number:
            return
        name = names_of(hello)[0]
        if self._agents and number not in self._agents:
            other, agents = next(iter(self._agents.items()))
            _warn(name, number, next(iter(agents.values())), other)
        self._agents.setdefault(number, {})[hello.agent_id] = name
        self._by_agent[hello.agent_id] = number

    def remove(self, agent_id: bytes) -> None:
        """Forget an agent whose session has ended. Unknown agents are ignored."""
        number = self._by_agent.pop(agent_id, 0)
        if number:
            agents = self._agents[number]
            del agents[agent_id]
            if not agents:
                del self._agents[number]


def _warn(name: str, number: int, other_name: str, other: int) -> None:
    logger.warning(
        "hash(text) differs between clusters: hash('scaler') & 0xffffffff is %s on worker %s and %s on worker %s. "
        "Tasks that partition rows by hash(key) put rows of one key into two partitions. Start all clusters with the "
        "same Python, and with the same PYTHONHASHSEED or without it",
        *(_shown(number), name),
        *(_shown(other), other_name),
    )


def _shown(number: int) -> str:
    return "random" if number == RANDOM_HASHES else f"{number:#010x}"
