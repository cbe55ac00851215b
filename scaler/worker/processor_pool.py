"""The processors of a node as supervised children: for each worker slot one that is always there.

    Pool (rest for one)
      ForkServerProxy                   the fork server, which forks; when it is lost, so are all processors
      processors (one for one)
        ProcessorProxy 0 .. n-1        coming -> up -> slot's work -> down, and a new one starts
        extra ones                     the same, for slots that asked for more: no new one starts

A processor that dies after it was ready ends in good order: its supervisor starts the next at once and at no charge.
One that never gets ready is a failure: back-off, and too many end the agent.

Slots write to the pool (`AddProcessor`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from scaler.actors.kit import ActorRef, ChildSpec, Restart, RestartBudget, Strategy, Supervisor, handles
from scaler.config import ClusterConfig
from scaler.process.shell import Shell
from scaler.worker.fork_server_proxy import ForkServerProxy
from scaler.worker.messages import AddProcessor
from scaler.worker.processor_proxy import ProcessorProxy


class Pool(Supervisor):
    """The supervisor of all processes of the node.

    Args:
        names: of the workers; each has a processor that is always there.
        slots: of the workers.
        agent_token: what the clients inside the processors show the scheduler.
    """

    def __init__(
        self,
        shell: Shell,
        config: ClusterConfig,
        names: tuple[str, ...],
        slots: tuple[ActorRef, ...],
        agent_token: bytes,
    ) -> None:
        def new_processor(fork_server: ActorRef, slot: int, is_extra: bool) -> ProcessorProxy:
            return ProcessorProxy(shell, fork_server, slots[slot], names[slot], config, is_extra)

        super().__init__(
            (
                ChildSpec("fork server", ForkServerProxy, lambda _peers: ForkServerProxy(shell, config, agent_token)),
                ChildSpec(
                    "processors",
                    _Processors,
                    lambda peers: _Processors(partial(new_processor, peers["fork server"]), names),
                ),
            ),
            Strategy.REST_FOR_ONE,
            RestartBudget(times=3, within_seconds=30.0),
        )

    @handles(AddProcessor)
    def _add_processor(self, add: AddProcessor) -> None:
        self.children["processors"].send(add)


class _Processors(Supervisor):
    """One processor for each worker, and those that slots have asked for."""

    def __init__(self, new_processor: Callable[[int, bool], ProcessorProxy], names: tuple[str, ...]) -> None:
        def spec(slot: int) -> ChildSpec:
            return ChildSpec(f"processor-{slot}", ProcessorProxy, lambda _peers: new_processor(slot, False))

        super().__init__(
            tuple(map(spec, range(len(names)))),
            Strategy.ONE_FOR_ONE,
            RestartBudget(times=3 * len(names) + 2, within_seconds=30.0),
        )
        self._new_processor = new_processor
        self._next_extra = count(1).__next__

    @handles(AddProcessor)
    def _add_processor(self, add: AddProcessor) -> None:
        """Start one more. When it ends in good order, it is not started again."""
        name = f"processor-{add.slot}-extra-{self._next_extra()}"
        self.add(ChildSpec(name, ProcessorProxy, lambda _peers: self._new_processor(add.slot, True), Restart.TRANSIENT))
