"""Failed tasks and rows run again in this process: real workers, a real record of jobs, a real terminal."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import gc
import os
import pickle
import random
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaler import AsyncClient, Client, JobError, RerunError, SchedulerClusterCombo, current_task
from scaler.errors import DisconnectedError, JobConflictError, ProcessorDiedError
from tests.support.processes import run_python, wait_until
from tests.support.terminal import ENTER, terminal

SECONDS = 60
ONLY_THERE, ONLY_HERE = "RERUN_ONLY_THERE", "RERUN_ONLY_HERE"
SECRET = "a-secret-value"


class Called(Exception):  # noqa: N818 - what a call has seen
    """Raised by a task: what it was called with, and where."""


def fails(*args: Any, **kwargs: Any) -> Any:
    raise Called(os.getpid(), args, kwargs)


def draws(*_arguments: object) -> Any:
    task = current_task()
    assert task is not None
    task.report(0.5, "drawing")
    numbers = random.random(), float(np.random.rand()), float(task.rng().random())
    raise Called(numbers, task.name, task.seed, task.spawn_key, task.task_id)


def adds(left: Any, right: Any) -> Any:
    return left + right


def ones(count: int) -> Any:
    return np.ones(count)


def dies_but_here(pid: int) -> str:
    if os.getpid() != pid:
        os._exit(3)
    return "alive"


def changes(values: Any) -> None:
    values[0] = 5
    raise Called(float(values.sum()))


def notes_its_run(file: str) -> None:
    with Path(file).open("a") as ran:
        ran.write("ran ")
    raise Called


def submits(address: str) -> None:
    task = current_task()
    assert task is not None
    with Client(address) as client:
        assert client.submit(adds, 1, 2).result(SECONDS) == 3
        assert current_task() == task
    raise Called(task.attempt)


_meeting: list[Callable[[], object]] = []
"""what `looks_in_threads` calls; workers have nothing"""


def looks_in_threads() -> None:
    seen: list[Any] = []
    for call in _meeting:
        call()
    thread = threading.Thread(target=lambda: seen.append(current_task()))
    thread.start()
    thread.join()
    assert seen == [current_task()]
    raise Called(seen[0] is not None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "jobs"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as there:
        there.setenv(ONLY_THERE, SECRET)
        combo = SchedulerClusterCombo(n_workers=2, keep=str(folder), logging_level="WARNING")
    with combo:
        yield combo.get_address()


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ONLY_THERE, raising=False)


def failed(future: Any) -> Any:
    """Return a future whose task has failed."""
    assert future.exception(SECONDS) is not None
    return future


def seen_by(rerun: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what the call has seen."""
    with pytest.raises(Called) as caught:
        rerun()
    return caught.value.args


def test_a_failed_call_runs_here_with_its_arguments_and_a_traceback_of_its_own(client: Client) -> None:
    future = failed(client.submit(fails, [1, {2}], b"x" * 20_000, key=np.arange(3)))
    with pytest.raises(Called) as caught:
        future.rerun()
    pid, args, kwargs = caught.value.args
    assert pid == os.getpid() != future.exception().args[0]
    assert args == ([1, {2}], b"x" * 20_000)
    assert kwargs["key"].tolist() == [0, 1, 2]
    assert caught.value.__cause__ is None
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[1:] == ["rerun", "run", "fails"]


def test_a_mended_call_returns_its_value(client: Client, tmp_path: Path) -> None:
    future = failed(client.submit(os.stat, str(tmp_path / "file")))
    (tmp_path / "file").touch()
    assert future.rerun().st_size == 0


def test_the_seed_draws_the_numbers_of_the_worker_and_the_generators_are_put_back(client: Client) -> None:
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    graph = client.options(seed=(7, 2)).get({"row": (draws, 1)}, ["row"], block=False)
    named = client.options(seed=7, name="drawn").submit(draws)
    for future in (failed(graph["row"]), failed(named)):
        there = future.exception().args
        assert seen_by(future.rerun) == there
        assert seen_by(future.rerun) == there
    assert there[1:4] == ("drawn", (7,), ())
    unseeded = failed(client.submit(draws))
    assert seen_by(unseeded.rerun)[0][:2] != unseeded.exception().args[0][:2]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states  # type: ignore[index]
    assert current_task() is None


def test_calls_of_two_threads_that_overlap_put_the_generators_back(client: Client) -> None:
    future = failed(client.options(seed=7).submit(looks_in_threads))
    state, began, other_began = random.getstate(), threading.Event(), threading.Event()
    thread = threading.Thread(target=seen_by, args=(future.rerun,))

    def meets() -> None:
        if threading.current_thread() is thread:
            began.set()
            other_began.wait(SECONDS)
        else:
            other_began.set()
            thread.join()

    _meeting[:] = [meets]
    try:
        thread.start()
        assert began.wait(SECONDS)
        seen_by(future.rerun)
    finally:
        _meeting.clear()
    assert random.getstate() == state


