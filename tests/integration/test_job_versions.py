"""Other work under the name of a job: conflicts, versions, programs at the same time, programs that end too early."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.cli.jobs import main
from scaler.errors import JobConflictError, JobError, SerializeObjectError
from tests.support.processes import called, wait_until


def inverse(folder: str, x: int) -> float:
    (Path(folder) / f"{x}-{time.monotonic_ns()}").touch()
    return 1 / x


def mended(folder: str, x: int) -> float:
    (Path(folder) / f"{x}-{time.monotonic_ns()}").touch()
    return 1 / x if x else 0.0


mended.__name__ = mended.__qualname__ = "inverse"


def waits(gate: str, x: int) -> int:
    wait_until(Path(gate).exists, "the gate is open", 300)
    return x


def shifted(x: int, shift: int) -> int:
    return x + shift


def double(x: int) -> int:
    return 2 * x


def lines(values: Any) -> int:
    return sum(1 for _ in values)


def runs_of(folder: Path, x: int) -> int:
    return len(list(folder.glob(f"{x}-*")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("versions")


@pytest.fixture(scope="module")
def combo(place: Path) -> Iterator[SchedulerClusterCombo]:
    with SchedulerClusterCombo(2, keep=str(place / "jobs"), logging_level="ERROR") as combo:
        yield combo


@pytest.fixture
def client(combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(combo.get_address()) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def numbers(folder: Path, *xs: int) -> list[tuple[str, int]]:
    return [(str(folder), x) for x in xs]


def test_a_mended_function_keeps_the_rows_that_are_done_and_runs_the_others(client: Client, folder: Path) -> None:
    results = client.map(inverse, numbers(folder, 1, 2, 4, 0), job="mended", return_exceptions=True)
    assert results[:3] == [1.0, 0.5, 0.25]
    with pytest.raises(JobConflictError, match=r"on_change='restart'.*on_change='keep'"):
        client.map(mended, numbers(folder, 1, 2, 4, 0), job="mended")
    assert client.map(mended, numbers(folder, 1, 2, 4, 0), job="mended", on_change="keep") == [1.0, 0.5, 0.25, 0.0]
    assert [runs_of(folder, x) for x in (1, 2, 4, 0)] == [1, 1, 1, 2]
    assert client.map(mended, numbers(folder, 1, 2, 4, 0), job="mended") == [1.0, 0.5, 0.25, 0.0]


@pytest.mark.parametrize("is_detached", [False, True])
def test_a_mended_function_runs_the_failed_rows_of_a_job_whose_rows_the_program_does_not_have(
    combo: SchedulerClusterCombo, client: Client, folder: Path, is_detached: bool
) -> None:
    name, items, calls = f"mended {is_detached}", numbers(folder, 1, 2, 4, 0), client.options(retries=1, priority=-2)

    def again(fn: Callable[..., float]) -> list[float]:
        job = calls.start(fn, items, name, keep_for="2d") if is_detached else None
        return list(job.results()) if job else calls.map(fn, items, job=name)

    with pytest.raises(ZeroDivisionError):
        again(inverse)
    with Client(combo.get_address()) as other:
        stale = other.job(name)
        assert stale.state in ("done", "stopped")
        job = client.job(name)
        job.retry(fn=mended)
        done = job.wait(60)
        assert (done.state, done.done, done.failed) == ("done", 4, 0)
        assert list(job) == [1.0, 0.5, 0.25, 0.0]
        assert repr(job) == f"<Job '{name}' of inverse: done, 4 of 4 rows done>"
        with pytest.raises(JobConflictError, match=r"has changed the job 'mended .*look it up again"):
            list(stale.results())
        with pytest.raises(JobError, match="look it up again" if is_detached else "works on it at the moment"):
            stale.retry(inverse)
        assert list(other.job(name)) == [1.0, 0.5, 0.25, 0.0]
        assert again(mended) == [1.0, 0.5, 0.25, 0.0]  # the same work now
        with pytest.raises(JobConflictError):
            again(inverse)
    assert [runs_of(folder, x) for x in (1, 2, 4, 0)] == [1, 1, 1, 3]  # the first function was tried twice
    assert [ended for _, ended, *_ in job.versions()] == [3, 1]
    job.retry(mended)  # the same function again
    assert len(job.versions()) == 2


def test_a_running_job_continues_with_its_new_function(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = client.start(waits, [(str(gate if x > 5 else tmp_path), x) for x in range(300)], name="new while running")
    wait_until(lambda: job.progress().done == 6, "rows run")
    begun = job.results()
    assert next(begun) == 0

    def negative(_gate: str, x: int) -> int:
        return -x

    job.retry(negative)
    gate.touch()
    assert job.wait(120).done == 300
    assert list(job) == [*range(6), *range(-6, -300, -1)]
    assert [value for _, value in sorted(job.as_completed())] == list(job)
    with pytest.raises(JobConflictError, match="look it up again"):  # its next rows are of other work
        list(begun)
    assert client.start(negative, [(str(gate if x > 5 else tmp_path), x) for x in range(300)], "new while running").rows


def test_a_function_that_a_job_cannot_get_changes_nothing(
    combo: SchedulerClusterCombo, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, lock = folder / "gate", threading.Lock()

    def locked(_folder: str, _x: int) -> object:
        return lock

    async def coroutine(_folder: str, _x: int) -> float:
        return 1.0

    with pytest.raises(ZeroDivisionError):
        client.map(inverse, numbers(folder, 1, 0), job="unchanged")
    job = client.job("unchanged")
    for wrong, error, text in (
        (3, TypeError, "takes a function, not 3"),
        (coroutine, TypeError, "is a coroutine function"),
        (locked, SerializeObjectError, "cannot be serialised"),
    ):
        with pytest.raises(error, match=text):
            job.retry(wrong)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr("scaler.client.jobs.job_calls.PYTHON", "3.0")
        with pytest.raises(JobConflictError, match=r"'unchanged' cannot be replaced: it was made by Python 3"):
            job.retry(mended)
    with pytest.raises(JobError, match="only its owner, bob, can replace it"):  # an admin has named it bob/unchanged
        job.replace_function({**job.heard, "name": "other", "owner": "bob"}, b"", mended)
    with Client(combo.get_address(), name="a colleague") as other, ThreadPoolExecutor(1) as thread:
        for caller in (other, client):
            name = f"in use by {id(caller)}"
            running = thread.submit(caller.map, waits, [(str(gate), 1)], job=name)
            wait_until(lambda name=name: name in [each.name for each in client.jobs()], "it is there")
            used = client.job(name)
            wait_until(lambda used=used: used.progress().all_rows_known, "it runs")
            why = "a colleague.* works on it at the moment" if caller is other else "another call of this program uses"
            with pytest.raises(JobError, match=f"cannot be replaced now: {why}"):
                used.retry(mended)
            gate.touch()
            assert running.result(60) == [1]
            gate.unlink()
    once = client.options(at_most_once=True)
    once.map(inverse, numbers(folder, 1, 0, 2), job="once unchanged", return_exceptions=True)
    begun = client.job("once unchanged")
    with pytest.raises(JobError, match="1 failed row cannot run again: the option at_most_once forbids it"):
        begun.retry(mended)
    assert begun.versions() == []
    assert str(begun.failures()[0].error) == "division by zero"
    assert runs_of(folder, 0) == 2, "once for each job"
    assert [str(each.error) for each in job.failures()] == ["division by zero"]
    assert job.versions() == []


def test_changed_added_and_missing_rows_cost_only_themselves(client: Client, folder: Path) -> None:
    assert client.map(inverse, numbers(folder, 1, 2, 4), job="rows") == [1.0, 0.5, 0.25]
    with pytest.raises(JobConflictError, match=r"row 1 was called with \(.*, 2\), and is called with \(.*, 5\)"):
        client.map(inverse, numbers(folder, 1, 5, 4), job="rows")
    assert client.map(inverse, numbers(folder, 1, 5, 4), job="rows", on_change="keep") == [1.0, 0.2, 0.25]
    with pytest.raises(JobConflictError, match="it has more rows now, and had 3"):
        client.map(inverse, numbers(folder, 1, 5, 4, 8), job="rows")
    assert client.map(inverse, numbers(folder, 1, 5, 4, 8), job="rows", on_change="keep") == [1.0, 0.2, 0.25, 0.125]
    with pytest.raises(JobConflictError, match="it has 2 rows now, and had 4"):
        client.map(inverse, numbers(folder, 1, 5), job="rows")
    assert client.map(inverse, numbers(folder, 1, 5), job="rows", on_change="keep") == [1.0, 0.2]
    assert client.map(inverse, numbers(folder, 1, 5), job="rows") == [1.0, 0.2]
    assert [runs_of(folder, x) for x in (1, 2, 4, 5, 8)] == [1, 1, 1, 1, 1]


def test_with_keep_a_job_of_start_changes_while_it_runs_and_no_run_of_the_old_version_counts(
    client: Client, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = client.start(waits, [(str(gate), x) for x in range(300)], name="running")
    wait_until(lambda: sum(worker.tasks for worker in client.workers()), "rows run")

    def waits_no_more(gate: str, x: int) -> int:
        return -x

    waits_no_more.__name__ = waits_no_more.__qualname__ = "waits"
    new = client.start(waits_no_more, [(str(gate), x) for x in range(300)], name="running", on_change="keep")
    gate.touch()
    assert new.wait(120).done == 300
    assert list(new.results()) == [-x for x in range(300)] == list(client.job("running").results())
    for read in (job.results, job.as_completed, job.failures):  # it would return results of other work
        with pytest.raises(JobConflictError, match=r"has changed the job 'running': look it up again"):
            list(read())


def test_show_says_which_rows_came_from_which_version(
    client: Client, combo: SchedulerClusterCombo, folder: Path
) -> None:
    client.map(inverse, numbers(folder, 1, 2, 0), job="shown", return_exceptions=True)
    client.map(mended, numbers(folder, 1, 2, 0), job="shown", on_change="keep")
    code, shown = called(main, combo.get_address(), "show", "shown")
    assert code == 0
    assert re.search(r"version 1\b.*2 rows", shown)
    assert re.search(r"version 2\b.*1 row", shown)


def test_restart_drops_all_results(client: Client, folder: Path) -> None:
    client.map(inverse, numbers(folder, 1, 2), job="restarted")
    assert client.map(mended, iter(numbers(folder, 1, 2)), job="restarted", on_change="restart") == [1.0, 0.5]
    assert client.map(mended, iter(numbers(folder, 1, 8)), job="restarted", on_change="restart") == [1.0, 0.125]
    assert [runs_of(folder, x) for x in (1, 2, 8)] == [3, 2, 1]


def test_started_at_most_once_rows_never_run_in_another_version(client: Client, folder: Path) -> None:
    once = client.options(at_most_once=True)
    once.map(inverse, numbers(folder, 1, 0, 2), job="once", return_exceptions=True)
    results = once.map(mended, numbers(folder, 1, 0, 2), job="once", on_change="keep", return_exceptions=True)
    assert [results[0], results[2]] == [1.0, 0.5]
    assert isinstance(results[1], ZeroDivisionError)
    assert [runs_of(folder, x) for x in (1, 0, 2)] == [1, 1, 1]


def test_a_mistake_never_costs_the_result_of_a_row_that_may_run_once(client: Client, folder: Path) -> None:
    once = client.options(at_most_once=True)
    assert once.map(inverse, numbers(folder, 1, 2, 4), job="careful") == [1.0, 0.5, 0.25]
    for other in ((9, 2, 4), (1, 2)):  # other arguments, and rows that could come back
        with pytest.raises(JobConflictError, match="has started, and must not run again"):
            once.map(inverse, numbers(folder, *other), job="careful", on_change="keep")
    with pytest.raises(JobConflictError, match="its option at_most_once was True, and is False"):
        client.map(inverse, numbers(folder, 1, 2, 4), job="careful", on_change="keep")
    assert once.map(inverse, numbers(folder, 1, 2, 4, 8), job="careful", on_change="keep") == [1.0, 0.5, 0.25, 0.125]
    assert [runs_of(folder, x) for x in (1, 2, 4, 8, 9)] == [1, 1, 1, 1, 0]


def test_other_options_of_tasks_are_other_work(client: Client, folder: Path) -> None:
    client.map(inverse, numbers(folder, 1), job="options")
    with pytest.raises(JobConflictError, match="its option retries was 0, and is 2"):
        client.options(retries=2).map(inverse, numbers(folder, 1), job="options")
    assert client.options(retries=2).map(inverse, numbers(folder, 1), job="options", on_change="keep") == [1.0]


def test_a_record_without_an_ended_row_is_no_conflict(client: Client, folder: Path) -> None:
    with pytest.raises(TypeError):
        client.map(inverse, [(1,), (2,)], job="never begun")
    assert "never begun" not in [job.name for job in client.jobs()]
    for items in ([(str(folder), 1), 7], (each for each in [(str(folder), 1), None])):
        with pytest.raises(TypeError):
            client.start(inverse, items, name="never begun")  # type: ignore[arg-type]
    assert "never begun" not in [job.name for job in client.jobs()]
    cut_off = client.options(capabilities={"nowhere": 1})
    cut_off.start(inverse, numbers(folder, 1, 2), name="never begun")
    assert client.map(mended, numbers(folder, 4, 0), job="never begun") == [0.25, 0.0]


def test_rows_that_cannot_be_compared_are_a_conflict_once_they_have_ended(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("a\nb\n")

    class Opened:
        """Cannot be described: each pickle of it differs."""

        def __reduce__(self) -> Any:
            return list, (os.urandom(8).hex(),)

    assert client.map(lines, [([1],), (Opened(),)], job="not compared") == [1, 16]
    assert "1 rows cannot be compared when the job is opened again; the first is row 1" in caplog.text
    with pytest.raises(JobConflictError, match="row 1 cannot be compared"):
        client.map(lines, [([1],), (Opened(),)], job="not compared")
    caplog.clear()
    assert client.map(lines, [([1],), (Opened(),)], job="not compared", on_change="keep") == [1, 16]
    assert "1 ended rows cannot be compared, and keep their results" in caplog.text


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make calls at the same time, and return what each returns or raises."""
    barrier = threading.Barrier(len(calls))

    def call(function: Callable[[], Any]) -> Any:
        barrier.wait(60)
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call, calls))


