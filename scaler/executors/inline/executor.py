"""LocalThreads: the executor that runs tasks in threads of the agent's process, `--engine inline`.

Each `InlineWorker` has a thread for its running task, and one for each of its blocked tasks. The only optional features
are `WAITS` and `WATCH`, because a thread ends only when the function of its task ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scaler import task_context
from scaler.executors.executor import LINK, OBJECTS, ExecutorFeature, Node, worker_child
from scaler.executors.inline.task_context import by_thread
from scaler.executors.inline.thread import TaskThread
from scaler.executors.inline.worker import InlineWorker
from scaler.kit import ActorRef, ChildSpec, Peers
from scaler.process.user_code.shared_blocks import own_only_created_blocks
from scaler.processor.execution.task_context import ProcessorSpec
from scaler.processor.lifecycle.preparation import finder

AGENT_PROCESS = 1
"""The processor number of the agent's process: all tasks run in it, and it never ends before its agent."""


class LocalThreads:
    """Runs each task of a node in a thread of this process."""

    parts = frozenset({ExecutorFeature.WAITS, ExecutorFeature.WATCH})
    capacity: int | None = None
    capabilities: Mapping[str, int] = MappingProxyType({})

    def __init__(self, engine: str = "inline") -> None:
        """Ignore `engine`, because this engine has no options."""

    def children(self, node: Node) -> Sequence[ChildSpec]:
        """Return the specifications of the workers."""
        task_context.key_file, task_context.trust_users = node.config.key_file or "", node.config.trust_users
        if not node.config.endpoint.is_in_process:  # the process is the user's program
            own_only_created_blocks()
        named = finder(node.config.functions)
        contexts, processor = by_thread(), ProcessorSpec(AGENT_PROCESS, node.agent_token)

        def spec(index: int, name: str) -> ChildSpec:
            def new_thread(worker: ActorRef) -> TaskThread:
                return TaskThread(name, worker, processor, node.config.address, contexts)

            def worker(peers: Peers) -> InlineWorker:
                return InlineWorker(peers[LINK], peers[OBJECTS], new_thread, named)

            return ChildSpec(worker_child(index), InlineWorker, worker)

        return tuple(spec(index, name) for index, name in enumerate(node.names))
