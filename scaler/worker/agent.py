"""The agent: one process for each node of a cluster. Here it is put together, lives, and ends.

    edge <--> Link <--> Slot 0..n-1 <--> ProcessorProxy 0..n-1 (supervised) <--> processes
                ^          ^
                +-> ObjectCache          GarbageCollector --> Slot

The agent never runs user code and never unpickles, so that heartbeats, cancels and the death of a processor are dealt
with at once, whatever a task does. A failure of one of its actors other than the processors ends it, loudly: the
scheduler gives its tasks to others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable

from scaler.actors.kit import ActorRef, ChildSpec, Peers, RestartBudget, Strategy, Supervisor
from scaler.config import ClusterConfig
from scaler.ids import random_id
from scaler.process.shell import Shell
from scaler.worker.edge import Edge
from scaler.worker.garbage_collector import GarbageCollector
from scaler.worker.link import Link
from scaler.worker.messages import Leave
from scaler.worker.object_cache import ObjectCache
from scaler.worker.processor_pool import Pool
from scaler.worker.slot import Slot

logger = logging.getLogger(__name__)

MANY_FILES = 65_536


def run_agent(config: ClusterConfig, lifeline: int | None = None, on_started: Callable[[], None] | None = None) -> int:
    """Run the agent of a cluster until it shall end; nothing that it started is left then.

    It ends on SIGTERM and SIGINT, when the scheduler sends it away, and when there is no scheduler for too long.

    Args:
        lifeline: a descriptor that the parent process holds open: its end is the parent's, and the agent ends at
            once. With one, SIGINT is ignored, because Ctrl-C reaches the parent too.
        on_started: called when the agent runs, before it has an answer of the scheduler.

    Returns:
        the exit code for the process: 0; 1 when the scheduler refused the cluster; 70 after a failure that a restart
        does not mend.
    """
    _allow_many_files()
    shell = Shell(config.event_loop)
    edge = Edge(shell, config.address, config.io_threads)
    names = config.worker_names or _default_names(config.n_workers)
    logger.info(
        "cluster of %d workers (%s) for the scheduler at %s, event loop %s",
        config.n_workers,
        ", ".join(names),
        config.address,
        config.event_loop,
    )
    tree = _tree(shell, edge, config, names)
    root = shell.dispatcher.spawn(tree)
    _obey_signals(shell, tree.children["link"], is_child=lifeline is not None)
    if lifeline is not None:
        shell.watch(lifeline, lambda: _read_lifeline(shell, lifeline))
    if on_started is not None:
        shell.loop.call_soon(on_started)
    try:
        exit_code = shell.run(edge)
        if exit_code == 70:
            logger.critical("the cluster ends because of a failure that a restart does not mend; see above")
        return exit_code
    finally:
        shell.dispatcher.end(root)
        edge.close()
        logger.info("cluster ended")


def _tree(shell: Shell, edge: Edge, config: ClusterConfig, names: tuple[str, ...]) -> Supervisor:
    """Return the root of all actors. With a budget of nothing, the failure of one child is the failure of the agent."""

    def slots(peers: Peers) -> tuple[ActorRef, ...]:
        return tuple(peers[f"slot-{index}"] for index in range(len(names)))

    nest_id = random_id()

    def link(peers: Peers) -> Link:
        return Link(
            edge,
            config=config,
            names=names,
            slots=slots(peers),
            objects=peers["objects"],
            nest_id=nest_id,
            end=shell.stop,
        )

    def slot_spec(index: int) -> ChildSpec:
        name, limit_seconds = names[index], config.task_timeout_seconds

        def slot(peers: Peers) -> Slot:
            return Slot(name, index, peers["link"], peers["objects"], peers["pool"], limit_seconds)

        return ChildSpec(f"slot-{index}", Slot, slot)

    def garbage_collector(slots: tuple[ActorRef, ...]) -> GarbageCollector:
        return GarbageCollector(slots, config.garbage_collect_interval_seconds, config.trim_memory_threshold_bytes)

    return Supervisor(
        (
            ChildSpec("objects", ObjectCache, lambda peers: ObjectCache(peers["link"], slots(peers))),
            ChildSpec("pool", Pool, lambda peers: Pool(shell, config, names, slots(peers), nest_id)),
            *map(slot_spec, range(len(names))),
            ChildSpec("garbage collector", GarbageCollector, lambda peers: garbage_collector(slots(peers))),
            ChildSpec("link", Link, link),
        ),
        Strategy.ONE_FOR_ALL,
        RestartBudget(times=0),
    )


def _default_names(n_workers: int) -> tuple[str, ...]:
    host = socket.gethostname().replace(",", "-") or "worker"
    return tuple(f"{host}-{os.getpid()}-{index}" for index in range(n_workers))


def _obey_signals(shell: Shell, link: ActorRef, is_child: bool) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # signals belong to the main thread
    is_leaving = False

    def on_signal(name: str) -> None:
        nonlocal is_leaving
        if is_leaving:
            shell.stop()
        is_leaving = True
        logger.info("%s: the cluster ends", name)
        link.send(Leave(name))

    shell.on_signals(on_signal, signal.SIGTERM)
    if is_child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        shell.on_signals(on_signal, signal.SIGINT)


def _read_lifeline(shell: Shell, lifeline: int) -> None:
    with contextlib.suppress(BlockingIOError):
        if not os.read(lifeline, 4096):
            logger.info("the parent process is gone: the cluster ends")
            shell.stop()


def _allow_many_files() -> None:
    """Raise the soft limit of open files, also for processors: each large object of the node takes one."""
    with contextlib.suppress(ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard == resource.RLIM_INFINITY or hard > MANY_FILES:
            hard = MANY_FILES
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
