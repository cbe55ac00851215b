"""LocalProcesses: the executor that runs tasks in processes of this machine, `--engine processes`.

Slot 0 .. n-1 <--> Pool (supervises) <--> ProcessorProxy 0 .. n-1 <--> processes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scaler.executors.executor import LINK, OBJECTS, ExecutorFeature, Node, worker_child
from scaler.executors.processes.pool.pool import ProcessorPool
from scaler.executors.processes.slot.slot import Slot
from scaler.kit import ActorRef, ChildSpec, Peers
from scaler.process.memory import free_bytes

POOL = "pool"
WAITING_BYTES = 8 * 1024 * 1024
"""The assumed memory of a process with a blocked task. The default limit of blocked tasks is computed from it."""
WAITING_LEAST = 100
"""The smallest default limit of blocked tasks of a worker, however little memory the machine has."""


class LocalProcesses:
    """Runs each task of a node in a process of its worker."""

    parts = frozenset(ExecutorFeature) - {ExecutorFeature.ELASTIC}
    capacity: int | None = None
    capabilities: Mapping[str, int] = MappingProxyType({})

    def __init__(self, engine: str = "processes") -> None:
        """Ignore `engine`, because this engine has no options."""

    def children(self, node: Node) -> Sequence[ChildSpec]:
        """Return the specifications of the slots, and of the pool with their processors."""
        names, config = node.names, node.config
        enough_memory = free_bytes() // 2 // WAITING_BYTES // len(names)
        waiting_most = config.max_waiting_per_worker or max(WAITING_LEAST, enough_memory)

        def slots(peers: Peers) -> tuple[ActorRef, ...]:
            return tuple(peers[worker_child(index)] for index in range(len(names)))

        def slot_spec(index: int) -> ChildSpec:
            def slot(peers: Peers) -> Slot:
                limit_seconds = config.task_timeout_seconds
                refs = peers[LINK], peers[OBJECTS], peers[POOL]
                return Slot(names[index], index, *refs, limit_seconds, waiting_most)

            return ChildSpec(worker_child(index), Slot, slot)

        def pool(peers: Peers) -> ProcessorPool:
            return ProcessorPool(node.shell, node.config, names, slots(peers), node.agent_token)

        return (ChildSpec(POOL, ProcessorPool, pool), *map(slot_spec, range(len(names))))
