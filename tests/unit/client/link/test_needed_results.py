"""Results that tasks need: which ones the client sends the scheduler, and how lost ones are made again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.client.calls.entry import Entry
from scaler.client.calls.inputs import Input, ResultArgument
from scaler.client.link.needed_results import OpenGraphs
from scaler.client.link.open_work import OpenWork
from scaler.ids import NO_ID, ObjectId, TaskId, split_ids
from scaler.peer.conversation_state import TRIES_MOST
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import NO_GRAPH, InputResult, Task, TaskCancel, TaskResult
from scaler.wire.messages.common import (
    LOST,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from tests.support.examples import examples
from tests.unit.client.link.test_open_work import (
    Sink,
    brought,
    cancel_of,
    entry,
    first,
    function,
    graph,
    is_claim,
    object_id,
    result,
    task_id,
)

LARGE = 100_000
ONCE = RunOptions(at_most_once=True).encode()


class Future(Sink, ResultArgument):
    """A sink whose result is an argument of other calls, as that of a future."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.input = Input(task_id(number), f"task {number}", ())

    def deliver(self, result: TaskResult) -> None:
        super().deliver(result)
        self.input.end(result)

    def refuse(self, result: TaskResult) -> None:
        super().refuse(result)
        self.input.end(result)

    def store(self, result: TaskResult) -> None:
        super().store(result)
        self.input.end(result)

    def fail(self, make_error: Any) -> None:
        super().fail(make_error)
        self.input.fail(make_error)


def needs(number: int, *futures: Future, options: bytes = b"", objects: Any = ()) -> Entry:
    """Return a call whose arguments are the results of `futures`; its sink is a future, too."""
    task, _, instruction, *_ = entry(number)
    inputs = b"".join([future.input.task_id for future in futures])
    kept: list[Any] = [*futures, *(("argument", future.input) for future in futures)]
    object_ids = b"".join(each.object_id for each in objects)
    task = replace(task, inputs=inputs, options=options, object_ids=object_ids)
    return task, Future(number), instruction, objects, kept


def add(work: OpenWork, number: int, *futures: Future, options: bytes = b"") -> Future:
    """Submit a call that needs the results of `futures`. Return its future."""
    made = needs(number, *futures, options=options)
    work.add(made)
    assert isinstance(made[1], Future)
    return made[1]


def said(work: OpenWork) -> list[Any]:
    """Take the pending items about tasks."""
    out, work.out = work.out, []
    return [item for item in out if isinstance(item, (Task, InputResult, TaskCancel))]


def request(work: OpenWork, number: int) -> list[Any]:
    """Request the result of a task as the scheduler does. Return the answer."""
    said(work)
    work.on_object_requests([ObjectRequest(ObjectId(task_id(number)), 1)])
    return said(work)


def lose(work: OpenWork, number: int) -> None:
    work.large.on_objects([ObjectResponse(ObjectId(task_id(number)), LOST, (), reason="its host left")])


def known(number: int, status: int = 0, payload: bytes = b"", size: int = 0) -> InputResult:
    return InputResult(task_id(number), status, payload, size)


def failure(answer: list[Any]) -> tuple[int, str]:
    """Return status and sentence of an answer that is a failure."""
    (item,) = answer
    assert type(item) is InputResult
    return item.status, item.payload.decode()


def assert_missing(answer: list[Any], sentence: str) -> None:
    status, found = failure(answer)
    assert status == TaskStatus.MISSING_OBJECTS
    assert sentence in found


@pytest.fixture
def work() -> OpenWork:
    return OpenWork()


