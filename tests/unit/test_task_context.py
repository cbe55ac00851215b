"""TaskContext: what clients find in a process without tasks, in one with tasks, and in its forks."""

from __future__ import annotations

import os
import threading

import pytest

from scaler import task_context
from scaler.ids import NO_ID
from scaler.task_context import CurrentTask, TaskContext, current_task, rerunning


class InATask(TaskContext):
    address = "tcp://127.0.0.1:1"

    @property
    def task(self) -> int:
        return 3

    @property
    def child_priority(self) -> int:
        return 5


def test_a_process_that_runs_no_tasks_has_an_empty_task_context() -> None:
    here = task_context.current
    assert (here.address, here.agent_token, here.processor, here.task, here.child_priority) == (None, NO_ID, 0, 0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_process_that_runs_tasks_runs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_context, "current", InATask())
    pid = os.fork()
    if pid == 0:
        here = task_context.current
        os._exit(0 if (here.address, here.task, here.child_priority) == (None, 0, 0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert task_context.current.child_priority == 5


def test_a_rerun_call_is_the_current_task_of_its_threads_until_it_ends() -> None:
    outer, inner = (CurrentTask(bytes([number]) * 16, "f", 0, "") for number in range(2))
    asked, seen = threading.Event(), list[CurrentTask | None]()

    def fail() -> None:
        seen.append(current_task())
        raise ZeroDivisionError

    def outside() -> None:
        asked.wait(60)
        seen.append(current_task())

    other = threading.Thread(target=outside)
    other.start()
    with rerunning(outer):
        with pytest.raises(ZeroDivisionError), rerunning(inner):
            fail()
        own = threading.Thread(target=lambda: seen.append(current_task()))
        own.start()
        own.join()
        asked.set()
        other.join()
    assert seen == [inner, outer, None]
    assert current_task() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_rerun_call_has_no_current_task() -> None:
    with rerunning(CurrentTask(bytes(16), "f", 0, "")):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if current_task() is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
