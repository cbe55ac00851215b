"""ContextByThread: a thread of a task finds the context of the task, other threads find the previous context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import task_context
from scaler.executors.inline.task_context import ContextByThread, by_thread
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.processor.execution.task_context import ProcessorSpec, ProcessorTaskContext
from scaler.task_context import TaskContext
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.processor import ResumeRequest, TaskBlocked, TaskUnblocked
from scaler.wire.messages.worker import RunTask

ADDRESS, TOKEN = "inproc://a", b"n" * 16


class Link:
    """The link of a client, as far as a wait uses it."""

    def __init__(self, is_nested: bool = True, address: str = ADDRESS) -> None:
        self.is_nested, self.address = is_nested, address

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        raise AssertionError("no process is stopped here")


class Others(TaskContext):
    """The previous context, of a processor that encloses the threads."""

    address = "tcp://127.0.0.1:1"

    @property
    def child_priority(self) -> int:
        return 9


class Bench:
    """A `ContextByThread`, and a thread that runs task 3 of priority 4."""

    def __init__(self) -> None:
        self.contexts = ContextByThread(TaskContext())
        self.said: list[Any] = []
        self.words = [3]
        self.thread = threading.Thread(target=self._serve)
        self.context = ProcessorTaskContext(
            ProcessorSpec(1, TOKEN), ADDRESS, self.words, self.said.extend, lambda _number: None, thread=self.thread
        )
        self.context.run = RunTask(
            TaskId(b"t" * 16), 0, 1, ObjectId(b"f" * 32), b"", b"", priority=4, account=8, owner=9
        )
        self._action: Callable[[], Any] = lambda: None
        self._may, self._has = threading.Event(), threading.Event()
        self.is_over = False
        self.answer: Any = None
        self.thread.start()

    def _serve(self) -> None:
        self.contexts.enter(self.context)
        while self._may.wait(10):
            self._may.clear()
            self.answer = self._action()
            self._has.set()
            if self.is_over:
                break
        self.contexts.leave(self.context)

    def do(self, action: Callable[[], Any]) -> Any:
        """Run a function in the thread of the task."""
        self._action = action
        self._has.clear()
        self._may.set()
        assert self._has.wait(10)
        return self.answer

    def end(self) -> None:
        self.is_over = True
        self.do(lambda: None)
        self.thread.join(10)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.end()


def what_is_there(here: TaskContext) -> tuple[Any, ...]:
    return here.address, here.agent_token, here.processor, here.child_priority, here.account


def test_only_a_thread_of_a_task_finds_the_context_of_the_task(bench: Bench) -> None:
    assert bench.do(lambda: (*what_is_there(bench.contexts), bench.contexts.task)) == (
        ADDRESS,
        TOKEN,
        1,
        of_child(4),
        (8, 9),
        3,
    )
    assert what_is_there(bench.contexts) == (None, NO_ID, 0, 0, (0, 0))


def test_threads_outside_tasks_find_the_previous_context(bench: Bench) -> None:
    contexts = ContextByThread(Others())
    assert what_is_there(contexts) == ("tcp://127.0.0.1:1", NO_ID, 0, 9, (0, 0))


def test_a_wait_of_the_thread_of_a_task_is_reported_for_its_task(bench: Bench) -> None:
    def wait() -> None:
        with bench.contexts.wait(Link()):
            bench.said.append("waits")

    bench.do(wait)
    assert bench.said == [TaskBlocked(3, True), "waits", ResumeRequest(3)]


@pytest.mark.parametrize("link", [None, Link(is_nested=False), Link(address="inproc://another")])
def test_a_wait_of_the_user_is_not_reported(bench: Bench, link: Any) -> None:
    with bench.contexts.wait(link):
        bench.contexts.expect(link)()
    assert bench.said == []


def test_a_wait_of_an_unknown_thread_with_a_client_of_tasks_is_reported_for_each_task(bench: Bench) -> None:
    assert bench.contexts.task == 1
    with bench.contexts.wait(Link()):
        assert bench.said == [TaskBlocked(3, False)]
    assert bench.said == [TaskBlocked(3, False), TaskUnblocked(3)]
    end = bench.contexts.expect(Link())
    end()
    end()
    assert bench.said[2:] == [TaskBlocked(3, False), TaskUnblocked(3)]
    bench.words[0] = 0
    assert bench.contexts.task == 0
    with bench.contexts.wait(Link()):
        assert len(bench.said) == 4


def test_children_belong_to_the_task_whose_thread_submitted_them(bench: Bench) -> None:
    cancelled: list[TaskId] = []
    bench.contexts.submitted(TaskId(b"the user's"), cancelled.append)
    bench.do(lambda: bench.contexts.submitted(TaskId(b"the task's"), cancelled.append))
    bench.context.cancel_children()
    assert cancelled == [b"the task's"]


def test_a_process_has_one_context_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_context, "current", Others())
    contexts = by_thread()
    assert by_thread() is contexts is task_context.current
    assert contexts.child_priority == 9