class TestSending:
    def test_a_task_is_sent_before_its_inputs_have_ended(self, work: OpenWork) -> None:
        second = add(work, 2, add(work, 1))
        add(work, 3, second)
        expected = [(task_id(1), b""), (task_id(2), task_id(1)), (task_id(3), task_id(2))]
        assert [(item.task_id, item.inputs) for item in said(work)] == expected
        work.start_over()
        assert [(item.task_id, item.inputs) for item in said(work)] == expected

    @pytest.mark.parametrize(
        ("ended", "sent"),
        [
            (result(1, payload=b"value"), known(1, payload=b"value")),
            (result(1, size=LARGE), known(1, size=LARGE)),
            (result(1, TaskStatus.FAILED, payload=b"why"), known(1, TaskStatus.FAILED, b"why")),
        ],
    )
    def test_a_known_result_is_sent_right_after_each_task_that_needs_it(
        self, work: OpenWork, ended: TaskResult, sent: InputResult
    ) -> None:
        future = add(work, 1)
        work.on_results([ended])
        said(work)
        for number in (2, 3):
            add(work, number, future)
            assert said(work) == [needs(number, future)[0], sent]
        assert request(work, 1) == [sent]

    def test_tasks_with_inputs_are_added_one_by_one_among_many(self, work: OpenWork) -> None:
        future = add(work, 1)
        work.on_results([result(1, payload=b"value")])
        said(work)
        rows = [entry(2), needs(3, future), entry(4)]
        work.add_rows(lambda: rows)
        assert said(work) == [rows[0][0], rows[1][0], known(1, payload=b"value"), rows[2][0]]


class TestRequests:
    def test_nothing_is_sent_for_an_open_input(self, work: OpenWork) -> None:
        add(work, 2, add(work, 1))
        assert request(work, 1) == []
        work.on_results([result(1, payload=b"value")])  # the scheduler knows it then
        assert said(work) == []
        assert not work.needed._unanswered

    def test_an_input_that_waits_in_this_process_is_sent_beyond_the_window(self, work: OpenWork) -> None:
        future = add(work, 1)
        work.on_results([result(1, size=LARGE)])
        work.window.resize(1, 0)
        add(work, 2, future)
        lose(work, 1)
        work.large.request(ObjectId(task_id(1)), Sink())  # it waits behind the task that needs it
        assert request(work, 1) == [first(entry(1)[0])]
        add(work, 3)
        work.on_results([result(1, size=LARGE)])
        assert said(work) == []
        work.on_results([result(2)])
        assert [item.task_id for item in said(work)] == [task_id(3)]

    @pytest.mark.parametrize(
        ("end", "status"),
        [
            (lambda work: work.cancel(task_id(1)), TaskStatus.CANCELED),
            (lambda work: work.on_unwritable(entry(1)[0], ValueError), TaskStatus.MISSING_OBJECTS),
            (lambda work: [work.on_unreadable(ValueError) for _ in range(TRIES_MOST)], TaskStatus.MISSING_OBJECTS),
        ],
    )
    def test_an_input_that_ends_in_the_client_after_a_request_is_reported(
        self, work: OpenWork, end: Callable[[OpenWork], None], status: TaskStatus
    ) -> None:
        add(work, 2, add(work, 1))
        assert request(work, 1) == []
        end(work)
        assert failure([item for item in said(work) if type(item) is InputResult])[0] == status

    @pytest.mark.parametrize(
        ("error", "status"), [(None, TaskStatus.CANCELED), (ValueError, TaskStatus.MISSING_OBJECTS)]
    )
    def test_an_input_that_ends_before_it_is_submitted_is_reported(
        self, work: OpenWork, error: Any, status: TaskStatus
    ) -> None:
        future = Future(1)  # its arguments are still being serialised
        add(work, 2, future)
        assert request(work, 1) == []
        if error is not None:
            future.input.fail(error)
        work.cancel(task_id(1))
        assert failure(said(work))[0] == status

    def test_an_input_that_is_refused_when_it_is_submitted_is_reported(self, work: OpenWork) -> None:
        work.limit.n_bytes = 10
        future = Future(1)
        add(work, 2, future)
        assert request(work, 1) == []
        work.add(entry(1, future, [brought(1, (bytes(11),))]))
        assert failure(said(work))[0] == TaskStatus.MISSING_OBJECTS

    def test_requests_are_forgotten_in_a_new_session(self, work: OpenWork) -> None:
        add(work, 2, add(work, 1))
        request(work, 1)
        work.start_over()
        said(work)
        work.cancel(task_id(1))
        assert said(work) == [TaskCancel(task_id(1))]


