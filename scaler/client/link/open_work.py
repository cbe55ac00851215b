"""OpenWork: the open tasks and stored objects of a client; no socket, no thread, no clock.

Used by the link's thread only, which sends the items in `out`. OpenWork keeps everything that a lost connection may
lose, and resends it on the next connection. Each table drops an entry when the answer arrives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Protocol

from scaler.client.calls.entry import Call, Entry, FailedWork, GraphCalls, MakeError, RowSink, Sink, call_of, graph_of
from scaler.client.calls.inputs import ResultArgument
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link.at_most_once import mark_possibly_started
from scaler.client.link.large_results import LargeResults, as_request
from scaler.client.link.needed_results import NeededResults, OpenGraphs
from scaler.client.link.objects import (
    KeptFunctions,
    Refusals,
    as_sent,
    is_withdrawal,
    object_of,
    size_at_scheduler,
)
from scaler.client.link.open_ranges import OpenRanges, split_entry
from scaler.client.link.requests import Answer, Described, Inquiry, JobQuestion, Requests
from scaler.client.link.window import Window
from scaler.client.outcome import missing_result
from scaler.errors import ClientShutdownException
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import size_of
from scaler.wire.messages.client import (
    NO_GRAPH,
    ClientDisconnect,
    ClientShutdownResponse,
    ExplainRequest,
    GoodbyeKind,
    InfoRequest,
    InfoResponse,
    JobRequest,
    JobResponse,
    JobVerb,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest, TaskStatus
from scaler.wire.messages.rows import frames_of, row_ids


class Lane(Protocol):
    """The items in transit to the scheduler."""

    def bytes_before(self, item: ExplainRequest) -> int: ...


class OpenWork:
    """The open tasks, requests and stored objects of a client."""

    def __init__(self, limit: ValueLimit | None = None) -> None:
        self.limit = limit or ValueLimit("no address")
        self._refusals = Refusals(self.limit)
        self.advised: Callable[[str], str] = str
        """adapts the advice in a scheduler's sentence to this client"""
        self.out: list[Any] = []
        """the items to send next"""
        self._tasks: dict[TaskId, Entry] = {}
        self.graphs = OpenGraphs()
        self._shutdowns: list[Answer[None]] = []
        self.inquiries: Requests[Described, InfoResponse] = Requests(self.queue)
        self.jobs: Requests[Described, JobResponse] = Requests(self.queue)
        """open requests about jobs"""
        self.attended: Counter[str] = Counter()
        """job name -> the number of calls that keep the job running"""
        self._functions = KeptFunctions()
        self._stored: dict[ObjectId, ObjectInstruction] = {}
        self.window = Window()
        """the tasks that were sent, and the tasks that wait in this process until others end"""
        self._ranges = OpenRanges(self._tasks, self.window)
        self.rows_most = 1
        """the most rows of a map that the scheduler accepts as one task"""
        self.large = LargeResults(self)
        self.needed = NeededResults(self)
        self._tries: dict[bytes, int] = {}
        """id of an open item -> the number of unreadable answers that arrived while the item was open"""

    def is_waiting(self, ignored_tasks: int = 0) -> bool:
        """Return whether more than `ignored_tasks` tasks are open, or the client waits for any other answer."""
        else_open = self.graphs or self.large.requests or self._shutdowns or self.inquiries.open or self.jobs.open
        return len(self._tasks) > ignored_tasks or bool(else_open)

    def is_open(self, task_id: TaskId) -> bool:
        """Return whether a task has no result yet."""
        return self._has_task(task_id) or self.graphs.of(task_id) is not None

    def _has_task(self, task_id: TaskId) -> bool:
        return task_id in self._tasks or self._ranges.has_open(task_id)

    def request_about(self, task_id: TaskId) -> ExplainRequest | None:
        """Return the request for the reason why an open task waits; None if the task is not open."""
        if self._has_task(task_id):
            return ExplainRequest(self._ranges.first_open_row(task_id))
        graph = self.graphs.of(task_id)
        return None if graph is None else ExplainRequest(task_id, graph.graph_id)

    def oldest(self) -> TaskId | None:
        """Return the oldest open task; if only graphs are open, a wanted task of the first; None if nothing is open."""
        return next(iter(self._tasks), None) or self.graphs.oldest()

    @property
    def n_open(self) -> int:
        """The number of open tasks, where a graph counts as one."""
        ranges = self._ranges
        return len(self._tasks) + len(self.graphs) + (ranges.further_rows if ranges else 0)

    def count_wanted(self) -> int:
        """Return the number of open tasks with futures. Tasks of maps do not count: a map reports its own errors."""
        sinks = chain((entry[1] for entry in self._tasks.values()), *(graph.sinks.values() for graph in self.graphs))
        return sum(isinstance(sink, ResultArgument) for sink in sinks)

    # Commands of the client

    def add(self, entry: Entry) -> None:
        task, _, function, objects, kept = entry
        is_plain = not (objects or kept or task.object_ids or task.frames) and function.object_id in self._functions
        if not is_plain and self._is_refused(entry):
            return
        self._tasks[task.task_id] = entry
        if self.window.enter(task.task_id, len(task.payload) if is_plain else size_at_scheduler(entry)):
            if is_plain:
                self.out.append(task)
            else:
                self._send_task(entry)

    def resubmit(self, entry: Entry) -> None:
        """Submit a task again whose result was lost. It may be the first row of a range whose other rows are open."""
        self._ranges.expand(entry[0].task_id)
        self.add(entry)

    def claim(self, entries: Iterable[Entry]) -> None:
        """Add claims of results before all other open tasks: agents keep the results only for a while."""
        tasks = {entry[0].task_id: entry for entry in entries} | self._tasks
        self._tasks.clear()
        self._tasks.update(tasks)  # in place: the ranges hold this table

    def add_range(self, entry: Entry) -> None:
        """Submit a task with several rows."""
        task = entry[0]
        if task.rows > self.window.tasks_most or (task.frames and self._reason(task, *entry[2:4]) is not None):
            for row in split_entry(entry):
                self.add(row)
            return
        self._ranges.add(task.task_id, task.rows)
        self.add(entry)
        if task.task_id not in self._tasks:  # it was refused
            self._ranges.forget(task.task_id)
            self.window.leave(task.task_id)

    def add_rows(self, take: Callable[[], Iterable[Entry]]) -> None:
        """Submit the tasks of one map. Consecutive tasks without objects are added together, which is cheaper."""
        row: list[Entry] = []
        for entry in take():
            task = entry[0]
            if not (task.rows or task.inputs or entry[3]):
                row.append(entry)
                continue
            if row:
                self.add_all(row)
                row = []
            (self.add_range if task.rows else self.add)(entry)
        if row:
            self.add_all(row)

    def _is_refused(self, entry: Entry) -> bool:
        """Return whether a task has a value that may not be sent. If so, fail the task."""
        task, _, function, objects, _ = entry
        make_error = self._reason(task, function, objects)
        if make_error is not None:
            _fail(entry, make_error)
            self.needed.on_failed(task.task_id, make_error)
        return make_error is not None

    def _reason(
        self, task: Task, function: ObjectInstruction, objects: Iterable[ObjectInstruction]
    ) -> MakeError | None:
        carried = frames_of(task) if task.rows else [task.frames]
        return self._refusals.reason((function, *objects), task.object_ids, carried)

    def _reason_of_graph(self, graph: GraphCalls) -> MakeError | None:
        return self._refusals.reason((*graph.functions.values(), *graph.objects.values()), *graph.used())

    def add_all(self, entries: Sequence[Entry]) -> None:
        """Submit tasks without objects and inputs. One call for many tasks is cheaper than a call for each task."""
        tasks = [entry[0] for entry in entries]
        sizes = {
            task.task_id: len(task.payload) + size_of(task.frames) if task.frames else len(task.payload)
            for task in tasks
        }
        functions = {id(entry[2]): entry[2] for entry in entries}.values()
        new = [function for function in functions if function.object_id not in self._functions]
        if self._refusals or self._refusals.reason(new) is not None or not self.window.enter_all(sizes):
            for entry in entries:
                self.add(entry)
            return
        self._tasks.update(zip(sizes, entries, strict=True))
        for function in new:
            if function.object_id not in self._functions:  # else it occurs twice
                self._add_function(function)
        self.out.extend(tasks)

    def _send_task(self, entry: Entry) -> None:
        task, _, function, objects, _ = entry
        self._send_call(task, function, objects)
        if task.inputs:
            self.needed.send_known(entry)

    def _send_call(self, task: Task, function: ObjectInstruction, objects: Iterable[ObjectInstruction]) -> None:
        if function.object_id not in self._functions:
            self._add_function(function)
        if objects:
            self.out.extend(map(as_sent, objects))
        self.out.append(task)

    def send_again(self, call: Call) -> MakeError | None:
        """Send a call of a graph by itself, whose result only other tasks need. Return why it is not sent, if so."""
        task, function, objects, _ = call
        make_error = self._reason(task, function, objects)
        if make_error is None:
            self._send_call(task, function, objects)
        return make_error

    def send_now(self, task_id: TaskId) -> None:
        """Send a task that waits in this process, because tasks that were sent need its result."""
        if self.window.admit_now(task_id):
            self._send_task(self._tasks[task_id])

    def _send_waiting(self) -> None:
        for task_id in self.window.admit():
            self._send_task(self._tasks[task_id])

    def _send_cancel(self, task_id: TaskId, make_error: MakeError = CancelledError) -> None:
        """Send the cancellation of a task that is no longer open, unless the task still waited in this process.

        Args:
            make_error: makes the error of the tasks that need its result, if the scheduler does not have the task.
        """
        rows = self._ranges.forget(task_id) if self._ranges else 0
        if self.window.leave(task_id):
            self.out.append(TaskCancel(task_id, rows=rows))
        self.needed.on_failed(task_id, make_error)

    def add_graph(self, graph: GraphCalls) -> None:
        """Submit a graph."""
        make_error = self._reason_of_graph(graph)
        if make_error is not None:
            self._fail_graph(graph, make_error)
            return
        self.graphs.add(graph)
        for function in graph.functions.values():
            if function.object_id not in self._functions:
                self._add_function(function)
        self._send_graph(graph)

    def _send_graph(self, graph: GraphCalls) -> None:
        self.out.extend(map(as_sent, graph.objects.values()))
        self.out.extend(graph.tasks_to_send())

    def _cancel_graph(self, graph: GraphCalls, make_error: MakeError) -> None:
        """Cancel a graph at the scheduler, and fail all its results that have not arrived."""
        self.graphs.remove(graph)
        self.out.append(_cancel_of(graph))
        self._fail_graph(graph, make_error)

    def _fail_graph(self, graph: GraphCalls, make_error: MakeError) -> None:
        task_ids = list(graph.sinks)
        graph.fail(make_error)
        for task_id in task_ids:
            self.needed.on_failed(task_id, make_error)

    def open_graph_of(self, call: Call) -> GraphCalls | None:
        """Return the graph of a call; None if it is of no graph, or the graph is no longer open."""
        graph = graph_of(call)
        return None if graph is None else self.graphs.by_id.get(graph.graph_id)

    def _add_function(self, function: ObjectInstruction) -> None:
        self._functions.keep(function)
        if self._functions.is_full():
            self._forget_functions()
        self.out.append(function)

    def _forget_functions(self) -> None:
        used = {entry[0].function_id for entry in self._tasks.values()}
        used.update(function.object_id for function in self.graphs.functions())
        self.delete(self._functions.drop_unused(used))

    def cancel(self, task_id: TaskId) -> None:
        """Cancel an open task, or the whole graph of a task. All receivers of results get a `CancelledError`."""
        entry = self._tasks.pop(task_id, None)
        if entry is not None:
            self.large.unread.pop(ObjectId(task_id), None)
            entry[1].fail(CancelledError)
            self._send_cancel(task_id)
            self._send_waiting()
            return
        graph = self.graphs.of(task_id)
        if graph is not None:
            self._cancel_graph(graph, CancelledError)
        else:
            self.needed.on_failed(task_id, CancelledError)  # it has ended before it was submitted

    def cancel_waiting(self, task_id: TaskId, lane: Lane) -> None:
        """Cancel a task unless it has started. Once it was sent completely (see `lane`), the scheduler decides."""
        if task_id not in self._tasks:
            return
        if task_id in self.window.waiting or lane.bytes_before(ExplainRequest(task_id)):
            self.cancel(task_id)
        else:
            self.out.append(TaskCancel(task_id, waiting=1))

    def abandon(self, sink: object) -> None:
        """Cancel all tasks whose results `sink` receives."""
        sinks = {sink, *self.large.unread.drop_requested_by(sink)}
        task_ids = [task_id for task_id, entry in self._tasks.items() if entry[1] in sinks]
        for task_id in task_ids:
            del self._tasks[task_id]
            self._send_cancel(task_id)
        self._send_waiting()
        self.large.abandon(sink)

    def store_object(self, instruction: ObjectInstruction) -> None:
        """Store an object, and keep it until `release` or `clear` is called."""
        make_error = self._refusals.reason([instruction])
        if make_error is not None:
            self._refusals.add(instruction.object_id, make_error)
            return
        self._stored[instruction.object_id] = instruction
        self.out.append(as_sent(instruction))

    def release(self, object_id: ObjectId) -> None:
        """Delete a stored object."""
        self._refusals.forget(object_id)
        if self._stored.pop(object_id, None) is not None:
            self.delete([object_id])

    def forget_result(self, object_id: ObjectId) -> None:
        """Delete a large result whose future was garbage-collected."""
        if object_id in self.large.requests:
            return
        unread = self.large.drop(object_id)
        if unread is None:
            return
        if unread.is_at_scheduler:
            self.delete([object_id])
        elif self._tasks.pop(TaskId(object_id), None) is not None:
            self._stop_making(TaskId(object_id))
        elif (graph := self.graphs.of(TaskId(object_id))) is not None:
            self.graphs.take_sink(TaskId(object_id))
            if not graph.sinks:
                self.out.append(_cancel_of(graph))

    def _stop_making(self, task_id: TaskId) -> None:
        """Cancel a task that makes a lost result again, unless it was sent and other tasks may need it."""
        is_needed = self.graphs.open_graph(task_id) is not None or self.needed.is_input(task_id)
        if task_id in self.window.waiting or not is_needed:
            self._send_cancel(task_id, missing_result)
            self._send_waiting()

    def clear(self, make_error: MakeError) -> None:
        """Cancel all tasks and delete all objects."""
        self._send_cancels()
        self.delete([*self._stored, *self._functions, *(each.object_id for each in self.large.unread.at_scheduler())])
        self._stored, self._functions = {}, KeptFunctions()
        self._refusals = Refusals(self.limit)
        self.large.forget()
        self._fail_tasks(make_error)
        self.large.fail(missing_result)

    def _send_cancels(self) -> None:
        self.needed.clear()
        for task_id in self._tasks:
            self._send_cancel(task_id)
        self.out.extend(map(_cancel_of, self.graphs))

    def shut_down(self, reply: Answer[None]) -> None:
        """Request the scheduler to shut down."""
        self._shutdowns.append(reply)
        self.out.append(ClientDisconnect(GoodbyeKind.SHUTDOWN))

    def inquire(self, inquiry: Inquiry[Any]) -> None:
        """Send an inquiry about the scheduler and its workers."""
        self.inquiries.add(inquiry, inquiry.item)

    def withdraw(self, inquiry: Inquiry[Any]) -> None:
        """Forget an inquiry, whose answer is no longer wanted, and notify the scheduler."""
        self.out.extend(map(InfoRequest, self.inquiries.withdraw(inquiry)))

    def leave_job(self, name: str) -> None:
        """Undo one `attend_job` call. After the last of these calls, notify the scheduler."""
        if name not in self.attended:
            return
        self.attended[name] -= 1
        if self.attended[name] <= 0:
            del self.attended[name]
            self._ask_job(JobVerb.LEAVE, name)

    def _ask_job(self, verb: JobVerb, name: str) -> None:
        question = JobQuestion(verb, name)
        self.jobs.add(question, question.item)

    def queue(self, item: Any) -> None:
        self.out.append(item)

    def delete(self, object_ids: Iterable[ObjectId]) -> None:
        """Delete objects at the scheduler."""
        self.out.extend(ObjectInstruction(InstructionKind.DELETE, object_id, "", ()) for object_id in object_ids)

    # Answers of the scheduler

    def on_results(self, results: Sequence[TaskResult]) -> None:
        task_ids = [result.task_id for result in results]
        touched: Sink | None = None
        for result, entry in self._matched(results, task_ids):
            graph = self.graphs.of(result.task_id) if entry is None else None
            if entry is None and graph is None:
                self.large.on_late(result)
                continue
            sink = self.graphs.take_sink(result.task_id) if entry is None else entry[1]
            if sink is not touched:
                if touched is not None:
                    touched.notify()
                touched = sink
            if not (result.status or result.size):
                sink.deliver(result)
            elif result.status:
                if isinstance(sink, ResultArgument) and result.status != TaskStatus.CANCELED:
                    sink.failed = FailedWork(result, _call_of(entry, graph, result))
                sink.refuse(self._with_advice(result) if result.status == TaskStatus.NO_WORKER else result)
            else:
                self.large.unread.keep(result, _call_of(entry, graph, result))
                sink.store(result)
        if touched is not None:
            touched.notify()
        self.needed.on_reported(task_ids)
        if self.window.waiting:
            self._send_waiting()

    def _matched(
        self, results: Sequence[TaskResult], task_ids: Sequence[TaskId]
    ) -> Iterable[tuple[TaskResult, Entry | None]]:
        """Remove the tasks that have ended. Return each result with the entry of its task, or with None."""
        if self._ranges or any(result.rows for result in results):
            return self._ranges.match(results)
        self.window.end(task_ids)
        return zip(results, map(self._tasks.pop, task_ids, repeat(None)), strict=True)

    def _with_advice(self, result: TaskResult) -> TaskResult:
        return replace(result, payload=self.advised(result.payload.decode(errors="replace")).encode())

    def on_object_requests(self, requests: Iterable[ObjectRequest]) -> None:
        """Send the bytes of objects of which only the location was sent before, and the results that tasks need."""
        for request in requests:
            if not self.needed.supply(request.object_id):
                self._send_object(request.object_id)

    def _send_object(self, object_id: ObjectId) -> None:
        known = self._stored.get(object_id) or self.graphs.object_of(object_id)
        instruction = known or object_of(object_id, self._tasks.values())
        if instruction is None:  # its task has just ended, or it is the result of an unknown task
            self.delete([object_id])
            self.needed.refuse(TaskId(object_id))
        elif (make_error := self._refusals.of_value(instruction)) is not None:
            self._refusals.add(object_id, make_error)
            self.delete([object_id])
            self._drop_refused()
            self._send_waiting()
        else:
            self.out.append(instruction)

    def _drop_refused(self) -> None:
        """Fail all open work that needs a value that may not be sent, and drop such values."""
        refusals = self._refusals
        for known in (*self._stored.values(), *self._functions.values()):
            make_error = refusals.reason([known])
            if make_error is None:
                continue
            self._functions.drop(known.object_id)
            if self._stored.pop(known.object_id, None) is not None:
                refusals.add(known.object_id, make_error)
        for task_id, entry in list(self._tasks.items()):
            if (make_error := self._reason(entry[0], *entry[2:4])) is not None:
                self._give_up_on(task_id, make_error)
        for graph in list(self.graphs):
            if (make_error := self._reason_of_graph(graph)) is not None:
                self._cancel_graph(graph, make_error)

    def _expand_refused(self) -> None:
        """Make a task of each row of a range with a value that may not be sent, because other rows may be sent."""
        for task_id, entry in list(self._tasks.items()):
            if entry[0].rows and entry[0].frames and self._reason(entry[0], *entry[2:4]) is not None:
                self._ranges.expand(task_id)

    def on_unreadable(self, make_error: MakeError) -> None:
        """Fail each call that was open during `TRIES_MOST` unreadable answers: its answer may be the unreadable one."""
        known = self._tries
        open_ids: Iterable[bytes] = chain(self._tasks, self.large.requests, self.graphs.by_id)
        tries = {open_id: known.get(open_id, 0) + 1 for open_id in open_ids}
        for open_id in [open_id for open_id, times in tries.items() if times >= TRIES_MOST]:
            del tries[open_id]
            self._give_up_on(open_id, make_error)
        self._tries = tries
        self.inquiries.on_unreadable(make_error)
        self.jobs.on_unreadable(make_error)

    def on_unwritable(self, item: Any, make_error: MakeError) -> None:
        """Fail the call of an item that cannot be encoded."""
        if isinstance(item, (InfoRequest, JobRequest)):
            (self.inquiries if isinstance(item, InfoRequest) else self.jobs).drop(item.number, make_error)
        elif isinstance(item, ObjectInstruction):
            self._refusals.add(item.object_id, make_error)
            self._drop_refused()
        elif isinstance(item, Task) and item.rows and item.task_id in self._tasks:
            self._send_alone(item.task_id)
        elif isinstance(item, Task):
            self._give_up_on(item.task_id if item.graph_id == NO_GRAPH else item.graph_id, make_error)
            if item.unwanted and item.graph_id == NO_GRAPH:
                self.needed.fail(item.task_id, make_error)
        self._send_waiting()

    def _send_alone(self, first: TaskId) -> None:
        """Send each row of a range, which was not sent, as a task of its own."""
        entry = self._tasks.pop(first)
        self._ranges.forget(first)
        self.window.end((first,))
        for row in split_entry(entry):
            self.add(row)

    def _give_up_on(self, open_id: bytes, make_error: MakeError) -> None:
        """Fail an open task, a graph, or the request for a large result."""
        entry = self._tasks.pop(TaskId(open_id), None)
        if entry is not None:
            _fail(entry, make_error)
            self._send_cancel(TaskId(open_id), make_error)
        self.large.give_up_on(ObjectId(open_id), make_error)
        graph = self.graphs.by_id.get(GraphId(open_id))
        if graph is not None:
            self._cancel_graph(graph, make_error)

    def on_shutdown_responses(self, responses: Sequence[ClientShutdownResponse]) -> None:
        response = responses[0]  # a second one has no receiver
        refusal = response.reason or "the scheduler refused to shut down"
        replies, self._shutdowns = self._shutdowns, []
        for reply in replies:
            reply.take() if response.accepted else reply.fail(partial(ClientShutdownException, refusal))

    # New and lost connections

    def start_over(self, unacknowledged: Sequence[Any] = (), in_transit: Iterable[Any] | None = None) -> None:
        """Submit all open work in a new session. Before it, send the messages that cancel or delete earlier work.

        If the scheduler is the same as before, it answers for the tasks that it has, and starts none of them again.

        Args:
            unacknowledged: items of the last session that may not have arrived.
            in_transit: large items that were being sent when the last scheduler ended; None: it is the same scheduler.
        """
        waiting = (self._tasks[task_id][0] for task_id in self.window.waiting)
        unsent = [*self.out, *waiting]
        mark_possibly_started(self._tasks, self.graphs, unsent)  # before any is queued again
        self._ranges.submit_alone({item.task_id for item in unsent if type(item) is Task}, self.window.tasks_most)
        self.large.start_over(has_ended=in_transit is not None)
        self._return_to_graphs()
        if in_transit is not None:
            self._refusals.on_dead_scheduler(in_transit, unacknowledged)
        self._expand_refused()
        self._drop_refused()
        self.out = [item for item in (*unacknowledged, *self.out) if is_withdrawal(item)]
        self.out.extend(map(as_sent, self._stored.values()))
        self.window.clear()
        self._ranges.restore_weights()
        self.needed.clear()
        enter = self.window.enter
        admitted = [entry for entry in self._tasks.values() if enter(entry[0].task_id, size_at_scheduler(entry))]
        for entry in admitted:
            self._functions.keep(entry[2])
        for function in self.graphs.functions():
            self._functions.keep(function)
        self.out.extend(self._functions.values())
        for entry in admitted:
            self._send_task(entry)
        for graph in self.graphs:
            self._send_graph(graph)
        self.out.extend(map(as_request, self.large.requests))
        self.inquiries.resend()
        for name in self.attended:
            self._ask_job(JobVerb.ATTEND, name)
        self.jobs.resend()
        if self._shutdowns:
            self.out.append(ClientDisconnect(GoodbyeKind.SHUTDOWN))

    def _return_to_graphs(self) -> None:
        """Remove the tasks that make lost results of open graphs again: the graphs make them in the new session."""
        for task_id in list(self._tasks):
            graph = self.graphs.open_graph(task_id)
            if graph is not None:
                graph.sinks[task_id] = self._tasks.pop(task_id)[1]

    def give_up(self, make_error: MakeError, make_request_error: MakeError, tell: bool) -> None:
        """Fail all open work.

        Args:
            make_request_error: makes the error of each request and shutdown.
            tell: whether to queue cancellations of all tasks and graphs, to be sent once the scheduler is connected
                again.
        """
        if tell:
            self._send_cancels()
        else:
            self.out = []
        self._fail_tasks(make_error)
        self.large.fail(make_request_error)
        self.inquiries.fail(make_request_error)
        self.jobs.fail(make_request_error)
        replies, self._shutdowns = self._shutdowns, []
        for reply in replies:
            reply.fail(make_request_error)

    def forget_everything(self) -> None:
        """Drop everything that was kept for the next connection, because the client will not connect again."""
        self.out = []
        self._functions, self._stored = KeptFunctions(), {}
        self.large.forget()

    def _fail_tasks(self, make_error: MakeError) -> None:
        entries = dict(self._tasks)
        self._tasks.clear()
        self._ranges.clear()
        self.window.clear()
        self.needed.clear()
        graphs = self.graphs.remove_all()
        for entry in entries.values():
            entry[1].fail(make_error)
        for graph in graphs:
            graph.fail(make_error)


def _fail(entry: Entry, make_error: MakeError) -> None:
    """Fail a task, or all rows of a range."""
    task, sink, *_ = entry
    if isinstance(sink, RowSink):
        for task_id in row_ids(task.task_id, task.rows) if task.rows else (task.task_id,):
            sink.fail_task(task_id, make_error)
    else:
        sink.fail(make_error)


def _call_of(entry: Entry | None, graph: GraphCalls | None, result: TaskResult) -> Call:
    """Return the call of a task that has ended, from its entry or from its graph."""
    if entry is not None:
        return call_of(entry, keeps_futures=result.status != 0)
    assert graph is not None
    return graph.call(result.task_id)


def _cancel_of(graph: GraphCalls) -> TaskCancel:
    return TaskCancel(graph.id_of(0), graph_id=graph.graph_id)