@pytest.mark.parametrize("is_one_client", [False, True])
def test_of_programs_with_other_rows_at_the_same_time_none_gets_results_of_another(
    combo: SchedulerClusterCombo, is_one_client: bool
) -> None:
    with Client(combo.get_address()) as one, Client(combo.get_address()) as other:
        clients = (one, one) if is_one_client else (one, other)
        for turn in range(6):
            name = f"values {is_one_client} {turn}"
            found = at_once(
                *(
                    lambda client=client, shift=shift, name=name: client.map(  # type: ignore[misc]
                        shifted, [(x, shift) for x in range(300)], job=name
                    )
                    for client, shift in zip(clients, (0, 10**6), strict=True)
                )
            )
            for shift, got in zip((0, 10**6), found, strict=True):
                assert isinstance(got, JobConflictError) or got == [x + shift for x in range(300)], got
            assert not all(isinstance(got, JobConflictError) for got in found), found


def test_of_programs_with_fewer_and_more_rows_each_gets_its_own_or_a_conflict(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as one, Client(combo.get_address()) as two, Client(combo.get_address()) as three:
        for turn in range(4):
            name = f"numbers {turn}"
            found = at_once(
                *(
                    lambda client=client, count=count, name=name: client.map(  # type: ignore[misc]
                        shifted, [(x, 1) for x in range(count)], job=name
                    )
                    for client, count in ((one, 299), (two, 300), (three, 301))
                )
            )
            for count, got in zip((299, 300, 301), found, strict=True):
                assert isinstance(got, JobConflictError) or got == list(range(1, count + 1)), got


def test_a_program_that_comes_while_another_one_submits_other_rows_is_refused(combo: SchedulerClusterCombo) -> None:
    first_range, may_end = threading.Event(), threading.Event()

    def slowly() -> Iterator[tuple[int, int]]:
        for x in range(5000):
            if x == 4500:
                first_range.set()
                may_end.wait(60)
            yield x, 0

    with Client(combo.get_address()) as one, Client(combo.get_address()) as other, ThreadPoolExecutor(1) as thread:
        job = thread.submit(one.map, shifted, slowly(), job="slowly")
        first_range.wait(60)
        wait_until(lambda: other.job("slowly").progress().rows, "the first rows are on disk")
        with pytest.raises(JobConflictError):
            other.map(shifted, [(x, 5) for x in range(5000)], job="slowly")
        with pytest.raises(JobConflictError, match="works on it at the moment"):
            other.map(shifted, [(x, 5) for x in range(5000)], job="slowly", on_change="keep")
        may_end.set()
        assert job.result(120) == list(range(5000))


@pytest.mark.parametrize("how", ["keep", "restart"])
def test_of_two_programs_that_change_a_job_at_the_same_time_none_gets_rows_of_the_other(
    combo: SchedulerClusterCombo, how: str
) -> None:
    is_half_way, may_go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[tuple[int, int]]:
        for x in range(5000):
            if x == 4500:  # the first range has been replaced by then
                is_half_way.set()
                may_go_on.wait(60)
            yield x, 1

    name = f"changed twice, {how}"
    with Client(combo.get_address()) as one, Client(combo.get_address()) as other, ThreadPoolExecutor(1) as thread:
        assert one.map(shifted, [(x, 0) for x in range(5000)], job=name) == list(range(5000))
        first = thread.submit(one.map, shifted, slowly(), job=name, on_change=how)
        is_half_way.wait(60)
        try:
            found = other.map(shifted, [(x, 2) for x in range(5000)], job=name, on_change=how)
        except JobConflictError:
            found = None
        may_go_on.set()
        if found is not None:
            assert found == [x + 2 for x in range(5000)]
            with pytest.raises(JobConflictError):
                first.result(120)
        else:
            assert first.result(120) == [x + 1 for x in range(5000)]


def test_a_program_that_opens_a_job_while_another_one_changes_it_never_gets_rows_of_the_other(
    combo: SchedulerClusterCombo,
) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[tuple[int, int]]:
        has_begun.set()  # the function is another one, so the new version has begun
        may_go_on.wait(60)
        yield from ((x, 1) for x in range(3))

    def other_function(x: int, shift: int) -> int:
        return x + 1000 * shift

    with Client(combo.get_address()) as one, Client(combo.get_address()) as other, ThreadPoolExecutor(1) as thread:
        one.map(shifted, [(x, 0) for x in range(3)], job="in between")
        changing = thread.submit(other.map, other_function, slowly(), job="in between", on_change="keep")
        has_begun.wait(60)
        job = one.start(other_function, [(x, 0) for x in range(3)], name="in between", on_change="restart")
        may_go_on.set()
        with suppress(JobConflictError):
            assert changing.result(60) == [0, 1001, 1002]
        with suppress(JobConflictError):
            assert list(job.results()) == [0, 1, 2]


PROGRAM = """
import sys, time
from scaler import Client

def rows():
    for x in range(5000):
        if x == 4500:
            print("submits", flush=True)
            sys.stdin.read()
        yield (x,)

with Client(sys.argv[1]) as client:
    client.start(abs, rows(), name="cut short", keep_for=1)
"""


def test_readers_of_a_job_whose_program_died_while_it_submitted_rows_are_told(
    combo: SchedulerClusterCombo, client: Client
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, combo.get_address()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.readline()
    job = client.job("cut short")
    with pytest.raises(JobError, match=r"cannot be replaced now: .* works on it at the moment"):
        job.retry(double)
    with ThreadPoolExecutor(2) as threads:
        waiter, reader = threads.submit(job.wait), threads.submit(list, job.results())
        program.kill()
        program.communicate()
        for each in (waiter, reader):
            with pytest.raises(JobError, match="its program ended before it had submitted all rows"):
                each.result(120)
    assert "its program ended before it had submitted all rows" in job.progress().reason
    with pytest.raises(JobError, match="cannot be replaced now: its program ended before it had submitted"):
        job.retry(double)
    assert client.start(abs, ((x,) for x in range(5000)), name="cut short").wait(120).done == 5000


def test_handles_of_a_forgotten_job_never_reach_another_one_of_its_name(client: Client, folder: Path) -> None:
    old = client.start(inverse, numbers(folder, 1), name="twice")
    old.wait(60)
    old.forget()
    new = client.start(inverse, numbers(folder, 2), name="twice")
    new.wait(60)
    old.forget()  # it is gone already
    for call in (old.progress, old.cancel, old.retry, old.failures):
        with pytest.raises(JobError, match="was forgotten"):
            call()
    assert list(new.results()) == [0.5]


def test_a_job_of_another_owner_in_the_folder_of_local_clusters_is_named_and_can_be_taken_over(
    tmp_path: Path, folder: Path
) -> None:
    jobs = tmp_path / "jobs"
    with Client(n_workers=1, keep=jobs) as client:
        assert client.map(inverse, numbers(folder, 1), job="mine") == [1.0]
        [mine] = jobs.glob("*/mine")
    mine.parent.rename(jobs / "alice")
    me = mine.parent.name
    with Client(n_workers=1, keep=jobs) as client:
        with pytest.raises(JobError, match=rf"belongs to alice, and you are {me}: .*give alice/mine {me}"):
            client.map(inverse, numbers(folder, 1), job="mine")
        assert called(main, "--file", str(jobs), "give", "alice/mine", me)[0] == 0
        assert client.map(inverse, numbers(folder, 1), job="mine") == [1.0]
    assert runs_of(folder, 1) == 1


def test_waiting_for_a_cancelled_job_raises_an_error(client: Client, tmp_path: Path) -> None:
    job = client.start(waits, [(str(tmp_path / "gate"), x) for x in range(100)], name="stopped")
    with ThreadPoolExecutor(2) as threads:
        waiter, reader = threads.submit(job.wait), threads.submit(list, job.results())
        job.cancel()
        assert waiter.result(60).state == "canceled"
        with pytest.raises(CancelledError):
            reader.result(60)
    (tmp_path / "gate").touch()


KINDS = """
import collections, dataclasses, datetime, decimal, enum, fractions, functools, os, pathlib, sys, uuid
import numpy as np
from scaler import Client, JobConflictError

which, address = sys.argv[1:]
is_other = which == "b"
client = Client(address)

class Side(enum.Enum):
    BUY = 1
    SELL = 2

@dataclasses.dataclass
class Deal:
    price: float
    tags: set

class Model:
    def __init__(self, weight):
        self.weight = weight

    def predict(self, x):
        return self.weight * x

    @staticmethod
    def shift(x):
        return x + 1

Point = collections.namedtuple("Point", "x y")
RATE = decimal.Decimal("2.5") if is_other else decimal.Decimal("1.5")
CURVE = np.array([1.0, 2.0 + is_other])

def uses_rate(x):
    return RATE * x

def uses_curve(x):
    return float(CURVE.sum()) + x

def uses_closure(weight):
    model = Model(weight)
    return lambda x: model.weight * x

def uses_default(x, model=Model(1 + is_other)):
    return model.predict(x)

def uses_static(x):
    return Model.shift(x)

if is_other:
    Model.shift = staticmethod(lambda x: x + 100)

def show(value):
    return repr(value)

def show_sorted(value):
    return sorted(value)

order = (lambda array: np.asfortranarray(array)) if os.environ["PYTHONHASHSEED"] == "2" else (lambda array: array)
table = np.arange(12.0).reshape(3, 4)
pairs = {
    "date": (datetime.date(2026, 11, 27), datetime.date(2026, 11, 28)),
    "datetime": (datetime.datetime(2026, 1, 1, 1), datetime.datetime(2026, 1, 1, 2)),
    "timedelta": (datetime.timedelta(1), datetime.timedelta(2)),
    "decimal": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "fraction": (fractions.Fraction(1, 3), fractions.Fraction(2, 3)),
    "path": (pathlib.Path("a"), pathlib.Path("b")),
    "float64": (np.float64(1), np.float64(2)),
    "int64": (np.int64(1), np.int64(2)),
    "array": (order(table), order(table + [0, 0, 0, 1])),
    "dtype": (np.ones(2, "f4"), np.ones(2, "f8")),
    "uuid": (uuid.UUID(int=1), uuid.UUID(int=2)),
    "enum": (Side.BUY, Side.SELL),
    "dataclass": (Deal(1.0, {"a", "b", "c"}), Deal(1.0, {"a", "b", "d"})),
    "object": (Model(1), Model(2)),
    "named tuple": (Point(1, 2), Point(1, 3)),
    "range": (range(3), range(4)),
    "slice": (slice(1, 2), slice(1, 3)),
    "bytearray": (bytearray(b"a"), bytearray(b"b")),
    "nested": ({"d": [datetime.date(2026, 1, 1)]}, {"d": [datetime.date(2026, 1, 2)]}),
    "beside": (1, 2),
    "function": (functools.partial(pow, 2), functools.partial(pow, 3)),
}
calls = {
    f"row {name}": (show, [(number, "plain") for number in range(3)] + [(pair[is_other], datetime.date(2026, 1, 1))])
    for name, pair in pairs.items()
}
calls = {name: (lambda value, _other: repr(type(value)), rows) for name, (_, rows) in calls.items()}
calls["row set"] = (show_sorted, [({"alpha", "beta", "gamma"} if not is_other else {"alpha", "beta", "delta"},)])
calls["row reference"] = (show_sorted, [(client.send_object([1, 2 + is_other]),)])
model = Model(1 + is_other)
for name, function in {"global": uses_rate, "array": uses_curve, "closure": uses_closure(1 + is_other),
                       "default": uses_default, "static": uses_static, "method": model.predict,
                       "partial": functools.partial(lambda model, x: model.predict(x), model)}.items():
    calls[f"function {name}"] = (function, [(1,), (2,)])

for name, (function, rows) in calls.items():
    try:
        print(name, "->", client.map(function, rows, job=name))
    except JobConflictError:
        print(name, "-> conflict")
"""


def test_results_of_other_rows_are_never_those_of_a_job_of_the_same_name(
    combo: SchedulerClusterCombo, tmp_path: Path
) -> None:
    def printed(which: str, seed: int, comment: str) -> list[str]:
        folder = tmp_path / f"{which}{seed}"
        folder.mkdir()
        (folder / "program.py").write_text(comment + KINDS)
        done = subprocess.run(
            [sys.executable, "program.py", which, combo.get_address()], cwd=folder, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)}, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    first = printed("a", 1, "")
    assert len(first) > 25
    assert [line for line in first if line.endswith("conflict")] == []
    assert printed("a", 2, "# Comments and lines make no difference.\n\n\n") == first
    assert [line for line in printed("b", 3, "") if not line.endswith("-> conflict")] == []
