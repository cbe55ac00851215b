"""The processors of a node as supervised children: one permanent processor for each slot, and extra ones on request.

    Pool (rest for one)
      ForkServerProxy                   the fork server, which forks; when it is lost, so are all processors
      processors (one for one)
        ProcessorProxy 0 .. n-1        coming (starts) -> up (is ready, runs tasks) -> down (has ended); replaced
        extra ones                     the same, but started when a slot requests one, and not replaced

A processor that dies after it was ready is replaced at once; this does not count as a failure. A failure is a processor
that never gets ready, or the loss of the fork server: then the pool retries with back-off. Once a processor of the node
was ready, the pool retries without limit. Before that, too many failures end the agent, because its installation must
be broken. The agent ends at once if a module cannot be preloaded, or if the initializer has failed for each worker.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import count

from scaler.executors.processes.messages import AddProcessor, InitializerFailed, InstallationWorks, PrepareAnother
from scaler.executors.processes.pool.fork_server_proxy import ForkServerProxy
from scaler.executors.processes.pool.processor_proxy import ProcessorProxy
from scaler.kit import ActorRef, ChildSpec, Peers, Restart, RestartBudget, Strategy, Supervisor, handles
from scaler.process.shell import Shell
from scaler.settings import ClusterConfig

logger = logging.getLogger(__name__)

AT_FIRST = RestartBudget(times=3, within_seconds=30.0)
ENDLESS = RestartBudget(times=sys.maxsize, within_seconds=30.0)
"""A budget that allows any number of restarts. The recent failures determine the pause before the next restart."""


class ProcessorPool(Supervisor):
    """Supervises the fork server and all processors of the node; each worker has a permanent processor."""

    def __init__(
        self,
        shell: Shell,
        config: ClusterConfig,
        names: tuple[str, ...],
        slots: tuple[ActorRef, ...],
        agent_token: bytes,
    ) -> None:
        self._is_known_to_work = False
        self._shell = shell
        self._unprepared: dict[str, InitializerFailed] = {}
        """the workers for which the initializer has failed; emptied when the initializer succeeds for another worker"""
        self._n_workers = len(names)
        named = dataclasses.replace(config, n_workers=len(names), worker_names=names)

        next_number = count(1).__next__

        def new_processor(fork_server: ActorRef, number: int, slot: int, is_extra: bool) -> ProcessorProxy:
            pool = self.actor_ref
            return ProcessorProxy(shell, fork_server, pool, slots[slot], names[slot], config, is_extra, number)

        def processors(peers: Peers) -> _Processors:
            at_first = RestartBudget(AT_FIRST.times * len(names) + 2, AT_FIRST.within_seconds)
            budget = ENDLESS if self._is_known_to_work else at_first
            return _Processors(partial(new_processor, peers["fork server"], next_number()), names, budget)

        def fork_server(_peers: Peers) -> ForkServerProxy:
            return ForkServerProxy(shell, named, agent_token, self._is_known_to_work)

        super().__init__(
            (
                ChildSpec("fork server", ForkServerProxy, fork_server),
                ChildSpec("processors", _Processors, processors),
            ),
            Strategy.REST_FOR_ONE,
            AT_FIRST,
        )

    @handles(InstallationWorks)
    def _installation_works(self, works: InstallationWorks) -> None:
        if not self._is_known_to_work:
            self._is_known_to_work = True
            self._budget = ENDLESS
            self.children["processors"].send(works)
            for failed in self._unprepared.values():
                failed.proxy.send(PrepareAnother(failed.number))
            self._unprepared.clear()

    @handles(InitializerFailed)
    def _initializer_failed(self, failed: InitializerFailed) -> None:
        """Start another process, if any processor of this node was ever ready.

        Otherwise end the agent as soon as the initializer has failed for each worker.
        """
        if self._is_known_to_work:
            failed.proxy.send(PrepareAnother(failed.number))
            return
        self._unprepared[failed.worker] = failed
        if len(self._unprepared) == self._n_workers:
            self._shell.stop(os.EX_CONFIG, failed.why)

    @handles(AddProcessor)
    def _add_processor(self, add: AddProcessor) -> None:
        self.children["processors"].send(add)


class _Processors(Supervisor):
    def __init__(
        self, new_processor: Callable[[int, bool], ProcessorProxy], names: tuple[str, ...], budget: RestartBudget
    ) -> None:
        def spec(slot: int) -> ChildSpec:
            return ChildSpec(f"processor-{slot}", ProcessorProxy, lambda _peers: new_processor(slot, False))

        super().__init__(tuple(map(spec, range(len(names)))), Strategy.ONE_FOR_ONE, budget)
        self._new_processor = new_processor
        self._next_extra = count(1).__next__

    @handles(InstallationWorks)
    def _installation_works(self, _works: InstallationWorks) -> None:
        self._budget = ENDLESS

    @handles(AddProcessor)
    def _add_processor(self, add: AddProcessor) -> None:
        name = f"processor-{add.slot}-extra-{self._next_extra()}"
        self.add(ChildSpec(name, ProcessorProxy, lambda _peers: self._new_processor(add.slot, True), Restart.TRANSIENT))
