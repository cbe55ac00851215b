"""The agent: one process for each node of a cluster. This module assembles, runs and ends the agent.

    edge <--> Link <--> worker 0..n-1 of an executor <-- GarbageCollector
                ^          ^
                +-> ObjectCache

The agent never runs user code and never unpickles, so no task delays heartbeats, cancels or reports of deaths. An
executor runs the tasks (`scaler.executors`). If an actor fails, the agent ends, and the scheduler reassigns the tasks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable

from scaler.agent.devices import check_gpus
from scaler.agent.edge import AgentEdge
from scaler.agent.garbage_collector import GarbageCollector
from scaler.agent.link import AgentLink
from scaler.agent.messages import Leave, ReportLinkStatistics
from scaler.agent.object_cache import ObjectCache
from scaler.agent.values import NodeValues
from scaler.amounts import read_amounts
from scaler.cores import usable_cores
from scaler.endpoint import Endpoint
from scaler.executors.executor import (
    LINK,
    LOCAL_ENGINES,
    OBJECTS,
    Executor,
    ExecutorFeature,
    Node,
    load_executor,
    worker_child,
)
from scaler.ids import random_id
from scaler.keys.key_file import WORKER
from scaler.kit import ActorRef, ChildSpec, Peers, RestartBudget, Strategy, Supervisor
from scaler.process import hash_seed, strays
from scaler.process.files import allow_many_files
from scaler.process.report import Report, in_words, page, traffic, with_most_tasks
from scaler.process.shell import Shell
from scaler.processor.lifecycle.preparation import PreparationError
from scaler.settings import ClusterConfig
from scaler.settings.functions import read_functions
from scaler.store.opening import open_store
from scaler.store.store import ValueStore
from scaler.transport.opening import open_transport
from scaler.wire.codec.stencil_warmup import OF_AGENTS, preparing
from scaler.wire.messages.capabilities import to_text
from scaler.wire.messages.worker import RANDOM_HASHES
from scaler.wire.session.traffic import Traffic
from scaler.wire.session.transfer import window_at

logger = logging.getLogger(__name__)

FILES_LEAST = 48
"""The fewest open files that an agent may be limited to. With fewer, ZeroMQ ends the process when it opens sockets."""
ELASTIC_MOST = 256
"""The most workers of a node whose engine determines the number; or twice the initial number, if that is more."""


def run_agent(config: ClusterConfig, lifeline: int | None = None, on_started: Callable[[], None] | None = None) -> int:
    """Run the agent of a cluster until it ends, and with it everything that it has started.

    The agent ends on SIGTERM, SIGINT and SIGHUP, when the scheduler disconnects it, and after too long without a
    scheduler.

    Args:
        lifeline: a descriptor that the parent process holds open. When it closes, the agent ends at once; anything
            written to it ends the agent in good order. With a lifeline, SIGINT is ignored: Ctrl-C reaches the parent.
        on_started: called when the agent runs, before the scheduler has answered.

    Returns:
        the exit code: 0; 1 if the scheduler refused the cluster; 70 after a failure that a restart does not mend.

    Raises:
        PreparationError: if a module cannot be preloaded, or the initializer fails in the first process of each worker.
        ConfigError: if the engine is unknown or cannot do what the settings ask for, or too few files may be open.
    """
    executor = load_executor(config)
    check_gpus(config, os.environ)
    has = {**executor.capabilities, **read_amounts(config.capabilities)}
    capabilities = to_text(has, read_functions(config.functions))
    allow_many_files("a cluster", FILES_LEAST)
    shell = Shell(config.event_loop)
    edge = AgentEdge(
        shell,
        open_transport(config.endpoint, WORKER, config.io_threads),
        window_at(config.endpoint, config.transfer_window_bytes),
    )
    names, n_open = _workers(config, executor)
    begins = "cluster of %d worker%s (%s) for the scheduler at %s, event loop %s"
    of = (n_open, "" if n_open == 1 else "s", ", ".join(names[:n_open]))
    logger.info(begins, *of, config.address, config.event_loop)
    node = Node(shell, config, names, random_id(), is_elastic=n_open < len(names))
    store = open_store(config.object_memory_bytes, config.spill_folder, config.spill_bytes)
    tree = _tree(shell, edge, node, executor, capabilities, n_open, store)
    root = shell.dispatcher.spawn(tree)
    _obey_signals(shell, edge, tree.children[LINK], config.drain_seconds, is_child=lifeline is not None)
    if ExecutorFeature.CRASH in executor.parts:  # else tasks run in this process, and its children may be theirs
        _adopt_strays(shell)
    if lifeline is not None:
        shell.watch(lifeline, lambda: _read_lifeline(shell, lifeline, tree.children[LINK]))
    if on_started is not None:
        shell.loop.call_soon(on_started)
    shell.run_in_steps(preparing(OF_AGENTS))
    try:
        exit_code = _log_failure(shell.run(edge))
    finally:
        shell.dispatcher.end(root)
        edge.close()
        store.close()
        logger.info("cluster ended")
    if shell.why:
        raise PreparationError(shell.why)
    return exit_code


def _workers(config: ClusterConfig, executor: Executor) -> tuple[tuple[str, ...], int]:
    """Return the names of all workers, and the number of workers that take tasks at first."""
    if config.worker_names or config.n_workers:
        names = config.worker_names or _default_names(config.n_workers or 0)
        return names, len(names)
    capacity = executor.capacity
    if capacity is not None and ExecutorFeature.ELASTIC in executor.parts:
        return _default_names(max(ELASTIC_MOST, 2 * capacity)), capacity
    names = _default_names(capacity or usable_cores())
    return names, len(names)


def _log_failure(exit_code: int) -> int:
    if exit_code == 70:
        logger.critical("the cluster ends after a failure that a restart does not fix; see above")
    return exit_code


def _tree(
    shell: Shell, edge: AgentEdge, node: Node, executor: Executor, capabilities: str, n_open: int, store: ValueStore
) -> Supervisor:
    """Return the root of all actors. The root has a restart budget of zero: if one child fails, the agent fails."""
    config, names, values = node.config, node.names, NodeValues(store)
    kept = store, values, ExecutorFeature.ROOM in executor.parts

    def workers(peers: Peers) -> tuple[ActorRef, ...]:
        return tuple(peers[worker_child(index)] for index in range(len(names)))

    def link(peers: Peers) -> AgentLink:
        return AgentLink(
            edge,
            config=config,
            names=names,
            workers=workers(peers),
            objects=peers[OBJECTS],
            agent_token=node.agent_token,
            end=shell.stop,
            capabilities=capabilities,
            n_open=n_open,
            values=values,
            text_hash=_text_hash(config),
            **_abilities(executor, config),
        )

    def garbage_collector(peers: Peers) -> GarbageCollector:
        return GarbageCollector(
            workers(peers), config.garbage_collect_interval_seconds, config.trim_memory_threshold_bytes
        )

    return Supervisor(
        (
            ChildSpec(OBJECTS, ObjectCache, lambda peers: ObjectCache(peers[LINK], workers(peers), *kept)),
            *executor.children(node),
            ChildSpec("garbage collector", GarbageCollector, garbage_collector),
            ChildSpec(LINK, AgentLink, link),
        ),
        Strategy.ONE_FOR_ALL,
        RestartBudget(times=0),
    )


def _abilities(executor: Executor, config: ClusterConfig) -> dict[str, bool]:
    """Return what the workers can do. They take no ranges if the settings limit the tasks or bytes of a process."""
    parts = executor.parts
    takes_rows = ExecutorFeature.ROWS in parts and not (config.max_tasks_per_processor or config.processor_memory_bytes)
    return {
        "can_report_runs": ExecutorFeature.WATCH in parts,
        "can_restart": ExecutorFeature.FRESH in parts,
        "takes_rows": takes_rows,
    }


def _text_hash(config: ClusterConfig) -> int:
    """Return the hash of a fixed text in the processes that run tasks, for the hello; 0 for remote engines."""
    if config.engine not in LOCAL_ENGINES:
        return 0
    return RANDOM_HASHES if hash_seed.is_random() else max(RANDOM_HASHES + 1, hash_seed.text_hash())


def _default_names(n_workers: int) -> tuple[str, ...]:
    host = socket.gethostname().replace(",", "-") or "worker"
    return tuple(f"{host}-{os.getpid()}-{index}" for index in range(n_workers))


def _obey_signals(shell: Shell, edge: AgentEdge, link: ActorRef, drain_seconds: float, is_child: bool) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # signals belong to the main thread
    is_leaving = False

    def on_signal(name: str) -> None:
        nonlocal is_leaving
        if is_leaving:
            shell.stop()
        is_leaving = True
        logger.info("%s: the cluster ends", name)
        link.send(Leave(name, drain_seconds if name == "SIGTERM" else 0.0))

    shell.on_signals(on_signal, signal.SIGTERM)
    shell.on_signals(lambda _name: _log_snapshot(shell, edge, link), signal.SIGUSR1)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it
        shell.on_signals(on_signal, signal.SIGHUP)
    if is_child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        shell.on_signals(on_signal, signal.SIGINT)


def _log_snapshot(shell: Shell, edge: AgentEdge, link: ActorRef) -> None:
    report = Report()
    link.notify(ReportLinkStatistics(report))
    counts = shell.dispatcher.statistics() | {"unreadable_messages": edge.undecodable}
    shell.loop.call_soon(lambda: logger.info(snapshot(report, edge.endpoint, edge.received, edge.sent, counts)))


def snapshot(report: Report, endpoint: Endpoint, received: Traffic, sent: Traffic, counts: dict[str, int]) -> str:
    """Return a text that describes what the agent does now; the last line shows `counts`."""
    ((state, link),) = report.of("link")
    workers = report.of("worker")
    busy = sum(worker["tasks"] > 0 for _, worker in workers)
    return page(
        "cluster: what it does now",
        (
            ("scheduler", f"{endpoint} ({state}); {link['results']:,} results not acknowledged yet"),
            ("tasks", f"{link['tasks']:,} at workers, {link['blocked_tasks']:,} of these wait for nested tasks"),
            ("workers", f"{len(workers):,}, {busy:,} of them have tasks" + with_most_tasks(workers)),
            ("received", traffic(received)),
            ("sent", traffic(sent)),
            ("process", in_words(counts)),
        ),
    )


def _adopt_strays(shell: Shell) -> None:
    if threading.current_thread() is threading.main_thread():
        strays.adopt()
        shell.on_child_ended(_tidy)


def _tidy() -> None:
    """Kill and reap the processes that a lost fork server has left. As process 1 of a container, reap all children."""
    strays.end_strays(())
    strays.reap()


def _read_lifeline(shell: Shell, lifeline: int, link: ActorRef) -> None:
    with contextlib.suppress(BlockingIOError):
        if os.read(lifeline, 4096):
            link.send(Leave("the program that started it no longer needs it"))
        else:
            logger.info("the parent process has ended: the cluster ends")
            shell.stop()