class TestWindow:
    @pytest.fixture
    def second(self, work: OpenWork) -> Future:
        """Fill the window with one task, and return another one that waits."""
        work.window.resize(1, 0)
        add(work, 1)
        second = add(work, 2)
        said(work)
        return second

    def test_dependents_of_a_waiting_task_follow_it(self, work: OpenWork, second: Future) -> None:
        add(work, 4, add(work, 3, second))
        assert said(work) == []
        for number in (1, 2, 3):
            work.on_results([result(number, payload=b"v")])
        sent = said(work)
        assert [item.task_id for item in sent if type(item) is Task] == [task_id(2), task_id(3), task_id(4)]
        assert [item for item in sent if type(item) is InputResult] == [known(2, payload=b"v"), known(3, payload=b"v")]

    def test_dependents_of_a_cancelled_task_that_was_not_sent_are_cancelled(
        self, work: OpenWork, second: Future
    ) -> None:
        third = add(work, 3, second)
        work.cancel(task_id(2))
        assert said(work) == []
        work.on_results([result(1)])
        assert said(work) == [needs(3, second)[0], known(2, TaskStatus.CANCELED)]
        work.on_results([result(3, TaskStatus.CANCELED)])
        assert third.ends == [("refused", TaskStatus.CANCELED)]


class TestLargeResults:
    @staticmethod
    def stored(work: OpenWork, options: bytes = b"") -> Future:
        """Return the future of a task whose result is stored."""
        future = add(work, 1, options=options)
        work.on_results([result(1, size=LARGE)])
        said(work)
        return future

    @pytest.mark.parametrize("outcome", [{"size": LARGE}, {"payload": b"small"}])
    def test_a_lost_input_is_computed_again_when_the_scheduler_requests_it(
        self, work: OpenWork, outcome: dict[str, Any]
    ) -> None:
        future = self.stored(work)
        lose(work, 1)
        add(work, 2, future)
        assert [item.task_id for item in said(work)] == [task_id(2)]
        assert request(work, 1) == [first(entry(1)[0])]
        assert request(work, 1) == []
        work.on_results([result(1, **outcome)])
        assert said(work) == []
        assert request(work, 1) == [known(1, **outcome)]

    def test_inputs_are_known_as_long_as_a_large_result_needs_them(self, work: OpenWork) -> None:
        future = add(work, 1)
        work.on_results([result(1, payload=b"value")])
        add(work, 2, future)
        work.on_results([result(2, size=LARGE)])
        collected = weakref.ref(future)
        del future
        assert collected() is None
        lose(work, 2)
        work.large.request(ObjectId(task_id(2)), Sink())
        (task, sent) = said(work)[-2:]
        assert (task.inputs, sent) == (task_id(1), known(1, payload=b"value"))

    def test_a_result_whose_future_no_longer_exists_is_missing(self, work: OpenWork) -> None:
        future = self.stored(work)
        add(work, 2, future)
        work.forget_result(ObjectId(task_id(1)))
        assert_missing(request(work, 1), "its future no longer exists")

    def test_a_result_that_was_lost_too_often_is_missing(self, work: OpenWork) -> None:
        future = self.stored(work)
        add(work, 2, future)
        for _ in range(TRIES_MOST - 1):
            lose(work, 1)
            assert len(request(work, 1)) == 1
            work.on_results([result(1, size=LARGE)])
        lose(work, 1)
        assert_missing(request(work, 1), "its host left")

    def test_a_lost_at_most_once_input_fails_its_dependents(self, work: OpenWork) -> None:
        future = self.stored(work, ONCE)
        lose(work, 1)
        add(work, 2, future)
        assert_missing(request(work, 1), "at_most_once")

    def test_a_kept_large_result_is_deleted_with_its_future(self, work: OpenWork) -> None:
        self.stored(work)
        reader = Sink()
        work.large.request(ObjectId(task_id(1)), reader, keep=True)
        work.large.on_objects([ObjectResponse(ObjectId(task_id(1)), 1, (b"value",))])
        assert reader.ends == [("received", (b"value",))]
        assert deletes(work) == []
        work.forget_result(ObjectId(task_id(1)))
        assert deletes(work) == [task_id(1)]


