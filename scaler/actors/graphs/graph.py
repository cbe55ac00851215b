"""Graph: one graph of a client: its nodes, and the results that other nodes still need.

Receives nodes and cancels from its client session, and results from its tasks. Spawns a task for each node whose
arguments have arrived; sends wanted results to the session. `graph_values.py` keeps the results that other nodes need.

    GraphNode --> waiting --all dependencies finished--> a task --TaskDone--> its consumers
                     |                                     |
                     +--<-- a dependency failed <----------+

A node starts as soon as it can, even before all nodes have arrived. Until the last node has arrived, the consumers of a
result are unknown, so no result is dropped before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

from scaler.actors.graphs.graph_node import GraphNodeState, input_node, payload_for_dependents
from scaler.actors.graphs.graph_values import GraphValues
from scaler.actors.graphs.graph_view import find_nodes, report_ended, show_graph
from scaler.actors.graphs.waits import follow
from scaler.actors.messages.adoption import NodesWait
from scaler.actors.messages.monitor import ReportOpen
from scaler.actors.messages.objects import ObjectLost
from scaler.actors.messages.peers import ReportStatistics
from scaler.actors.messages.tasks import (
    AwaitResult,
    BalancerRestarted,
    CancelForAdmin,
    CancelGraph,
    CancelTask,
    ExplainNode,
    GraphEnded,
    GraphNodeDone,
    InputKnown,
    TaskDone,
)
from scaler.actors.slices import NextSlice, Slices
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.task import TaskActor
from scaler.graph.readiness import FAILED, READY, Readiness, positions
from scaler.ids import NO_ID, TaskId, public_id
from scaler.kit import Actor, ActorRef, ChildFailed, handles
from scaler.pickling.serialization import Frames
from scaler.wire.messages.accounts import owner_of
from scaler.wire.messages.client import GraphInput, GraphNode, GraphTask, InputKnowledge, Task, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus

_CANCEL = CancelTask()
_SUCCESS = TaskStatus.SUCCESS


class GraphActor(Actor):
    """Runs one graph. Its tasks have the context of the client's tasks, but report to the graph."""

    def __init__(self, spec: GraphTask, context: ClientContext) -> None:
        self._spec = spec
        self._session = context.session
        self._context = context
        self._nodes: list[GraphNodeState] = []
        self._readiness = Readiness()
        self._running: dict[TaskId, tuple[int, ActorRef]] = {}
        self._inputs: dict[TaskId, GraphInput] = {}
        """the results of other tasks that the graph needs and that have not arrived"""
        self._values = GraphValues(
            self._nodes, context.object_store, context.owner, context.client_id, context.services.maker_of
        )
        self._open_count = 0
        self._received_count = 0
        """nodes received since the graph was last announced; known ones were sent again"""
        self._given_up: tuple[TaskStatus, bytes] | None = None
        """after a cancel, a refusal or a loss: the status and payload with which all open nodes end"""
        self._lost = ""
        """why the client must submit the graph again; reported, instead of the nodes, when all nodes have ended"""
        self._slices = Slices(self)

    def on_start(self) -> None:
        self._values.graph = self.actor_ref
        self._context = self._context.of_graph(self.actor_ref, self._spec.graph_id, self.now())
        self._end_if_over()  # a graph without nodes

    # From the client

    @handles(GraphTask)
    def _resubmitted(self, _graph: GraphTask) -> None:
        self._received_count = 0

    @handles(Batch[GraphNode])
    def _add_nodes(self, batch: Batch[GraphNode]) -> None:
        nodes, position, end = self._nodes, self._received_count, self._spec.node_count
        for item in batch:
            if position >= end:
                break  # more than announced
            if position == len(nodes):
                self._add(item, position)
            elif item.wanted and self._may_report(nodes[position]):  # else it will be told
                self._session.send(GraphNodeDone(self._spec.graph_id, nodes[position].result(), ()))
            position += 1
        self._received_count = position
        adoption = self._context.adoption
        if adoption is not None:
            waiting = {item.task_id for item in batch if item.dependencies}
            if waiting:  # they will ask for their runs when their inputs are there again
                adoption.send(NodesWait(self.actor_ref, owner_of(self._context.account), waiting))
        self._check_complete()

    def _may_report(self, node: GraphNodeState) -> bool:
        """Return whether a node has ended, and not because the client must submit this graph again."""
        return node.status is not None and not (self._lost and node.status == TaskStatus.CANCELED)

    @handles(Batch[GraphInput])
    def _add_inputs(self, batch: Batch[GraphInput]) -> None:
        for item in batch:
            if item.position >= self._spec.node_count:
                break
            if item.position == len(self._nodes):
                self._add_input(item)
            elif item.position < len(self._nodes):
                self._learn(item)
            self._received_count += item.position == self._received_count
        self._check_complete()

    def _check_complete(self) -> None:
        if self._is_complete():
            self._slices.add(self._drop, (node for node in self._nodes if node.status is not None))
            self._end_if_over()

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()
        self._end_if_over()

    def _is_complete(self) -> bool:
        return len(self._nodes) == self._spec.node_count

    def _add(self, item: GraphNode, position: int) -> None:
        node, nodes = GraphNodeState(item), self._nodes
        self._open_count += 1
        self._values.hold_arguments(node)
        if item.function_id == NO_ID:  # it has run, and nobody needs its result any more
            self._add_ended(node, TaskStatus.CANCELED, b"")
            return
        try:
            dependencies = positions(item.dependencies) if item.dependencies else ()
            state = self._readiness.add(dependencies)
        except ValueError as error:
            self._add_ended(node, TaskStatus.INTERNAL_ERROR, f"the graph cannot be read: {error}".encode())
            return
        nodes.append(node)
        node.dependencies = dependencies
        for dependency in dependencies:
            nodes[dependency].needed_by += 1
        if self._given_up:
            self._end(node, *self._given_up)
        elif state == READY:
            self._start(position)
        elif state == FAILED:
            cause = next(nodes[d] for d in dependencies if self._readiness.state(d) == FAILED)
            assert cause.status is not None
            self._end(node, cause.status, payload_for_dependents(cause, cause.status, cause.payload))

    def _add_ended(self, node: GraphNodeState, status: TaskStatus, payload: bytes) -> None:
        self._readiness.add(())
        self._nodes.append(node)
        self._fail(len(self._nodes) - 1, status, payload)

    def _add_input(self, item: GraphInput) -> None:
        node = input_node(item)
        self._nodes.append(node)
        self._open_count += 1
        self._readiness.add(())
        self._inputs[item.task_id] = item
        if self._given_up:
            self._end(node, *self._given_up)
        else:
            self._learn(item)

    def _learn(self, item: GraphInput) -> None:
        """Take the result of an input from the client, or wait for the input again if its task is open."""
        if item.known == InputKnowledge.AWAITED:
            if item.task_id in self._inputs:
                self._session.send(AwaitResult(item, self.actor_ref))
            return
        size = int(item.known == InputKnowledge.STORED)
        self._take_input(TaskDone(TaskResult(item.task_id, item.status, item.payload, size), ()))

    def _take_input(self, done: TaskDone) -> None:
        result = done.result
        item = self._inputs.pop(result.task_id, None)
        if item is None or self._nodes[item.position].status is not None:
            return
        position, node = item.position, self._nodes[item.position]
        if self._given_up:
            self._end(node, *self._given_up)
        elif result.status:
            self._fail(position, result.status, result.payload)
        else:
            if result.size and not done.frames:
                self._values.hold_stored(node)
            self._finish(position, done)

    @handles(AwaitResult)
    def _await(self, request: AwaitResult) -> None:
        """Report a node's result to the session, for another graph. If the node is open, its end is reported anyway."""
        position = request.input.source_position
        node = self._nodes[position] if position < len(self._nodes) else None
        if node is not None and node.status is not None and not self._lost:
            self._session.send(InputKnown(self._spec.graph_id, TaskDone(node.result(), (), node.made_by)))

    @handles(CancelGraph)
    def _cancel(self, _cancel: CancelGraph) -> None:
        self._lost = ""
        self._give_up(TaskStatus.CANCELED, b"")
        self._end_if_over()

    @handles(CancelForAdmin)
    def _cancel_if_named(self, cancel: CancelForAdmin) -> None:
        """Cancel the whole graph if an admin names an open node, as a client would."""

        def look(node: GraphNodeState) -> None:
            if not self._given_up and node.status is None and public_id(node.task_id) in cancel.short_ids:
                self._cancel(CancelGraph())

        self._slices.add(look, self._nodes)
        self._end_if_over()

    @handles(ObjectLost)
    def _value_lost(self, lost: ObjectLost) -> None:
        """A result that its nodes need is gone. Its client has all that it takes to make it again."""
        if self._given_up:
            return
        options = self._spec.options
        if options and self._context.read_options(options).at_most_once:
            sentence = (
                f"a result that it needs was lost: {lost.reason}; its task is not run again because of its option "
            )
            self._give_up(TaskStatus.MISSING_OBJECTS, f"{sentence}at_most_once".encode())
        else:
            self._lost = lost.reason
            self._give_up(TaskStatus.CANCELED, b"")
        self._end_if_over()

    def _give_up(self, status: TaskStatus, payload: bytes) -> None:
        """End all open nodes in the same way; running nodes when they have stopped."""
        self._given_up = (status, payload)
        self._slices.add(lambda task: task.send(_CANCEL), [task for _, task in self._running.values()])
        waiting = (node for node in self._nodes if node.status is None and node.task_id not in self._running)
        self._slices.add(lambda node: self._end_waiting(node, status, payload), waiting)
        self._slices.add(self._drop, self._nodes)

    def _end_waiting(self, node: GraphNodeState, status: TaskStatus, payload: bytes) -> None:
        options, is_call = self._spec.options, node.function_id != NO_ID  # or the result of another task
        if options and is_call and status == TaskStatus.CANCELED:
            said = self._context.read_options(options)
            if said.at_most_once and not said.was_submitted:  # else it is known, or may have been started before
                self._context.directory.unstarted.add(node.task_id)
        self._end(node, status, payload)

    # Its tasks

    def _start_all(self, positions: list[int]) -> None:
        """Start nodes that are ready now. A result may be needed by a hundred thousand."""
        if self._slices.fits_in_slice(len(positions)):
            for position in positions:
                self._start(position)
        else:
            self._slices.add(self._start, (position for position in positions if not self._given_up))

    def _start(self, position: int) -> None:
        node = self._nodes[position]
        block, object_ids, near_worker = node.block, node.object_ids, None
        has_dependencies = node.dependencies != ()
        if has_dependencies:
            try:
                block, object_ids, near_worker = self._values.arguments(node)
            except ValueError as error:
                self._fail(position, TaskStatus.INTERNAL_ERROR, f"the arguments cannot be read: {error}".encode())
                return
        node.block = b""
        spec, task_id = self._spec, node.task_id
        task = Task(task_id, node.function_id, block, object_ids, spec.priority, spec.name, spec.options)
        if node.frames:
            task = replace(task, frames=self._values.take_frames(node))
        self._running[task_id] = (position, self.spawn(TaskActor(task, self._context, near_worker, has_dependencies)))

    @handles(TaskDone)
    def _done(self, done: TaskDone) -> None:
        result = done.result
        known = self._running.pop(result.task_id, None)
        if known is None:
            self._take_input(done)
            self._end_if_over()
            return
        position = known[0]
        node = self._nodes[position]
        node.profile = result.profile
        if self._given_up:
            self._end(node, *self._given_up)
        elif not result.status:
            self._finish(position, done)
        elif result.status == TaskStatus.NO_WORKER:
            self._give_up(TaskStatus.NO_WORKER, result.payload)
        else:
            self._fail(position, result.status, result.payload)
        self._end_if_over()

    @handles(ChildFailed)
    def _task_failed(self, failed: ChildFailed) -> None:
        for task_id, (position, task) in self._running.items():
            if task is failed.child:
                del self._running[task_id]
                sentence = f"the scheduler failed while it handled this task: {failed.error!r}".encode()
                self._fail(position, TaskStatus.INTERNAL_ERROR, sentence)
                self._end_if_over()
                return

    def _finish(self, position: int, done: TaskDone) -> None:
        node, result = self._nodes[position], done.result
        node.size = result.size
        if done.frames and (node.needed_by or not self._is_complete()):
            try:
                self._values.keep(node, done.frames, done.worker)
            except ValueError as error:
                self._fail(position, TaskStatus.MISSING_OBJECTS, str(error).encode())
                return
        self._values.note_size(result.payload)
        self._end(node, _SUCCESS, result.payload, done.frames, done.worker)
        ready = self._readiness.finish(position)
        if ready:
            self._start_all(ready)

    def _fail(self, position: int, status: int, payload: bytes) -> None:
        """End a node and all nodes that need it in the same way."""
        first = self._nodes[position]
        for_dependents = payload_for_dependents(first, status, payload)
        failed = map(self._nodes.__getitem__, chain((position,), self._readiness.fail(position)))
        waiting = (node for node in failed if node.status is None)  # the graph may be given up meanwhile
        self._slices.add(lambda node: self._end(node, status, payload if node is first else for_dependents), waiting)

    # Ends

    def _end(
        self, node: GraphNodeState, status: int, payload: bytes, frames: Frames = (), worker: ActorRef | None = None
    ) -> None:
        node.status, node.payload, node.block = status, payload, b""
        if node.frames:
            self._values.take_frames(node)
        self._open_count -= 1
        if node.wanted and not self._lost:
            self._session.send(GraphNodeDone(self._spec.graph_id, node.result(), frames, worker, node.function_id))
        for dependency in node.dependencies:
            needed = self._nodes[dependency]
            needed.needed_by -= 1
            if not needed.needed_by:
                self._drop(needed)
        if node.object_ids or not node.needed_by:
            self._drop(node)

    def _drop(self, node: GraphNodeState) -> None:
        if node.status is not None and (self._is_complete() or self._given_up):
            self._values.drop(node)

    def _end_if_over(self) -> None:
        if self._running or self._open_count or self._slices:
            return
        is_canceled = self._given_up and not self._lost and self._given_up[0] == TaskStatus.CANCELED
        if not (self._is_complete() or is_canceled):  # of what it has cancelled, its client says no more
            return
        report_ended(self._context, self._spec, self._nodes)
        self._session.send(GraphEnded(self._spec.graph_id, self.actor_ref, self._lost))
        self.stop_now()

    def check(self) -> None:
        nodes, is_complete, going_on = self._nodes, self._is_complete(), self._running | self._inputs
        open_nodes = [node for node in nodes if node.status is None]
        assert self._open_count == len(open_nodes)
        assert open_nodes or not is_complete, "a graph without open nodes has not ended"
        needs = Counter(needed for node in open_nodes for needed in set(node.dependencies))
        for position, node in enumerate(nodes):
            assert node.needed_by == needs[position], f"node {position} has a wrong count of dependants"
            is_needed = node.status is None or needs[position]
            waits = any(nodes[each].status is None for each in node.dependencies)
            assert node.status is not None or node.task_id in going_on or waits, f"node {position} waits for nothing"
            if is_complete and not is_needed:
                assert not node.is_stored, f"the result of node {position} is kept, but not needed"
                assert node.wanted or not node.payload, f"the result of node {position} is kept, but not needed"

    # News of others

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        for _, task in self._running.values():
            task.send(restarted)

    def on_stop(self) -> None:
        if self._context.adoption is not None:
            self._context.adoption.send(NodesWait(self.actor_ref))

    def on_failure(self, *_error: object) -> None:
        """Clean up: cancel the tasks, release the objects, and end the client's futures."""
        self.on_stop()
        for _, task in self._running.values():
            task.send(_CANCEL)
        sentence = b"the scheduler failed while it handled the graph of this task"
        self._values.release_all()
        for node in self._nodes:
            if node.status is None and node.wanted:
                failed = TaskResult(node.task_id, TaskStatus.INTERNAL_ERROR, sentence, 0)
                self._session.send(GraphNodeDone(self._spec.graph_id, failed, ()))

    @handles(ExplainNode)
    def _explain(self, asked: ExplainNode) -> None:
        follow(asked, self._nodes, self._running, self._inputs, self._session, self._context.since)

    @handles(ReportOpen)
    def _report_open(self, ask: ReportOpen) -> None:
        show_graph(ask.backlog, self._context, self._spec, self._nodes, self._running, self._open_count)
        find_nodes(ask.backlog, self.actor_ref, self._nodes, self._running)

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("graph", self._spec.graph_id.hex(), self.statistics())

    def statistics(self) -> dict[str, int]:
        """Return counts: nodes, those that have not ended, those that are tasks now."""
        return {"nodes": len(self._nodes), "open_nodes": self._open_count, "running_nodes": len(self._running)}