def test_the_current_task_is_that_of_the_call_and_of_its_threads_alone(client: Client) -> None:
    future = failed(client.submit(looks_in_threads))
    inside, outside = threading.Event(), list[Any]()

    def looks() -> None:
        inside.wait(SECONDS)
        outside.append(current_task())

    other = threading.Thread(target=looks)
    other.start()
    _meeting[:] = inside.set, other.join
    try:
        assert seen_by(future.rerun) == (True,)
    finally:
        _meeting.clear()
    assert outside == [None]
    assert current_task() is None


def test_a_client_inside_a_rerun_is_a_client_of_the_program(client: Client, address: str) -> None:
    future = client.submit(submits, address)
    assert failed(future).exception().args[0] > 0
    assert seen_by(future.rerun) == (0,)


def test_objects_are_read_as_on_a_worker_and_an_object_that_is_gone_is_named(client: Client, address: str) -> None:
    reference = client.send_object(np.zeros(200_000), name="weights")
    future = failed(client.submit(fails, reference, [reference, 1], other=np.ones(200_000)))
    _, (first, (second, one)), kwargs = seen_by(future.rerun)
    assert (first.size, second.size, one, kwargs["other"].sum()) == (200_000, 200_000, 1, 200_000)
    shared = failed(client.submit(changes, reference))
    with pytest.raises(ValueError, match="read-only"):
        shared.rerun()
    own = failed(client.submit(changes, np.zeros(200_000)))
    assert seen_by(own.rerun) == seen_by(own.rerun) == (5.0,)

    object_id = reference.object_id
    del reference, shared, own
    assert object_id.hex() in {each.object_id.hex() for each in client.objects()}
    del future, first, second
    gc.collect()
    wait_until(lambda: object_id.hex() not in {each.object_id.hex() for each in client.objects()}, "it is freed")
    with Client(address) as other:
        gone = failed(other.submit(fails, other.send_object(b"x" * 50_000, name="weights")))
        other.clear()
        with pytest.raises(RerunError, match="the object 'weights', an argument of task fails, is not in this"):
            gone.rerun()


def test_results_of_other_tasks_are_arguments_and_one_that_is_gone_is_named(client: Client, address: str) -> None:
    large, small = client.submit(ones, 200_000), client.submit(ones, 2)
    future = failed(client.submit(fails, large, {"k": small}, again=large))
    for _ in range(2):
        _, (first, second), kwargs = seen_by(future.rerun)
        assert (first.sum(), second["k"].sum(), kwargs["again"].sum()) == (200_000, 2, 200_000)
    del large
    gc.collect()
    assert seen_by(future.rerun)[1][0].sum() == 200_000, "the failed future keeps what it needs"
    needing = failed(client.submit(adds, future, 1))
    assert seen_by(needing.rerun)[1][0].sum() == 200_000, "the call that failed is the one of the other task"
    with Client(address) as other:
        gone = failed(other.submit(fails, other.submit(ones, 200_000)))
        other.clear()
        with pytest.raises(RerunError, match="the result of task ones, an argument of task fails, is no longer"):
            gone.rerun()


def test_a_node_of_a_graph_gets_its_inputs_computed_again(client: Client) -> None:
    graph = {
        "n": 100_000, "a": (ones, "n"), "unused": (ones, 3), "b": (adds, "a", 1.0), "c": (fails, "b", "n", "a"),
        "d": (adds, "c", 1),
    }  # fmt: skip
    futures = client.get(graph, ["d", "unused"], block=False)
    _, (b, n, a), _ = seen_by(failed(futures["d"]).rerun)
    assert (b.sum(), n, a.sum()) == (200_000, 100_000, 100_000)
    assert futures["unused"].result(SECONDS).sum() == 3
    with pytest.raises(RerunError, match="task unused has not failed: call its function"):
        futures["unused"].rerun()