class TestClaims:
    """In a new session, the client claims the large results that it has not read."""

    @staticmethod
    def claimed(work: OpenWork, options: bytes = b"") -> Future:
        """Return the future of a task whose result is claimed; another task needs the result."""
        future = TestLargeResults.stored(work, options)
        work.start_over((), ())
        add(work, 2, future)
        assert [item.task_id for item in said(work)] == [task_id(1), task_id(2)]
        return future

    def test_a_claim_goes_on_without_its_future_if_another_task_needs_the_result(self, work: OpenWork) -> None:
        needing = self.claimed(work).input
        work.forget_result(ObjectId(task_id(1)))
        assert said(work) == []
        del needing  # it is an argument of the other task

    def test_an_input_that_an_agent_still_has_is_used(self, work: OpenWork) -> None:
        self.claimed(work)
        assert request(work, 1) == []
        work.on_results([result(1, size=LARGE)])
        assert said(work) == []
        assert request(work, 1) == [known(1, size=LARGE)]


class TestGraphs:
    """The graph is 100 -> 101 -> 102: each task needs the one before it; 102 is wanted."""

    def test_a_lost_result_inside_a_graph_is_made_again_step_by_step(self, work: OpenWork) -> None:
        made = graph({102: Sink()}, [brought(1)])
        work.add_graph(made)
        for number, inputs in ((101, task_id(100)), (100, b"")):
            (again,) = request(work, number)
            assert again == replace(made.call(task_id(number))[0], unwanted=1)
            assert (again.inputs, again.graph_id, again.graph_tasks, again.dependencies) == (inputs, NO_GRAPH, 0, b"")
        assert work.n_open == 1

    def test_a_lost_result_inside_an_open_graph_is_made_again_although_its_future_is_gone(self, work: OpenWork) -> None:
        future = Future(101)
        made = graph({101: future, 102: Sink()})
        work.add_graph(made)
        needing = add(work, 1, future)
        work.on_results([result(101, size=LARGE), result(1)])
        work.forget_result(ObjectId(task_id(101)))
        assert request(work, 101) == [replace(made.call(task_id(101))[0], unwanted=1)]
        del needing  # its future has ended, and knows its argument

    def test_a_call_that_is_sent_again_follows_its_function_and_objects(self, work: OpenWork) -> None:
        made = graph({102: Sink()}, [brought(1)])
        work.add_graph(made)
        work._functions.clear()
        work.out = []
        work.on_object_requests([ObjectRequest(ObjectId(task_id(100)), 1), ObjectRequest(object_id(1), 1)])
        assert work.out == [function(9), brought(1), replace(made.call(task_id(100))[0], unwanted=1), brought(1)]

    def test_a_cancelled_graph_fails_the_dependents_of_its_results(self, work: OpenWork) -> None:
        future = Future(102)
        made = graph({102: future})
        work.add_graph(made)
        add(work, 1, future)
        assert request(work, 102) == []
        work.cancel(task_id(102))
        assert said(work) == [cancel_of(made), known(102, TaskStatus.CANCELED)]

    def test_a_refused_graph_fails_the_dependents_of_its_results(self, work: OpenWork) -> None:
        work.limit.n_bytes = 10
        future = Future(102)
        add(work, 1, future)
        assert request(work, 102) == []
        work.add_graph(graph({102: future}, [brought(1, (bytes(11),))]))
        assert failure(said(work))[0] == TaskStatus.MISSING_OBJECTS

    @pytest.mark.parametrize("size", [0, LARGE])
    def test_the_calls_of_an_ended_graph_are_kept_as_long_as_an_unread_result_may_need_them(
        self, work: OpenWork, size: int
    ) -> None:
        work.add_graph(graph({102: Sink()}))
        work.on_results([result(102, size=size, payload=b"" if size else b"value")])
        answer = request(work, 101)
        if not size:
            assert failure(answer)[0] == TaskStatus.NOT_FOUND
            return
        assert [(type(item), item.task_id) for item in answer] == [(Task, task_id(101))]
        work.forget_result(ObjectId(task_id(102)))
        assert failure(request(work, 101))[0] == TaskStatus.NOT_FOUND

    def test_calls_with_the_option_at_most_once_are_not_sent_again(self, work: OpenWork) -> None:
        work.add_graph(graph({102: Sink()}, options=ONCE))
        assert_missing(request(work, 101), "at_most_once")

    def test_a_call_that_may_not_be_sent_again_fails_the_tasks_that_need_it(self, work: OpenWork) -> None:
        made = graph({102: Sink()}, [brought(1, (bytes(11),))])
        work.add_graph(made)
        (again,) = request(work, 100)
        work.on_unwritable(again, lambda: ValueError("cannot be written"))
        assert_missing(said(work), "cannot be written")
        work.limit.n_bytes = 10
        assert failure(request(work, 100))[0] == TaskStatus.MISSING_OBJECTS
        assert work.graphs.by_id == {made.graph_id: made}

    def test_ids_with_the_prefix_of_a_graph_may_be_unknown(self, work: OpenWork) -> None:
        work.add_graph(graph({102: Sink()}))
        assert failure(request(work, 7))[0] == TaskStatus.NOT_FOUND


