"""ForeignEngine: the executor that passes the tasks of a node to a foreign engine.

EngineWorker 0 .. n-1 <--> EngineHost <--channel--> engine host (a process) <--> engine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from scaler.executors.engines.host import HostSettings
from scaler.executors.engines.host_proxy import EngineHost
from scaler.executors.engines.probe import ask_capacity
from scaler.executors.engines.worker import EngineWorker
from scaler.executors.executor import LINK, OBJECTS, ExecutorFeature, Node, worker_child
from scaler.kit import ChildSpec, Peers

HOST = "engine host"


class ForeignEngine:
    """Runs each task of a node in a foreign engine. A subclass names the function that makes the engine."""

    parts = frozenset({ExecutorFeature.CRASH, ExecutorFeature.WATCH})
    capabilities: Mapping[str, int] = MappingProxyType({})
    maker: ClassVar[str]
    """`module:function`, called in the host process: makes the `Engine`; for the arguments see `HostSettings.maker`"""
    prober: ClassVar[str] = ""
    """`module:function`, called in a process of its own: returns how many tasks the engine can run; empty: unknown"""
    is_deeper_first: ClassVar[bool] = False
    """whether a task starts at once, beside the running ones, if it is deeper than all running tasks of its account"""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    @property
    def capacity(self) -> int | None:
        """How many tasks the engine can run at once; None if the engine does not report this number."""
        return ask_capacity(self.prober, self._engine) if self.prober else None

    def children(self, node: Node) -> Sequence[ChildSpec]:
        """Return the specifications of the workers, and of the proxy of the engine host."""
        settings = HostSettings(
            maker=self.maker,
            engine=self._engine,
            n_workers=len(node.names),
            address=node.config.address,
            agent_token=node.agent_token.hex(),
            is_elastic=node.is_elastic,
        )

        def host(peers: Peers) -> EngineHost:
            return EngineHost(node.shell, settings, peers[LINK])

        def worker_of(peers: Peers) -> EngineWorker:
            return EngineWorker(peers[LINK], peers[OBJECTS], peers[HOST], self.is_deeper_first)

        names = [worker_child(index) for index in range(len(node.names))]
        return (ChildSpec(HOST, EngineHost, host), *(ChildSpec(name, EngineWorker, worker_of) for name in names))


class Futures(ForeignEngine):
    """Runs tasks in any executor of `concurrent.futures`: `--engine module:factory`."""

    maker = "scaler.executors.engines.engine:futures_engine"


class Dask(ForeignEngine):
    """Runs tasks in a Dask cluster: `--engine dask://HOST:PORT`."""

    parts = ForeignEngine.parts | {ExecutorFeature.ELASTIC}
    maker = "scaler.executors.engines.dask:dask_engine"
    prober = "scaler.executors.engines.dask:dask_capacity"


class Ray(ForeignEngine):
    """Runs tasks in a Ray cluster: `--engine ray://HOST:PORT`."""

    parts = ForeignEngine.parts | {ExecutorFeature.ELASTIC}
    maker = "scaler.executors.engines.ray:ray_engine"
    prober = "scaler.executors.engines.ray:ray_capacity"


class Symphony(ForeignEngine):
    """Runs each task as a task of a session of a Symphony service: `--engine symphony://SERVICE`.

    Symphony does not know that a parent waits, so a deeper task starts at once.
    """

    maker = "scaler.executors.symphony.engine:symphony_engine"
    is_deeper_first = True