def test_a_call_that_must_run_once_runs_again_only_if_that_is_said(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    once = client.options(at_most_once=True)
    future = failed(once.submit(notes_its_run, str(file)))
    with pytest.raises(RerunError, match=r"at_most_once.*rerun\(again=True\)"):
        future.rerun()
    assert file.read_text() == "ran "
    assert seen_by(functools.partial(future.rerun, again=True)) == ()
    assert file.read_text() == "ran ran "


def test_a_task_that_has_not_failed_does_not_run_again(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waiting = client.submit(lambda: wait_until(gate.exists, "the gate is open", SECONDS))
    with pytest.raises(RerunError, match="is open: "):
        waiting.rerun()
    waiting.cancel()
    with pytest.raises(RerunError, match="was cancelled: "):
        waiting.rerun()
    done = client.submit(adds, 1, 2)
    assert done.result(SECONDS) == 3
    with pytest.raises(RerunError, match="task adds has not failed: call its function to run it here"):
        done.rerun()


def test_what_differs_is_printed_with_names_of_variables_and_without_values(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    future = failed(client.submit(fails))
    monkeypatch.setenv(ONLY_HERE, SECRET)
    seen_by(future.rerun)
    workers = {each.name for each in client.workers()}
    lines = capfd.readouterr().err.splitlines()
    head = "rerun of task fails, which failed on worker {}: what differs here"
    assert lines[0] in {head.format(worker) for worker in workers}
    assert lines[1:] == [
        f"  environment variables set only there: {ONLY_THERE}", f"  environment variables set only here: {ONLY_HERE}"
    ]  # fmt: skip
    monkeypatch.delenv(ONLY_HERE)
    monkeypatch.setenv(ONLY_THERE, "another value")
    seen_by(future.rerun)
    assert capfd.readouterr().err == "", "nothing differs"


def test_a_task_whose_process_died_runs_again_without_facts(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    future = client.submit(dies_but_here, os.getpid())
    assert isinstance(future.exception(SECONDS), ProcessorDiedError)
    assert future.rerun() == "alive"
    assert "unknown: the failure does not describe its process" in capfd.readouterr().err


async def _rerun_in_loop(address: str) -> None:
    async with AsyncClient(address) as client:
        reference = await client.send_object(np.ones(200_000))
        large = client.submit(ones, 200_000)
        future = client.submit(fails, reference, large, [large, 1])
        with pytest.raises(Called):
            await future
        with pytest.raises(Called) as caught:
            await future.rerun()
        pid, (first, second, (third, _)), _ = caught.value.args
        assert pid == os.getpid()
        assert {first.sum(), second.sum(), third.sum()} == {200_000}
        needing = client.submit(adds, future, 1)
        with pytest.raises(Called):
            await needing
        with pytest.raises(Called):
            await needing.rerun()
        both = asyncio.gather(future.rerun(), future.rerun(), return_exceptions=True)
        assert [type(error) for error in await asyncio.wait_for(both, SECONDS)] == [Called, Called]
        waiting = client.submit(time.sleep, SECONDS)
        with pytest.raises(RerunError, match="task sleep is open"):
            await waiting.rerun()
        waiting.cancel()
        left = client.submit(fails, large)
        with pytest.raises(Called):
            await left
    with pytest.raises(RerunError, match=r"the result of task ones, .* this client is disconnected"):
        await asyncio.wait_for(left.rerun(), SECONDS)


def test_futures_of_an_event_loop_run_again_in_its_thread(client: Client, address: str) -> None:
    asyncio.run(_rerun_in_loop(address))


# Rows of jobs


def picks(row: int, values: Any) -> Any:
    numbers = random.random(), float(np.random.rand())
    if row % 2:
        raise Called(os.getpid(), row, float(values.sum()), numbers)
    return row


def test_failed_rows_run_again_with_the_objects_and_the_seed_of_the_job(client: Client, address: str) -> None:
    reference = client.send_object(np.ones(200_000))
    job = client.options(seed=5).start(picks, [(row, reference) for row in range(6)], name="picks")
    job.wait(SECONDS)
    del reference
    with Client(address) as other:
        rows = other.job("picks").failures()
        assert [row.row for row in rows] == [1, 3, 5]
        for row in rows:
            assert isinstance(row.error, Called)
            pid, *seen = seen_by(row.rerun)
            assert pid == os.getpid()
            assert seen == list(row.error.args[1:])
        [left] = pickle.loads(pickle.dumps(rows[:1]))
        assert (left.row, left.arguments, left.error.args) == (1, rows[0].arguments, rows[0].error.args)
        with pytest.raises(RerunError, match="row 1 was copied"):
            left.rerun()
    with pytest.raises(DisconnectedError):
        rows[0].rerun()

    async def in_loop() -> None:
        async with AsyncClient(address) as looped:
            [row, *_] = await (await looped.job("picks")).failures()
            with pytest.raises(Called) as caught:
                await row.rerun()
            assert caught.value.args[0] == os.getpid()

    asyncio.run(in_loop())
    assert dataclasses.asdict(left)["arguments"] == rows[0].arguments
    [row, *_] = job.failures()
    job.forget()
    with pytest.raises(JobError, match="picks"):
        row.rerun()


def inverse(x: int) -> float:
    return 1 / x


def mended(x: int) -> float:
    return 1 / x if x else 0.0


mended.__name__ = mended.__qualname__ = "inverse"


def test_a_row_runs_with_the_function_of_the_version_that_the_handle_reads(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    once = client.options(at_most_once=True)
    job = once.start(inverse, [(0,), (1,)], name="inverse")
    job.wait(SECONDS)
    [row] = job.failures()
    with pytest.raises(RerunError, match=r"row 0 of the job 'inverse' has the option at_most_once"):
        row.rerun()
    with pytest.raises(ZeroDivisionError):
        row.rerun(again=True)
    capfd.readouterr()
    again = once.start(mended, [(0,), (1,)], name="inverse", on_change="keep")
    again.wait(SECONDS)
    with pytest.raises(JobConflictError, match="has changed the job 'inverse': look it up again"):
        row.rerun(again=True)
    [row] = again.failures()
    assert row.rerun(again=True) == 0.0
    assert "function: version 1 of the job here; the row ran with version 0" in capfd.readouterr().err
    job = client.start(inverse, [(0,), (1,)], name="mended since")
    job.wait(SECONDS)
    [row] = job.failures()
    job.retry(mended)
    assert job.wait(SECONDS).failed == 0
    assert row.rerun() == 0.0
    assert "failure: no longer in the record, because the row has run again since" in capfd.readouterr().err


PROGRAM = """
import sys
sys.path.insert(0, "modules")
import desk.tool
from scaler import Client

if __name__ == "__main__":
    with Client(sys.argv[1], modules=[desk]) as client:
        client.start(desk.tool.price, [(1,), (2,)], name="prices").wait(60)
"""
TOOL = """
from desk.limits import MOST

def price(number):
    if number < 2:
        return number
    raise ValueError(MOST)  # the line of the module
"""


def test_modules_that_travelled_are_used_unless_this_program_has_its_own(
    client: Client, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(folder: Path, most: int) -> None:
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "tool.py").write_text(TOOL)
        (folder / "limits.py").write_text(f"MOST = {most}\n")

    write(tmp_path / "modules" / "desk", 7)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_python("program.py", address, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    [row] = client.job("prices").failures()
    finders = list(sys.meta_path)
    try:
        with pytest.raises(ValueError, match=r"^7$") as caught:
            row.rerun()
        assert "# the line of the module" in "".join(traceback.format_exception(caught.value))
        assert "desk" not in capfd.readouterr().err
        _forget("desk")
        write(tmp_path / "own" / "desk", 8)
        monkeypatch.syspath_prepend(str(tmp_path / "own"))
        with pytest.raises(ValueError, match=r"^8$"):
            row.rerun()
        assert "modules: desk.limits of this program, with other source code" in capfd.readouterr().err
    finally:
        sys.meta_path[:] = finders
        _forget("desk")


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_a_row_with_a_damaged_part_names_the_part(client: Client, folder: Path) -> None:
    reference = client.send_object(np.ones(200_000))
    client.start(fails, [(row, reference) for row in range(2)], name="damaged").wait(SECONDS)
    [row, _] = client.job("damaged").failures()
    assert seen_by(row.rerun)[1][0] == 0
    [place] = folder.glob("*/damaged")
    [value] = (place / "values").glob("object-*")
    data = value.read_bytes()
    value.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(RerunError, match=r"an object among the arguments of row 0 of the job 'damaged' cannot be read"):
        row.rerun()
    value.unlink()
    with pytest.raises(RerunError, match=r"an object among the arguments .*object-.* run its program again"):
        row.rerun()
    with contextlib.closing(sqlite3.connect(place / "job.sqlite")) as database, database:
        database.execute("UPDATE ranges SET value = zeroblob(length(value))")
    with pytest.raises(RerunError, match=r"the arguments of row 0 of the job 'damaged' cannot be read .*rows-0"):
        row.rerun()


# A debugger


DEBUGGED = """
import sys
from scaler import Client, current_task

def half(number):
    if current_task().attempt:
        raise ValueError(number)
    result = number / 2
    breakpoint()
    return result

if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        future = client.submit(half, 7)
        future.exception()
        print("returned", future.rerun())
"""


def test_a_breakpoint_stops_in_the_terminal_of_the_program(client: Client, address: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DEBUGGED)
    with terminal(sys.executable, str(program), address, width=120) as screen:
        screen.wait_for("(Pdb)")
        screen.press(f"p result * 100{ENTER}")
        screen.wait_for("350.0")
        screen.press(f"!result = 42{ENTER}")
        screen.press(f"c{ENTER}")
        screen.wait_for("returned 42")
        assert screen.end() == 0