def deletes(work: OpenWork) -> list[TaskId]:
    out, work.out = work.out, []
    return [
        item.object_id for item in out if isinstance(item, ObjectInstruction) and item.kind == InstructionKind.DELETE
    ]


def test_a_graph_is_open_until_its_last_result_has_arrived() -> None:
    graphs, made = OpenGraphs(), graph({100: Sink(), 102: Sink()})
    graphs.add(made)
    for number in (100, 102):
        assert (graphs.of(task_id(number)), graphs.oldest()) == (made, task_id(number))
        assert len(graphs) == 1
        sink = made.sinks[task_id(number)]
        assert graphs.take_sink(task_id(number)) is sink
        assert graphs.of(task_id(number)) is None
    assert (len(graphs), graphs.oldest()) == (0, None)
    assert graphs.kept(task_id(101)) is made
    assert graphs.kept(task_id(103)) is None
    del made
    assert graphs.kept(task_id(101)) is None


# A story


class Model:
    """A scheduler that runs tasks, drops results as soon as it has reported them, and loses large ones."""

    def __init__(self, work: OpenWork, stored: set[TaskId]) -> None:
        self.work, self.stored = work, stored
        self.ended: dict[TaskId, int] = {}
        """known results -> size"""
        self.waiting: dict[TaskId, tuple[Task, list[TaskId]]] = {}
        self.graph: list[TaskId] = []
        self.requested: set[TaskId] = set()

    def act(self, at_most: int) -> bool:
        """Handle all items of the client, and run some tasks. Return whether anything has happened."""
        out, self.work.out = self.work.out, []
        for item in out:
            self._take(item)
        ready = [task for task, task_needs in self.waiting.values() if all(map(self._has, task_needs))][:at_most]
        for task in ready:
            self._run(task)
        missing = {need for _, task_needs in self.waiting.values() for need in task_needs if not self._has(need)}
        missing -= self.waiting.keys() | self.requested
        self.requested |= missing
        self.work.on_object_requests([ObjectRequest(ObjectId(need), 1) for need in sorted(missing)])
        return bool(out or ready or missing)

    def finish(self) -> None:
        while self.act(99):
            pass

    def _has(self, need: TaskId) -> bool:
        return need in self.ended and (not self.ended[need] or need in self.stored)

    def _take(self, item: Any) -> None:
        if type(item) is ObjectInstruction and item.kind == InstructionKind.DELETE:
            self.stored.discard(TaskId(item.object_id))
        elif type(item) is InputResult:
            assert item.status == 0, item.payload
            self.requested.discard(item.task_id)
            self.ended[item.task_id] = item.size
        elif type(item) is ObjectRequest:
            found = item.object_id in self.stored
            reason = "" if found else "lost"
            self.work.large.on_objects([ObjectResponse(item.object_id, found or LOST, (b"large",), reason=reason)])
        elif type(item) is Task:
            if item.graph_id != NO_GRAPH:
                self.graph.append(item.task_id)
            if item.function_id != NO_ID:
                self._submit(item)

    def _submit(self, task: Task) -> None:
        self.requested.discard(task.task_id)
        if task.task_id in self.stored:
            self.ended[task.task_id] = LARGE
            self.work.on_results([TaskResult(task.task_id, 0, b"", LARGE)])
            return
        if is_claim(task):
            self.work.on_results([TaskResult(task.task_id, TaskStatus.NOT_FOUND, b"", 0)])
            return
        positions = [
            int.from_bytes(task.dependencies[at : at + 4], "little") for at in range(0, len(task.dependencies), 4)
        ]
        self.waiting[task.task_id] = (
            task,
            [*(self.graph[each] for each in positions), *map(TaskId, split_ids(task.inputs))],
        )

    def _run(self, task: Task) -> None:
        del self.waiting[task.task_id]
        size = self.ended[task.task_id] = LARGE * (task.task_id[-1] % 2)
        if size:
            self.stored.add(task.task_id)
        if not task.unwanted:
            self.work.on_results([TaskResult(task.task_id, 0, b"" if size else b"value", size)])

    def drop(self, share: int) -> None:
        """Drop some small results, and lose some large ones, which is reported to their owner."""
        for ended in [each for each in self.ended if each[-1] % 3 == share]:
            if self.ended.pop(ended) and ended in self.stored:
                self.stored.discard(ended)
                self.work.large.on_objects([ObjectResponse(ObjectId(ended), LOST, (), reason="its host left")])


