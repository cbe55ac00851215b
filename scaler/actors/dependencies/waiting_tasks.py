"""WaitingTasks: the tasks of one client that need results of other tasks, and the graphs of the client.

Owned by the client session, which passes on submitted tasks, cancels, and the ends of tasks. A value and not an actor:
100,000 tasks may wait for one result, and no message is sent for an edge.

    Task --> waiting --all needed results are there--> a task actor --ended--> the tasks that need its result
                |                                          |
                +--<-- a needed task failed <--------------+

A task of a graph starts as soon as it can, even before all tasks of the graph have arrived. Until the last one has
arrived, the consumers of a result are unknown, so no result of the graph is dropped before.

A result that is not here, or was lost, is requested from the client, which sends the result, or the call once more.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol

from scaler.actors.dependencies.graph_view import report_ended
from scaler.actors.dependencies.input_values import InputValues
from scaler.actors.dependencies.waiting_task import AWAITED, RUNNING, WAITING, CallTerms, TaskGraph, WaitingTask
from scaler.actors.messages.adoption import TasksWait
from scaler.actors.messages.tasks import CancelTask, TaskDone
from scaler.actors.slices import Slices
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, ObjectId, TaskId, index_of, split_ids
from scaler.kit import Actor, ActorRef
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import WORTH_AN_OBJECT_BYTES
from scaler.wire.messages.accounts import owner_of
from scaler.wire.messages.client import NO_GRAPH, InputResult, Task, TaskResult
from scaler.wire.messages.columns import positions
from scaler.wire.messages.common import ObjectRequest, TaskStatus
from scaler.wire.messages.rows import row_ids

REFUSED_MOST = 1024
"""The most ended graphs that are remembered, because some of their tasks have not arrived. The oldest go first."""

_SUCCESS = TaskStatus.SUCCESS
_FINAL = (TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.NO_WORKER)
"""Failures of a task whose client does not run it again. After any other one it may, if it has claimed the result."""
_CANCEL = CancelTask()
_INPUT_FAILED = "a task whose result it needs has failed"


class ClientValues(Protocol):
    """The objects of the client, as `WaitingTasks` needs them."""

    is_stored: Callable[[bytes], bool]

    def why_not(self, spec: Task) -> str:
        """Return why a task may not run; empty if it may."""

    def why_unreadable(self, task_id: TaskId) -> str:
        """Return why the client may not read the object with the id of a task; empty if it may."""

    def keep_result(self, done: TaskDone) -> None:
        """Keep a large result until the client drops it."""

    def result_of(self, task_id: TaskId) -> TaskResult | None:
        """Return the result of a task of the client if its value is stored."""


class WaitingTasks:
    """The tasks of one client that wait for results of other tasks, and those whose results other tasks need.

    Args:
        session: the session, which starts task actors with `spawn`, and calls `take_missing` when `ask_later` says.
        tasks: the open tasks of the client; a waiting task is added when it becomes an actor.
        owner: the owner for whose quota the tasks count while they wait.
        put: sends an item to the client.
        ask_later: makes the session call `take_missing` after the messages that have arrived.
    """

    def __init__(
        self,
        session: ActorRef,
        spawn: Callable[[Actor], ActorRef],
        tasks: OpenTasks[TaskId],
        owner: Owner,
        put: Callable[[Any], None],
        ask_later: Callable[[], None],
        objects: ClientValues,
        values: InputValues,
        slices: Slices,
        audit: Callable[[str, str], None],
    ) -> None:
        self._session, self._spawn, self._tasks, self._owner = session, spawn, tasks, owner
        self._put, self._ask_later, self._audit = put, ask_later, audit
        self._objects, self._values, self._slices = objects, values, slices
        self.graphs: dict[GraphId, TaskGraph] = {}
        self._by_prefix: dict[bytes, TaskGraph] = {}
        """the graphs by the prefix of the ids of their tasks"""
        self._refused: OrderedDict[GraphId, tuple[TaskStatus, bytes]] = OrderedDict()
        """how late tasks of refused and cancelled graphs end"""
        self._by_id: dict[TaskId, WaitingTask] = {}
        """the tasks in no graph that wait, and the awaited results, including lost results of graphs"""
        self._running: dict[TaskId, WaitingTask] = {}
        self.n_waiting = 0
        """the number of tasks that wait, each of which counts for the owner"""
        self.n_beyond_window = 0
        """the number of task actors of graphs, less the waiting tasks in no graph: graphs do not enter the window"""
        self._missing: list[TaskId] = []
        """the results to request from the client"""
        self._losses: Counter[TaskId] = Counter()
        self._has_lost: set[TaskId] = set()
        """the running tasks that need a result which was lost after they started"""
        self.known: set[TaskId] | None = None
        """in a new session, the tasks that the client need not resubmit; None: it has resubmitted everything"""

    def __bool__(self) -> bool:
        """Return whether any task waits, or the result of any task is needed."""
        return bool(self._by_id or self._running or self.graphs)

    # From the client

    def add_to_graph(self, spec: Task, context_of: Callable[[Task], ClientContext], now: float) -> None:
        """Add the next task of a graph. With the first one, the graph begins."""
        graph = self.graphs.get(spec.graph_id)
        if graph is None:
            if spec.graph_id not in self._refused:
                graph = self._begin(spec, context_of(spec), now)
            if graph is None:
                self._report_refused(spec, context_of(spec))
                return
        nodes, position = graph.nodes, graph.n_received
        graph.n_received = position + 1
        if position < len(nodes):  # sent again in a new session
            self._take_again(graph, position, spec)
        elif position < graph.size:
            node = (self._take_awaited(spec.task_id) if self._by_id else None) or WaitingTask(spec.task_id)
            node.graph = graph
            nodes.append(node)
            graph.n_open += 1
            is_last = graph.is_complete = len(nodes) == graph.size
            self._accept(node, spec, graph.terms_of(spec), nodes, position)
            if is_last:
                self._end_arrival(graph, nodes)

    def _take_again(self, graph: TaskGraph, position: int, spec: Task) -> None:
        node = graph.nodes[position]
        if node.task_id in self._tasks and node.task_id not in self._running:
            return  # the client has sent it alone, because its result was lost
        stored = self._objects.result_of(node.task_id) if node.status == AWAITED or node.was_dropped else None
        if stored is not None:  # no task needed it, and the client has not deleted it
            if not spec.unwanted:
                self._put(stored)
            return
        if node.was_dropped and not spec.unwanted:
            self._await(node)
        if node.status == AWAITED and spec.function_id != NO_ID:  # its result was lost
            self._owner.tasks += 1
            self._accept(node, spec, graph.terms_of(spec), graph.nodes, position)
        elif node.is_open:
            node.unwanted &= spec.unwanted
        elif not spec.unwanted:
            self._put(node.result())

    def _take_awaited(self, task_id: TaskId) -> WaitingTask | None:
        """Remove and return an awaited task, because its graph has it from now on; None if tasks do not await it."""
        node = self._by_id.get(task_id)
        return self._by_id.pop(task_id) if node is not None and node.status == AWAITED and node.graph is None else None

    def _begin(self, spec: Task, context: ClientContext, now: float) -> TaskGraph | None:
        """Return a new graph, or None if it is refused: a graph is accepted as a whole, or not at all."""
        size = spec.graph_tasks
        if size > self._owner.room():
            why = f"{self._owner.why_full()}; its graph has {size:,} tasks: submit it again later"
            self._audit("over quota", why)
            self._refuse(spec.graph_id, TaskStatus.NO_WORKER, why.encode())
            return None
        graph = self.graphs[spec.graph_id] = TaskGraph(spec, context, now, is_held=self.known is not None)
        self._by_prefix[spec.graph_id[:PREFIX_BYTES]] = graph
        self._owner.tasks += size
        return graph

    def _refuse(self, graph_id: GraphId, status: TaskStatus, payload: bytes) -> None:
        self._refused[graph_id] = status, payload
        if len(self._refused) > REFUSED_MOST:
            self._refused.popitem(last=False)

    def _report_refused(self, spec: Task, context: ClientContext) -> None:
        status, payload = self._refused[spec.graph_id]
        if spec.function_id != NO_ID:
            context.end_unstarted(spec, status, payload.decode("utf-8", "replace"))
        if not spec.unwanted:
            self._put(TaskResult(spec.task_id, status, payload, 0))

    def _end_arrival(self, graph: TaskGraph, nodes: list[WaitingTask]) -> None:
        """All tasks of a graph have arrived: start it if it was held, and drop the results that no task needs."""
        if graph.is_held:
            graph.is_held = False
            if not graph.given_up and self._is_answered(graph):
                graph.is_answered = True
                self._give_up(graph, TaskStatus.CANCELED, b"")
            else:
                self._start_all([node for node in nodes if node.status == WAITING and not node.missing])
        self._slices.add(self._drop, [node for node in nodes if node.status not in (WAITING, RUNNING)])
        self._end_if_over(graph)

    def _is_answered(self, graph: TaskGraph) -> bool:
        """Return whether the client has, or gets, all results that it wants of a resubmitted graph."""
        wanted = [node for node in graph.nodes if not node.unwanted]
        missing = [node.task_id for node in wanted if node.task_id not in (self.known or ())]
        results = list(map(self._objects.result_of, missing))
        if None in results:
            return False
        for node in wanted:
            node.unwanted = 1
        for result in results:
            self._put(result)
        return True

    def add(self, spec: Task, context: ClientContext, now: float) -> None:
        """Add a task that is in no graph, and needs results of other tasks or makes a lost result again."""
        node = self.find(spec.task_id)
        if spec.unwanted and (node is None or node.was_dropped):
            return  # no task needs its result now
        if node is None:
            node = self._by_id[spec.task_id] = WaitingTask(spec.task_id)
        elif node.was_dropped:
            self._await(node)
        elif node.status != AWAITED:  # it was sent before
            if not (spec.unwanted or node.is_open):
                self._put(self._objects.result_of(node.task_id) or node.result())
            return
        self._owner.tasks += 1
        terms = CallTerms(context, spec.priority, spec.name, spec.named_by_key, spec.options, now)
        self._accept(node, spec, terms)

    def _accept(
        self, node: WaitingTask, spec: Task, terms: CallTerms, nodes: Sequence[WaitingTask] = (), position: int = 0
    ) -> None:
        """Take the call of a task, and start it or let it wait. `position`: its position among `nodes` of its graph."""
        graph, kept, failed = node.graph, node.object_ids, None
        node.take_call(spec, terms)
        self.n_waiting += 1
        self.n_beyond_window -= graph is None
        if spec.object_ids or spec.frames or kept:
            self._values.hold_arguments(node, kept)
        if spec.dependencies or spec.inputs or spec.rows:
            try:
                failed = self._use_needs(node, self._needs_of(spec, nodes, position))
            except ValueError as error:
                self._fail(node, TaskStatus.INTERNAL_ERROR, f"the task cannot be read: {error}".encode())
                return
        if graph is not None and graph.given_up:
            self._end_given_up(node)
        elif (spec.object_ids or self._objects.is_stored(spec.task_id)) and (why := self._objects.why_not(spec)):
            if graph is not None:
                self._give_up(graph, TaskStatus.MISSING_OBJECTS, why.encode())
            else:
                self._fail(node, TaskStatus.MISSING_OBJECTS, why.encode())
        elif spec.function_id == NO_ID:
            self._end_at_client(node)
        elif failed is not None:
            self._fail(node, failed.status, failed.reason_for_dependents())
        elif not node.missing:
            self._start(node, spec)

    def _use_needs(self, node: WaitingTask, needs: tuple[WaitingTask, ...]) -> WaitingTask | None:
        """Count a task as a user of the results that it needs. Return the first need that has failed, if any."""
        node.needs, missing, failed = needs, 0, None
        for need in needs:
            if need.status >= _SUCCESS and need.was_dropped and not self._use_stored(need):
                self._await(need)
            need.n_users += 1
            if need.status < _SUCCESS:
                missing += 1
                if need.status == AWAITED:
                    self._request(need)
            elif need.status > _SUCCESS:
                failed = failed or need
            if need.status < _SUCCESS or need.is_stored:  # a stored value may be lost
                need.add_dependent(node)
        node.missing = missing
        return failed

    def _needs_of(self, spec: Task, nodes: Sequence[WaitingTask], position: int) -> tuple[WaitingTask, ...]:
        needs: tuple[WaitingTask, ...] = ()
        if spec.rows:
            raise ValueError("a range needs no results")
        if spec.dependencies:
            at = positions(spec.dependencies)
            if max(at) >= position:
                raise ValueError(f"it depends on task {max(at)} of its graph, which does not come before it")
            needs = tuple([nodes[each] for each in at])
        if spec.inputs:
            inputs = list(map(TaskId, split_ids(spec.inputs)))
            if spec.task_id in inputs:
                raise ValueError("it needs its own result")
            needs += tuple(map(self._needed, inputs))
        return needs

    def _needed(self, task_id: TaskId) -> WaitingTask:
        """Return the task whose result another task needs; the result is awaited if it is not here."""
        node = self._by_id.get(task_id) or self._running.get(task_id) or self._values.stored(task_id)
        graph = self._by_prefix.get(task_id[:PREFIX_BYTES]) if node is None else None
        if graph is not None:
            node = graph.find(task_id, index_of(task_id))
        if node is None:
            node = WaitingTask(task_id)
            if not self._use_stored(node):
                self._by_id[task_id] = node
        return node

    def _use_stored(self, node: WaitingTask) -> bool:
        """Keep the result of a task for other tasks, if it is stored for the client. Return whether it is."""
        stored = self._objects.result_of(node.task_id) if node.status <= _SUCCESS else None
        if stored is None:
            return False
        node.status, node.size = _SUCCESS, stored.size
        self._values.hold_stored(node)
        return True

    def is_awaited(self, task_id: TaskId) -> bool:
        """Return whether tasks need the result of a task that is not here. It may start beyond all bounds."""
        node = self._by_id.get(task_id)
        return node is not None and node.status == AWAITED

    def _request(self, node: WaitingTask) -> None:
        if not self._missing:
            self._ask_later()
        self._missing.append(node.task_id)

    def take_missing(self) -> list[TaskId]:
        """Return the results that tasks need and that are not here; each once after it was noticed."""
        missing, self._missing = self._missing, []
        return list(dict.fromkeys(missing))

    def request(self, task_ids: Iterable[TaskId]) -> None:
        """Request results from the client, unless they have arrived, or their tasks have started."""
        for task_id in task_ids:
            if self.is_awaited(task_id) and task_id not in self._tasks:
                self._put(ObjectRequest(ObjectId(task_id), 1))

    def learn(self, item: InputResult) -> None:
        """Take a result that the client has."""
        node = self._by_id.get(item.task_id)
        if node is None or node.status != AWAITED:
            return
        if item.status:
            self._fail(node, item.status, item.payload)
        elif item.size and (why := self._objects.why_unreadable(item.task_id)):
            self._fail(node, TaskStatus.MISSING_OBJECTS, why.encode())
        else:
            node.size = item.size
            if item.size:
                self._values.hold_stored(node)
            self._finish(node, item.payload)

    def cancel(self, task_id: TaskId) -> None:
        """Cancel a task that waits and is in no graph."""
        node = self._by_id.get(task_id)
        if node is not None and node.status == WAITING:
            self._fail(node, TaskStatus.CANCELED, b"")

    def cancel_graph(self, graph_id: GraphId) -> None:
        """Cancel all tasks of a graph."""
        graph = self.graphs.get(graph_id)
        if graph is not None:
            self._give_up(graph, TaskStatus.CANCELED, b"")

    def start_over(self) -> None:
        """Expect all graphs once more, because the client has a new session, and repeat the requests of the last."""
        for graph in self.graphs.values():
            graph.n_received = 0
        for node in self._by_id.values():
            if node.status == AWAITED:
                self._request(node)

    @property
    def has_held(self) -> bool:
        """Whether parts of a resubmitted graph have not arrived."""
        return any(graph.is_held for graph in self.graphs.values())

    # Task actors

    def _start_or_wait(self, node: WaitingTask) -> None:
        failed = next((need for need in node.needs if need.status > _SUCCESS), None)
        if failed is not None:
            self._fail(node, failed.status, failed.reason_for_dependents())
        elif not node.missing:
            self._start(node)

    def _start_all(self, nodes: list[WaitingTask]) -> None:
        """Start tasks that are ready. A result may be needed by a hundred thousand."""
        if self._slices.fits_in_slice(len(nodes)):
            for node in nodes:
                self._start(node)
        else:
            self._slices.add(self._start, nodes)

    def _start(self, node: WaitingTask, spec: Task | None = None) -> None:
        """Start a task if it can start. `spec`: its call, if it has just arrived."""
        graph = node.graph
        if node.status != WAITING or node.missing or (graph is not None and (graph.is_held or graph.given_up)):
            return
        if node.task_id in self._tasks:
            self._fail(node, TaskStatus.INTERNAL_ERROR, b"another open task has its id")
            return
        block, more_ids, near_worker = node.block, b"", None
        if node.needs:
            try:
                block, more_ids, near_worker = self._values.arguments(node)
            except ValueError as error:
                self._fail(node, TaskStatus.INTERNAL_ERROR, f"the arguments cannot be read: {error}".encode())
                return
        terms, task_id = node.terms, node.task_id
        assert terms is not None
        if spec is None or node.needs:
            what = task_id, node.function_id, block, node.object_ids + more_ids, terms.priority, terms.name
            graph_id = NO_GRAPH if graph is None else graph.graph_id
            spec = Task(*what, terms.options, 0, node.frames, 0, 0, graph_id, named_by_key=terms.named_by_key)
        if node.frames:
            self._values.count_frames(node, -1)
        if not more_ids:  # else it waits again if such a value is lost
            node.block, node.frames = b"", ()
        self.n_waiting -= 1
        self.n_beyond_window += 1
        node.status = RUNNING
        self._running[task_id] = node
        # Not `add`: the owner has counted it since it arrived.
        self._tasks[task_id] = self._spawn(TaskActor(spec, terms.context, near_worker, bool(node.needs)))

    def take(self, result: TaskResult, done: TaskDone | None = None) -> bool:
        """Take the end of an open task. Return whether it is one of these, whose results are reported here.

        Args:
            done: has the frames of a large result; None: the result is not large.
        """
        node = self._running.pop(result.task_id, None)
        if node is None:
            return False
        has_lost = bool(self._has_lost) and result.task_id in self._has_lost
        if has_lost:
            self._has_lost.discard(result.task_id)
        node.profile, node.status = result.profile, AWAITED
        graph = node.graph
        self.n_beyond_window -= graph is not None
        if graph is not None and graph.given_up:
            self._end_given_up(node)
        elif not result.status:
            node.size = result.size
            if done is None or self._keep(node, done):
                self._finish(node, result.payload)
        elif result.status == TaskStatus.MISSING_OBJECTS and has_lost:
            self._wait_again(node)
        elif graph is not None and result.status == TaskStatus.NO_WORKER:
            self._end(node, TaskStatus.NO_WORKER, result.payload)
            self._give_up(graph, TaskStatus.NO_WORKER, result.payload)
            self._fail_others(node)
        else:
            self._fail(node, result.status, result.payload)
        return True

    def resolve(self, result: TaskResult, done: TaskDone | None = None) -> None:
        """Take the end of any other task, after it was reported to the client, for the tasks that need its result."""
        if result.rows:
            self._resolve_rows(result)
            return
        node = self._by_id.get(result.task_id)
        if node is None or node.status != AWAITED:
            return
        if result.status in _FINAL:
            self._fail(node, result.status, result.payload)
            return
        if result.status:
            self._request(node)  # if this was a claim, its client runs the task again
            return
        node.size = result.size
        if done is not None:
            self._values.keep(node, done, is_stored=True)
        self._finish(node, result.payload)

    def _resolve_rows(self, result: TaskResult) -> None:
        for task_id in row_ids(result.task_id, result.rows):
            node = self._by_id.get(task_id)
            if node is not None and node.status == AWAITED:
                self._request(node)  # the client gets the rows now

    def _wait_again(self, node: WaitingTask) -> None:
        """Wait for a result that was lost before the task could read it."""
        self._owner.tasks += 1
        node.status = WAITING
        self.n_waiting += 1
        self.n_beyond_window -= node.graph is None
        self._values.count_frames(node, 1)
        self._start_or_wait(node)

    def _keep(self, node: WaitingTask, done: TaskDone) -> bool:
        """Keep a large result for the client and for the tasks that need it. If that fails, fail its task."""
        graph = node.graph
        if not node.unwanted:
            self._objects.keep_result(done)
        if node.n_users or (graph is not None and not graph.is_complete):
            try:
                self._values.keep(node, done, is_stored=not node.unwanted)
            except ValueError as error:
                self._fail(node, TaskStatus.MISSING_OBJECTS, str(error).encode())
                return False
        return True

    def _finish(self, node: WaitingTask, payload: bytes) -> None:
        """End a task that has succeeded, and start the tasks that waited only for its result."""
        if len(payload) >= WORTH_AN_OBJECT_BYTES:
            self._values.has_large = True
        dependents = node.dependents
        if not node.is_stored:
            node.dependents = None
        self._end(node, _SUCCESS, payload)
        if dependents is None:
            return
        ready = []
        for dependent in dependents:
            dependent.missing -= 1
            if dependent.is_again:
                dependent.count_missing()
            if not dependent.missing and dependent.status == WAITING:
                ready.append(dependent)
        if ready:
            self._start_all(ready)

    def _fail(self, node: WaitingTask, status: int, payload: bytes) -> None:
        """End a task and all tasks that need it in the same way."""
        self._end(node, status, payload)
        if node.dependents:
            for_dependents = node.reason_for_dependents()
            self._slices.add(lambda each: self._end_failed(each, status, for_dependents), _dependents_of(node))

    def _end_failed(self, node: WaitingTask, status: int, payload: bytes) -> None:
        graph = node.graph
        if graph is not None and graph.given_up:
            status, payload = graph.given_up
        self._end(node, status, payload)

    # Ends

    def _end(self, node: WaitingTask, status: int, payload: bytes) -> None:
        if node.status == WAITING:
            self._end_waiting(node, status)
            self._count_unstarted(node, status, payload)
        graph = node.graph
        node.status, node.payload, node.block, node.frames = status, payload, b"", ()
        if not node.unwanted:
            self._report(node)
        for need in node.needs:
            need.n_users -= 1
            if not need.n_users:
                self._drop(need)
        if graph is None:
            node.needs = ()
        if node.object_ids or not node.n_users:
            self._drop(node)
        if graph is not None:
            graph.n_open -= 1
            if not graph.n_open:
                self._end_if_over(graph)

    def _report(self, node: WaitingTask) -> None:
        if self.known is not None:
            self.known.add(node.task_id)
        self._put(node.result())
        if self.is_awaited(node.task_id):  # its id does not tell its graph, and its client knows the result now
            self._request(node)

    def _end_waiting(self, node: WaitingTask, status: int) -> None:
        self.n_waiting -= 1
        self.n_beyond_window += node.graph is None
        self._owner.end(1)
        self._values.count_frames(node, -1)
        for receiver, message in self._run_releases(node):
            receiver.send(message)
        if status == TaskStatus.CANCELED:
            self._note_unstarted(node)

    def _count_unstarted(self, node: WaitingTask, status: int, payload: bytes) -> None:
        """Count and report the end of a task that waited, unless its client has the result or makes it."""
        terms, graph = node.terms, node.graph
        if terms is None or node.function_id == NO_ID or (graph is not None and graph.is_answered):
            return
        what = (node.task_id, node.function_id, b"", b"", terms.priority, terms.name)
        reason = _INPUT_FAILED if status == TaskStatus.FAILED else payload.decode("utf-8", "replace")
        terms.context.end_unstarted(Task(*what, graph_id=node.graph_id), TaskStatus(status), reason)

    def _note_unstarted(self, node: WaitingTask) -> None:
        terms = node.terms
        if terms is not None and terms.options and node.function_id != NO_ID:
            options = terms.context.read_options(terms.options)
            if options.at_most_once and not options.was_submitted:  # else it may have been started before
                terms.context.directory.unstarted.add(node.task_id)

    def _run_releases(self, node: WaitingTask) -> Iterator[tuple[ActorRef, Any]]:
        """Yield the message that a task that waited will not request its run, with the receiver, if there is one."""
        context = None if node.terms is None else node.terms.context
        if context is not None and context.adoption is not None:
            released = TasksWait(self._session, owner_of(context.account), (node.task_id,), ended=True)
            yield context.adoption, released

    def _drop(self, node: WaitingTask) -> None:
        """Drop the arguments of a task that has ended, and its result if no task needs it.

        Both are kept while other tasks that need them may arrive.
        """
        graph = node.graph
        status = node.status
        if AWAITED < status < _SUCCESS or not (graph is None or graph.is_complete or graph.given_up):
            return
        if node.object_ids:
            self._values.release_arguments(node)
        if node.n_users:
            return
        if self._by_id and self._by_id.get(node.task_id) is node:
            del self._by_id[node.task_id]
        if self._losses:
            self._losses.pop(node.task_id, None)
        if node.is_stored:
            self._values.release(node)
        if status == _SUCCESS:  # a small wanted result may be sent again, and a failure may be needed
            if node.unwanted:
                node.payload = b""
        elif status < _SUCCESS and graph is not None:  # it was lost, and is requested if it is needed once more
            node.status = _SUCCESS
            graph.n_open -= 1
            self._end_if_over(graph)

    def _give_up(self, graph: TaskGraph, status: TaskStatus, payload: bytes) -> None:
        """End all open tasks of a graph in the same way; running tasks when they have stopped."""
        if graph.given_up:
            return
        graph.given_up = (status, payload)
        running = [node.task_id for node in self._running.values() if node.graph is graph]
        self._slices.add(self._cancel_running, running)
        self._slices.add(self._give_up_on, list(graph.nodes))
        self._end_if_over(graph)

    def _cancel_running(self, task_id: TaskId) -> None:
        if task_id in self._tasks:
            self._tasks.cancel(task_id, _CANCEL)

    def _give_up_on(self, node: WaitingTask) -> None:
        graph = node.graph
        if node.status == WAITING and graph is not None and graph.given_up:
            self._end_given_up(node)
        else:
            self._drop(node)

    def _end_given_up(self, node: WaitingTask) -> None:
        assert node.graph is not None
        assert node.graph.given_up is not None
        if node.graph.is_answered:
            self._end_at_client(node)
        else:
            self._end(node, *node.graph.given_up)
            self._fail_others(node)

    def _end_at_client(self, node: WaitingTask) -> None:
        """End a task whose result only the client has. If tasks need the result, request it."""
        self._end(node, TaskStatus.CANCELED, b"")
        if node.n_users:
            self._await(node)
            self._request(node)

    def _fail_others(self, node: WaitingTask) -> None:
        """Fail the tasks outside a given up graph that need a task of the graph. Those inside end with the graph."""
        dependents, node.dependents = node.dependents or (), None
        for each in dependents:
            if each.status == WAITING and each.graph is not node.graph:
                self._fail(each, node.status, node.reason_for_dependents())

    def _end_if_over(self, graph: TaskGraph) -> None:
        if graph.n_open or not (graph.is_complete or graph.given_up) or graph.graph_id not in self.graphs:
            return
        del self.graphs[graph.graph_id]
        if self._by_prefix.get(graph.graph_id[:PREFIX_BYTES]) is graph:
            del self._by_prefix[graph.graph_id[:PREFIX_BYTES]]
        report_ended(graph)
        if not graph.is_complete:  # the rest of the graph may still arrive
            self._owner.end(graph.size - len(graph.nodes))
            assert graph.given_up is not None
            self._refuse(graph.graph_id, *graph.given_up)
            self._slices.add(self._drop, list(graph.nodes))
        graph.nodes, graph.size = [], 0  # no cycle of references

    # Lost results

    def on_lost(self, object_id: ObjectId, reason: str) -> None:
        """A stored result that tasks need is gone: request it, or the call that makes it, from the client."""
        while (node := self._values.stored(TaskId(object_id))) is not None:
            self._lose(node, reason)

    def _lose(self, node: WaitingTask, reason: str) -> None:
        times = self._losses[node.task_id] = self._losses[node.task_id] + 1
        dependents = node.dependents
        self._values.release(node)
        node.dependents = dependents
        self._await(node)
        for dependent in dependents or ():
            dependent.missing += 1
            if dependent.is_again:
                dependent.count_missing()
            if dependent.status == RUNNING:
                self._has_lost.add(dependent.task_id)
        if node.is_open and times >= TRIES_MOST:
            sentence = f"a result that it needs was lost {times} times, the last time because {reason}"
            self._fail(node, TaskStatus.MISSING_OBJECTS, sentence.encode())
        elif node.n_users:
            self._request(node)

    def _await(self, node: WaitingTask) -> None:
        """Wait once more for a result that was here."""
        node.status, node.payload, node.size = AWAITED, b"", 0
        node.unwanted, node.is_again = 1, True  # it was reported
        node.needs, node.missing = (), 0
        if self.known is not None:
            self.known.discard(node.task_id)  # its client may send it again
        graph = node.graph
        if graph is not None and self.graphs.get(graph.graph_id) is graph:
            graph.n_open += 1
        else:
            node.terms = node.graph = None
        other = self._by_id.get(node.task_id)
        if other is None or other is node or not other.is_open:
            self._by_id[node.task_id] = node
        else:
            self._fail(node, TaskStatus.INTERNAL_ERROR, b"another open task has its id")

    # For viewers and for its session

    def find(self, task_id: TaskId, graph_id: GraphId = NO_GRAPH) -> WaitingTask | None:
        """Return a task that waits or runs, or whose result is needed; None if no such task has this id."""
        found = self._by_id.get(task_id) or self._running.get(task_id)
        graph = self.graphs.get(graph_id) or self._by_prefix.get(task_id[:PREFIX_BYTES])
        return graph.find(task_id, index_of(task_id)) if found is None and graph is not None else found

    def single_ids(self) -> Iterable[TaskId]:
        """Return the ids of the open tasks that are in no graph."""
        return (node.task_id for node in self._by_id.values() if node.status in (WAITING, RUNNING))

    def unwanted_ids(self) -> list[TaskId]:
        """Return the ids of the open tasks that only other tasks need: their client resubmits them only on request."""
        return [node.task_id for node in chain(self.open_tasks(), self._running.values()) if node.unwanted]

    def open_tasks(self) -> Iterator[WaitingTask]:
        """Yield the tasks that wait or run. Some occur twice."""
        for node in chain(self._by_id.values(), *(graph.nodes for graph in self.graphs.values())):
            if node.status in (WAITING, RUNNING):
                yield node

    def take_all(self) -> list[tuple[ActorRef, Any]]:
        """Remove all tasks, because the session ends. Return the messages that release their values, by receiver."""
        nodes = chain(self._by_id.values(), *(graph.nodes for graph in self.graphs.values()))
        messages = self._values.take_all(nodes)
        for task in self.open_tasks():
            if task.status == WAITING:
                self._note_unstarted(task)
                messages += self._run_releases(task)
                task.status = TaskStatus.CANCELED  # some tasks occur twice
                if task.terms is not None and task.function_id != NO_ID:
                    task.terms.context.ended_of.count(task.function_id, TaskStatus.CANCELED)
        self._owner.end(self.n_waiting + sum(graph.size - len(graph.nodes) for graph in self.graphs.values()))
        self.n_waiting = 0
        for task in chain(self._by_id.values(), *(graph.nodes for graph in self.graphs.values())):
            task.dependents, task.graph = None, None  # no cycles of references
        self.graphs, self._by_prefix, self._by_id, self._running = {}, {}, {}, {}
        return messages

    def check(self) -> None:
        """Assert that counts agree with the tasks that they count, and that each open task waits for something."""
        by_graph = [node for graph in self.graphs.values() for node in graph.nodes]
        nodes = {id(node): node for node in chain(self._by_id.values(), self._running.values(), by_graph)}.values()
        waiting = [node for node in nodes if node.status == WAITING]
        assert self.n_waiting == len(waiting)
        n_alone = sum(node.graph is None for node in waiting)
        assert self.n_beyond_window == sum(node.graph is not None for node in self._running.values()) - n_alone
        users = Counter(id(need) for node in nodes if node.status in (WAITING, RUNNING) for need in node.needs)
        for node in nodes:
            assert node.n_users == users[id(node)], "a task has a wrong count of users"
            assert (node.status == RUNNING) == (self._running.get(node.task_id) is node)
            assert node.status != AWAITED or node.n_users or not _is_whole(node), "an awaited result has no users"
            if node.status == WAITING:
                assert node.missing == sum(need.is_open for need in node.needs), "a task has a wrong count of missing"
            elif not node.is_open and not node.n_users and _is_whole(node):
                assert not node.is_stored, "a result is kept, but not needed"
                assert node.status or not (node.unwanted and node.payload), "a result is kept, but not needed"
        for graph in self.graphs.values():
            assert graph.n_open == sum(node.is_open for node in graph.nodes)
            assert graph.n_open or not graph.is_complete, "a graph without open tasks has not ended"


def _is_whole(node: WaitingTask) -> bool:
    """Return whether no further task of the graph of a task may arrive."""
    return node.graph is None or node.graph.is_complete or node.graph.given_up is not None


def _dependents_of(node: WaitingTask) -> Iterator[WaitingTask]:
    """Yield each waiting task that needs a failed one, directly or not, the nearest first.

    Between two of them tasks may be added and may end. No recursion: a chain may have a million tasks.
    """
    reached = deque((node,))
    while reached:
        first = reached.popleft()
        dependents, first.dependents = first.dependents or (), None
        for each in dependents:
            if each.status == WAITING:
                yield each
                reached.append(each)
