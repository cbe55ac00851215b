from __future__ import annotations

import linecache
import subprocess
import sys
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from scaler.client import Client
from scaler.client.outcome import ProfilingInfo, read_profile, with_sources
from scaler.errors import (
    DeserializeObjectError,
    MissingObjects,
    NoWorkerError,
    ProcessorDiedError,
    RemoteTraceback,
    TaskFailedError,
    TaskNotFoundError,
    WorkerDiedError,
)
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.client import (
    Task,
    TaskResult,
)
from scaler.wire.messages.common import PROFILE, TaskStatus
from tests.support.fake_scheduler import FakeScheduler


def boom(text: str) -> None:
    raise ValueError(text)


def test_an_exception_of_user_code_keeps_its_type_and_shows_where_it_was_raised(client: Client) -> None:
    with pytest.raises(ValueError, match="oh dear") as caught:
        client.submit(boom, "oh dear").result(10)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in boom" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (TaskStatus.PROCESSOR_DIED, ProcessorDiedError),
        (TaskStatus.WORKER_DIED, WorkerDiedError),
        (TaskStatus.NO_WORKER, NoWorkerError),
        (TaskStatus.NOT_FOUND, TaskNotFoundError),
        (TaskStatus.MISSING_OBJECTS, MissingObjects),
        (TaskStatus.INTERNAL_ERROR, TaskFailedError),
        (TaskStatus.TIMED_OUT, TimeoutError),
    ],
)
def test_each_status_has_its_error(
    client: Client, scheduler: FakeScheduler, status: int, error: type[Exception]
) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, 1)
    (task,) = scheduler.wait_for(Task)
    scheduler.say(TaskResult(task.task_id, status, b"exit code 9", 0))
    with pytest.raises(error, match="exit code 9"):
        future.result(10)
    assert type(future.exception()) is error


def test_the_error_of_a_task_that_took_too_long_shows_where_it_was(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, 1)
    (task,) = scheduler.wait_for(Task)
    scheduler.say(TaskResult(task.task_id, TaskStatus.TIMED_OUT, b"it ran for 3 s\n  in f\n    g()\n", 0))
    with pytest.raises(TimeoutError, match=r"^task abs: it ran for 3 s$") as caught:
        future.result(10)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert caught.value.__cause__.text == "  in f\n    g()\n"


def test_a_task_that_the_scheduler_cancels_is_cancelled(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, 1)
    (task,) = scheduler.wait_for(Task)
    scheduler.say(TaskResult(task.task_id, TaskStatus.CANCELED, b"", 0))
    with pytest.raises(CancelledError):
        future.result(10)
    assert future.cancelled()


@pytest.mark.parametrize("pickled", [b"", b"garbage", b"K\x03."])
def test_an_exception_that_cannot_be_unpickled_is_shown_as_text(
    client: Client, scheduler: FakeScheduler, pickled: bytes
) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, 1)
    (task,) = scheduler.wait_for(Task)
    failure = TaskFailure("mod.MyError", "the text", "line 7", pickled)
    scheduler.say(TaskResult(task.task_id, TaskStatus.FAILED, failure.encode(), 0))
    with pytest.raises(TaskFailedError, match=r"(?s)mod.MyError: the text.*line 7"):
        future.result(10)


@pytest.mark.parametrize("payload", [b"", b"garbage"])
def test_a_failure_or_a_value_that_cannot_be_read_is_the_error_of_its_task(
    client: Client, scheduler: FakeScheduler, payload: bytes
) -> None:
    scheduler.answers_tasks = False
    futures = [client.submit(abs, n) for n in range(2)]
    first, second = scheduler.wait_for(Task, 2)
    scheduler.say(TaskResult(first.task_id, TaskStatus.FAILED, b"garbage", 0))
    scheduler.say(TaskResult(second.task_id, TaskStatus.SUCCESS, payload, 0))
    with pytest.raises(TaskFailedError):
        futures[0].result(10)
    with pytest.raises(DeserializeObjectError):
        futures[1].result(10)
    assert isinstance(futures[1].exception(), DeserializeObjectError)


def test_a_profile_is_read_as_it_was_packed() -> None:
    assert read_profile(PROFILE.pack(3, 2, 1), "abs", True) == ProfilingInfo(
        duration_us=3, cpu_time_us=2, peak_memory=1
    )


CELL = "/tmp/ipykernel_11/22.py"
SOURCE = ["def price(n):\n", "    return 1 / n\n"]


@pytest.fixture(autouse=True)
def _cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, CELL, (12, None, SOURCE, CELL))


def frame(file: str, line: int, function: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line {line}, in {function}\nZeroDivisionError: oh\n'


def test_a_traceback_shows_the_line_of_a_notebook_cell() -> None:
    assert with_sources(frame(CELL, 2, "price")).splitlines()[1:] == [
        f'  File "{CELL}", line 2, in price',
        "    return 1 / n",
        "ZeroDivisionError: oh",
    ]


def test_source_lines_that_the_worker_has_added_stay() -> None:
    shown = f'  File "{CELL}", line 2, in price\n    return 2 / n\n           ~~^~~\nZeroDivisionError: oh\n'
    assert with_sources(shown) == shown


def test_source_lines_of_exception_groups_and_of_several_frames_are_added_in_place() -> None:
    text = f'  |   File "{CELL}", line 1, in a\n  |   File "{CELL}", line 2, in b\n  | ValueError: x\n'
    assert with_sources(text).splitlines() == [
        f'  |   File "{CELL}", line 1, in a',
        "  |     def price(n):",
        f'  |   File "{CELL}", line 2, in b',
        "  |     return 1 / n",
        "  | ValueError: x",
    ]


@pytest.mark.parametrize("file", ["/etc/passwd", "<string>", "<stdin>", "/no/such.py", "\0.py", CELL.upper()])
def test_lines_of_unknown_files_and_of_files_without_source_are_left_out(file: str) -> None:
    assert with_sources(frame(file, 1, "f")) == frame(file, 1, "f")


def test_a_line_after_the_end_of_its_source_is_left_out() -> None:
    assert with_sources(frame(CELL, 3, "price")) == frame(CELL, 3, "price")


def test_a_traceback_shows_lines_of_a_script_that_only_this_machine_has(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("a = 1\nb = a / 0\n")
    assert "    b = a / 0\n" in with_sources(frame(str(script), 2, "<module>"))


COMMAND = """
from scaler.client.outcome import with_sources
def price(n):
    return 1 / n
for function in "price", "other":
    print(with_sources(f'  File "<string>", line 4, in {function}\\nError\\n'))
"""


@pytest.mark.processes
def test_a_program_given_with_c_shows_its_lines_and_not_those_of_other_texts() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=True)
    expected = ['  File "<string>", line 4, in price', "    return 1 / n", "Error", ""]
    assert done.stdout.splitlines() == [*expected, '  File "<string>", line 4, in other', "Error", ""]