class Reader(Sink):
    def __init__(self, work: OpenWork, number: int, *, keep: bool) -> None:
        super().__init__()
        self._work, self._keep = work, keep
        work.large.request(ObjectId(task_id(number)), self, keep=keep)

    def store(self, result: TaskResult) -> None:
        self._work.large.request(ObjectId(result.task_id), self, keep=self._keep)


def _usable(known: set[int], step: str, futures: dict[int, Future], used: set[int]) -> list[int]:
    """Return the tasks whose results can be read, or forgotten because no task needs them."""
    ended = [each for each in sorted(known) if futures[each].ends]
    return [each for each in ended if (each % 2 if step == "read" else each not in used)]


STEPS = ["task", "task", "large", "graph", "act", "act", "act", "drop", "read", "forget", "restart", "cut"]


@examples(300)
@given(st.integers(0, 10**9), st.integers(5, 40))
def test_each_task_gets_its_inputs_whatever_is_lost(seed: int, n_steps: int) -> None:
    """No task fails, no task waits for ever, each large result can be read at the end, and no state is left."""
    random, work, losses = Random(seed), OpenWork(), 0
    work.window.resize(2, 0)
    model, made = Model(work, set()), graph({101: Future(101), 104: Future(104), 105: Future(105)}, n_tasks=6)
    futures: dict[int, Future] = {}
    used, forgotten, readers = {101, 104, 105}, set[int](), list[Reader]()
    for _ in range(n_steps):
        step = random.choice(STEPS)
        number = 2 * len(futures) + (step == "large")
        is_loss = step in ("drop", "restart", "cut")
        losses += is_loss
        if step in ("task", "large"):
            known = sorted(futures.keys() - forgotten)
            needed = random.sample(known, min(len(known), random.randrange(3)))
            used.update(needed)
            futures[number] = add(work, number, *(futures[each] for each in needed))
        elif step == "graph" and 105 not in futures:
            futures |= {int(task_id[-1]): sink for task_id, sink in made.sinks.items()}
            work.add_graph(made)
        elif step == "act":
            model.act(random.randrange(3))
        elif step in ("read", "forget") and (choices := _usable(futures.keys() - forgotten, step, futures, used)):
            number = random.choice(choices)
            if step == "read":
                readers.append(Reader(work, number, keep=number in used))
            else:
                work.forget_result(ObjectId(task_id(number)))
            forgotten.update({number} - used)
        elif not is_loss or losses >= TRIES_MOST:
            continue
        elif step == "drop":
            model.drop(random.randrange(3))
        else:
            stored = [each for each in model.stored if step == "cut" or random.random() < 0.5]
            model = Model(work, set(stored))
            work.start_over((), None if step == "cut" else ())
    model.finish()
    assert {number: future.ends for number, future in futures.items()} == {
        number: [("stored", LARGE) if number % 2 else ("delivered", b"value")] for number in futures
    }
    readers += [Reader(work, number, keep=number in used) for number in futures.keys() - forgotten if number % 2]
    model.finish()
    assert [reader.ends for reader in readers] == [[("received", (b"large",))]] * len(readers)
    for number in used:
        work.forget_result(ObjectId(task_id(number)))
    model.finish()
    left = [each for each in model.stored if each[-1] in futures]
    assert (left, work.large.unread, work.is_waiting()) == ([], {}, False)
