"""Jobs: real schedulers, clusters, clients and disks."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from scaler import AsyncClient, AsyncJob, Client, SchedulerClusterCombo
from scaler.actors.jobs import job, job_keeper
from scaler.cli.jobs import main
from scaler.client.foreign_words import OF_ASYNC_JOBS, OF_JOBS
from scaler.client.link.requests import JobQuestion
from scaler.config import ConfigError
from scaler.errors import JobConflictError, JobError, TaskNotFoundError, TooManyFailuresError
from scaler.jobs.folder import read_jobs
from scaler.jobs.terms import JobSummary
from scaler.wire.messages.client import JobVerb
from tests.support import terminals
from tests.support.faces import FACES, AnyClient, ClosedItems, Face, Use, link_of, user, with_client
from tests.support.processes import called, command, free_address, wait_until
from tests.support.terminal import CTRL_C, terminal
from tests.unit.client.test_foreign_words import check as check_foreign_words


def double(x: int) -> int:
    return 2 * x


def waits(gate: str, x: int) -> int:
    wait_until(Path(gate).exists, "the gate is open")
    return x


def begins_and_waits(file: str, gate: str, x: int) -> int:
    begun(file, x, 0.0)
    return waits(gate, x)


def fails_at_sevens(x: int) -> int:
    if x % 7 == 3:
        raise ValueError(f"bad {x}")
    return x


def large(x: int) -> bytes:
    return bytes([x]) * 300_000


def noted(file: str, x: int, seconds: float) -> int:
    time.sleep(seconds)
    with Path(file).open("a") as ran:
        ran.write(f"{x}\n")
    return x


def begun(file: str, x: int, seconds: float) -> int:
    with Path(file).open("a") as ran:
        ran.write(f"{x}\n")
    time.sleep(seconds)
    return x


def fails_without(file: str, x: int) -> int:
    if not Path(file).exists():
        raise FileNotFoundError(file)
    return x


def waits_in_row_2(x: int, file: str) -> int:
    while x == 2 and not Path(file).exists():
        time.sleep(0.05)
    return x


def stumbles(folder: str, x: int) -> int:
    tried = Path(folder) / str(x)
    if x % 40 == 7 and not tried.exists():
        tried.touch()
        raise ValueError(x)
    return x


def hangs_at_400(x: int) -> int:
    if x == 400:
        threading.Event().wait()
    return x


def picks(x: int, values: bytes | list[int], may_go_on: str) -> tuple[int, int]:
    wait_until(Path(may_go_on).exists, "it may go on")
    return x, len(values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "jobs"


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with Client(n_workers=2, keep=folder) as client:
        yield client


@pytest.fixture(params=FACES)
def use(request: pytest.FixtureRequest, client: Client) -> Use:
    """Run a test in a loop of its own, with a client of either kind."""
    return user(FACES[request.param], client._core.link.address)


def rows(count: int) -> list[tuple[int]]:
    return [(x,) for x in range(count)]


def breaks(may_break: Callable[[], bool]) -> Iterator[tuple[int]]:
    yield from rows(5000)
    wait_until(may_break, "rows have ended")
    raise KeyError


def counts(file: Path) -> Counter[int]:
    return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


def test_a_map_with_a_name_runs_each_row_once_however_often_it_is_called(client: Client, tmp_path: Path) -> None:
    ran, items = tmp_path / "ran", [(str(tmp_path / "ran"), x, 0.0) for x in range(200)]
    assert client.map(noted, items, job="once") == list(range(200))
    assert client.map(noted, items, job="once", progress=True) == list(range(200))
    assert sorted(client.map_unordered(noted, items, job="once")) == list(range(200))
    assert counts(ran) == Counter(range(200))


def test_an_abandoned_map_stops_no_other_map_of_the_same_client(client: Client, tmp_path: Path) -> None:
    items = [(str(tmp_path / "ran"), x, 0.1) for x in range(20)]
    stream, left = (client.map_unordered(noted, items, job="two at a time", timeout=15) for _ in range(2))
    found = [next(stream)]
    next(left)
    left.close()
    assert sorted([*found, *stream]) == list(range(20))


def test_a_map_that_timed_out_starts_no_further_rows(client: Client, tmp_path: Path) -> None:
    ran, gate = tmp_path / "ran", tmp_path / "gate"
    items = [(str(ran), str(gate), x) for x in range(20)]
    for seconds in (0.3, 3, 30):  # a busy machine may start no row in the first time-out
        with pytest.raises(TimeoutError):
            client.map(begins_and_waits, items, job="too late", timeout=seconds)
        if ran.exists():
            break
    gate.touch()
    job = client.job("too late")
    wait_until(lambda: job.progress().done == len(ran.read_text().split()), "what ran has ended")
    n_ran = job.progress().done
    assert client.map(double, rows(50)) == [2 * x for x in range(50)]  # rows of the job would run meanwhile
    assert (len(ran.read_text().split()), job.progress().done) == (n_ran, n_ran)
    assert 0 < n_ran < len(items)
    assert job._info()["readers"] == 0
    job.forget()


def test_a_job_name_identifies_one_function_and_its_rows(client: Client) -> None:
    client.map(double, rows(10), job="one work")
    with pytest.raises(JobConflictError, match=r"row 0 was called with \(0\), and is called with \(1\)"):
        client.map(double, [(x + 1,) for x in range(10)], job="one work")
    with pytest.raises(JobConflictError, match="it has more rows now, and had 10"):
        client.map(double, rows(11), job="one work")
    with pytest.raises(JobConflictError, match=r"its function was .*double', and is now .*fails_at_sevens"):
        client.map(fails_at_sevens, rows(10), job="one work")
    with pytest.raises(JobConflictError, match="it was made by map"):
        client.start(double, rows(10), name="one work")
    assert client.map(double, iter(rows(3)), job="one work", on_change="restart") == [0, 2, 4]
    assert client.map(double, rows(3), job="one work") == [0, 2, 4]


def test_a_map_stops_at_its_first_failure_and_resumes_when_called_again(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "there"
    items = [(str(file), x) for x in range(3000)]
    with pytest.raises(FileNotFoundError):
        client.map(fails_without, items, job="needs a file")
    assert client.job("needs a file").progress().done == 0
    file.touch()
    assert client.map(fails_without, items, job="needs a file") == list(range(3000))


def fails_at_1(gate: str, x: int) -> int:
    if x == 1:
        raise ValueError("bad 1")
    return waits(gate, x)


def test_a_failure_that_stops_a_map_has_its_remote_traceback(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad 1") as caught:
        client.map(fails_at_1, [(str(tmp_path / "never"), x) for x in range(2)], job="first row never ends")
    assert "in fails_at_1" in str(caught.value.__cause__)


def test_failures_are_listed_and_tolerated_and_run_again(client: Client) -> None:
    results = client.map(fails_at_sevens, rows(70), job="sevens", return_exceptions=True)
    assert [str(each) for each in results if isinstance(each, ValueError)] == [f"bad {x}" for x in range(3, 70, 7)]
    job = client.start(fails_at_sevens, rows(70), name="sevens too")
    done = job.wait(60)
    assert (done.state, done.rows, done.done, done.failed, done.is_complete) == ("done", 70, 60, 10, True)
    assert [(each.row, str(each.error), each.arguments) for each in job.failures()][:2] == [
        (3, "bad 3", "3"),
        (10, "bad 10", "10"),
    ]
    job.retry()
    assert job.wait(60).failed == 10
    with pytest.raises(ValueError, match="bad 3"):
        list(job.results())
    assert list(job.results(start=68)) == [68, 69]
    assert sorted(row for row, _ in job.as_completed(return_exceptions=True)) == list(range(70))


def test_too_many_failures_stop_a_map_and_a_job(client: Client) -> None:
    with pytest.raises(TooManyFailuresError, match=r"max_failures is 5; the first: ValueError: bad \d+"):
        client.options(max_failures=5).map(fails_at_sevens, rows(20_000), job="five")
    with pytest.raises(TooManyFailuresError, match=r"max_failures is 0; the first: ValueError: bad \d+"):
        client.options(max_failures=0).map(fails_at_sevens, rows(20), job="none")
    tolerated = client.options(max_failures=0.5).map(fails_at_sevens, rows(300), job="half")
    assert [str(each) for each in tolerated if isinstance(each, ValueError)] == [f"bad {x}" for x in range(3, 300, 7)]
    assert list(map(str, client.job("half").results())) == list(map(str, tolerated))
    job = client.options(max_failures=0.01).start(fails_at_sevens, rows(20_000), name="a hundredth")
    assert job.wait(60).state == "stopped"
    assert job.progress().done < 19_000
    few = client.options(max_failures=0.1).start(fails_at_sevens, rows(11), job="a tenth of few").wait(60)
    assert (few.state, few.done, few.failed) == ("stopped", 9, 2)
    assert few.reason == "2 of 11 ended rows failed; max_failures is 0.1"


EXPECTED = [x if x % 7 != 3 else f"bad {x}" for x in range(70)]
FIRST = r"; the first: ValueError: bad \d+ in fails_at_sevens \(item \d+\)$"


def shown(results: Iterable[int | BaseException]) -> list[int | str]:
    return [str(each) if isinstance(each, ValueError) else each for each in results]


@pytest.mark.parametrize("return_exceptions", [False, True])
@pytest.mark.parametrize("most", [10, 0.2])
@with_client
async def test_a_map_without_a_name_tolerates_failures_too(
    client: AnyClient, most: float, return_exceptions: bool
) -> None:
    tolerant = client.options(max_failures=most)
    call = {"return_exceptions": return_exceptions}
    assert shown(await tolerant.map(fails_at_sevens, rows(70), **call)) == EXPECTED
    came = [each async for each in tolerant.map_unordered(fails_at_sevens, rows(70), **call)]
    assert sorted(shown(came), key=str) == sorted(EXPECTED, key=str)
    for strict in (client.options(max_failures=9), client.options(max_failures=0.1)):
        with pytest.raises(
            TooManyFailuresError, match="10 of .* ended tasks failed; max_failures is .*" + FIRST
        ) as error:
            await strict.map(fails_at_sevens, rows(70), **call)
        assert isinstance(error.value.__cause__, ValueError)
        with pytest.raises(TooManyFailuresError, match=FIRST):
            _ = [each async for each in strict.map_unordered(fails_at_sevens, rows(70), **call)]
    with pytest.raises(TooManyFailuresError, match=r"^10 of "):
        await client.options(max_failures=9).map(fails_at_sevens, rows(20_000), **call)


@with_client
async def test_calls_of_one_task_refuse_a_number_of_failures(client: AnyClient) -> None:
    tolerant = client.options(max_failures=3)
    calls: list[Callable[[], Any]] = [
        lambda: tolerant.submit(abs, -1),
        lambda: tolerant.get({"a": (abs, 1)}, ["a"]),
        lambda: tolerant.call("area", 2),
        lambda: tolerant.run_on_all(abs, 1),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="max_failures is an option of map, map_unordered and start"):
            await call()


def test_an_executor_refuses_a_number_of_failures(client: Client) -> None:
    with pytest.raises(ConfigError, match="max_failures is an option of map, map_unordered and start"):
        client.options(max_failures=3).as_executor()


WRONG_NAMES = [23, 2.5, b"a", date(2026, 11, 28), Path("a"), [], "", "a\0b", "\udce9", "x" * 1_000_000]


@with_client
async def test_a_name_that_is_none_costs_its_own_call_only(client: AnyClient, tmp_path: Path) -> None:
    innocent = client.options(at_most_once=True).submit(picks, 1, b"", str(tmp_path / "go"))
    for wrong in WRONG_NAMES:
        calls: list[Callable[[Any], Any]] = [
            client.job,
            lambda name: client.map(double, rows(1), job=name),
            lambda name: anext(client.map_unordered(double, rows(1), job=name)),
            lambda name: client.start(double, rows(1), job=name),
            lambda name: client.start(double, rows(1), name),
        ]
        for call in calls:
            with pytest.raises((TypeError, ConfigError), match="name of a job"):
                await call(wrong)
    assert await client.map(double, rows(3), job="after wrong names") == [0, 2, 4]
    (tmp_path / "go").touch()
    assert await innocent == (1, 0)


def unwritable(name: object) -> JobQuestion:
    """Return a question that no check has seen."""
    question = JobQuestion(JobVerb.SHOW, "fine")
    question._request = (JobVerb.SHOW, name, 0, 0, b"", b"", ())  # type: ignore[assignment]
    return question


@with_client
async def test_an_unexpected_failure_of_a_call_affects_no_other_call(client: AnyClient, tmp_path: Path) -> None:
    link = link_of(client)
    assert await client.submit(abs, -1) == 1  # it is connected
    socket = link._connection._socket
    innocent = client.options(at_most_once=True).submit(picks, 1, b"", str(tmp_path / "go"))
    questions = [unwritable(23) for _ in range(3)]
    futures = []
    for question in questions:
        link.ask_job(question)
        futures.append(client.options(at_most_once=True).submit(abs, -1))
    for question in questions:
        with pytest.raises(TypeError, match="cannot be sent to the scheduler"):
            await asyncio.wrap_future(question)
    assert [await future for future in futures] == [1, 1, 1]
    (tmp_path / "go").touch()
    assert await innocent == (1, 0)
    assert link._connection._socket is socket


def test_rows_of_a_job_may_come_from_an_asynchronous_iterable_which_is_closed_if_the_job_is_not_opened(
    tmp_path: Path,
) -> None:
    ends: list[str] = []

    async def some(count: int, name: str) -> AsyncIterator[tuple[int]]:
        try:
            for x in range(count):
                yield (x,)
            await asyncio.Event().wait()
        finally:
            ends.append(name)

    async def all_of(count: int) -> AsyncIterator[tuple[int]]:
        for x in range(count):
            await asyncio.sleep(0)
            yield (x,)

    def in_this_thread(name: str) -> Iterator[tuple[int]]:
        try:
            for x in range(1000):
                assert threading.current_thread() is threading.main_thread()
                yield (x,)
                if x == 5:
                    going.set()
        finally:
            ends.append(name)

    async def main() -> None:
        async with AsyncClient(n_workers=1, keep=tmp_path / "jobs") as client:
            assert await client.map(double, all_of(30), job="all") == [2 * x for x in range(30)]
            with pytest.raises(TimeoutError, match="rows were not all read within the timeout"):
                await client.map(double, some(3, "late"), job="late", timeout=0.3)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.start(double, some(3, "canceled"), job="canceled"), 0.3)
            starting = asyncio.ensure_future(client.start(double, in_this_thread("a generator"), job="cut"))
            await going.wait()
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert ends == ["late", "canceled", "a generator"]
            while [job.name for job in await client.jobs()] != ["all"]:
                continue  # the others are forgotten soon

    going = asyncio.Event()
    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_canceled_read_of_asyncio_ends_at_once_and_a_canceled_map_leaves_its_job(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def read(job: AsyncJob) -> None:
        async for value in job:
            seen.append(value)
            is_read.set()

    async def main() -> None:
        async with AsyncClient(n_workers=1, keep=tmp_path / "jobs") as client:
            detached = await client.start(waits, [(os.devnull, 1), (str(gate), 2)], job="detached")
            reading = asyncio.ensure_future(read(detached))
            await is_read.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            mapping = asyncio.ensure_future(client.map(waits, [(str(gate), x) for x in range(3)], job="map"))
            while "map" not in [job.name for job in await client.jobs()]:
                continue  # it is being opened
            mapping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await mapping
            while (await client.job("map"))._job.heard["readers"]:
                continue  # the client is leaving the job
            gate.touch()
            assert [value async for value in detached] == [1, 2]
            assert await client.map(waits, [(str(gate), x) for x in range(3)], job="map") == [0, 1, 2]

    seen: list[int] = []
    is_read = asyncio.Event()
    asyncio.run(asyncio.wait_for(main(), 60))
    assert seen == [1]


def test_start_and_map_take_the_name_of_the_job_in_the_same_way(client: Client) -> None:
    job = client.start(double, rows(3), job="one way")
    assert list(client.start(double, rows(3), "one way").results()) == list(job.results()) == [0, 2, 4]
    for both_or_none in ({"job": "a", "name": "b"}, {}):
        with pytest.raises(TypeError, match=r"job=.*name="):
            client.start(double, rows(3), **both_or_none)
    with pytest.raises(TypeError, match="on_change='keep' has no effect on a map without job=: name a job with job="):
        client.map(double, rows(3), on_change="keep")
    with pytest.raises(TypeError, match="on_change='restart' has no effect on a map without job="):
        client.map_unordered(double, rows(3), on_change="restart")
    for call in (client.map, client.map_unordered, client.start, client.submit):
        with pytest.raises(TypeError, match="write job="):
            call(double, rows(3), jobs="a name")
    with pytest.raises(TypeError, match="write job="):
        client.options(job="a name")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="write keep="):
        Client(keep_folder="here")


def test_the_time_of_a_map_counts_while_its_rows_are_read(client: Client) -> None:
    def slowly() -> Iterator[tuple[int]]:
        for row in rows(3):
            yield row
            time.sleep(0.2)

    with pytest.raises(TimeoutError):
        client.map(double, slowly(), job="read slowly", timeout=0.3)
    assert client.map(double, rows(3), job="read slowly", timeout=30) == [0, 2, 4]


def test_rows_that_travel_together_are_tried_again_and_have_time_limits(client: Client, tmp_path: Path) -> None:
    items = [(str(tmp_path), x) for x in range(600)]
    assert client.options(retries=1).map(stumbles, items, job="tried again") == list(range(600))
    assert len(list(tmp_path.iterdir())) == 600 // 40
    limited = client.options(timeout=4.0, max_failures=1).map(
        hangs_at_400, rows(600), job="limited", return_exceptions=True
    )
    assert isinstance(limited[400], TimeoutError)
    assert [x for x in range(600) if limited[x] != x] == [400]


def test_large_results_are_kept(client: Client) -> None:
    expected = [large(x) for x in range(20)]
    assert client.map(large, rows(20), job="large") == expected
    assert list(client.job("large").results()) == expected
    assert client.job("large").progress().size_bytes > 6_000_000


def test_work_that_cannot_be_kept_is_refused_with_the_reason(client: Client) -> None:
    with pytest.raises(TypeError, match="row 1 has a future"):
        client.map(double, [(1,), (client.submit(double, 1),)], job="futures")
    read = client.submit(double, 1)
    assert read.result(60) == 2
    for row in ((read,), ([read],)):
        with pytest.raises(TypeError, match="row 0 has a future"):
            client.map(double, [row], job="futures")
    with pytest.raises(TypeError, match="row 0 contains an ObjectReference"):
        client.map(double, [([client.send_object([1])],)], job="references")
    with pytest.raises(TypeError, match="row 0 contains an ObjectReference, or is the as_is"):
        client.map(double, [(client.send_object([1]).as_is(),)], job="references")
    with pytest.raises(ConfigError, match="is not a valid name of a job"):
        client.map(double, rows(1), job="a\nb")
    with pytest.raises(JobError, match="there is no job 'nobody'"):
        client.job("nobody")
    done = client.start(double, rows(1), name="row numbers")
    for start in (-1, 2**63):
        with pytest.raises(ValueError, match="start must be a row number, 0 or greater, not"):
            done.results(start)
    with pytest.raises(TypeError, match="unexpected keyword argument 'job'"):
        client.get({"a": 1}, ["a"], job="graph")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="unexpected keyword argument 'job'"):
        client.as_executor().map(double, range(3), job="executor")
    assert client.submit(dict, job="the function's own").result() == {"job": "the function's own"}


def test_a_handle_shows_the_last_answer_and_its_properties_send_requests(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = client.start(waits, [(str(gate), x) for x in range(3)], name="shown")
    assert repr(job) == "<Job 'shown' of waits: open, 0 of 3 rows done>"
    assert (job.state, job.rows) == ("open", 3)
    gate.touch()
    wait_until(lambda: client.job("shown").state == "done", "it is done")
    assert "open, 0 of 3" in repr(job)  # a repr sends no request
    assert list(job) == [0, 1, 2] == list(job.results())
    assert repr(job) == "<Job 'shown' of waits: done, 3 of 3 rows done>"
    assert repr(job) in map(repr, client.jobs())
    failing = client.start(fails_at_sevens, rows(8), name="shown <b> & so on")
    failing.wait(60)
    assert repr(failing) == "<Job 'shown <b> & so on' of fails_at_sevens: done, 7 of 8 rows done, 1 failed>"
    assert failing._repr_html_() == (
        "<div><strong>Job</strong> <code>shown &lt;b&gt; &amp; so on</code> of <code>fails_at_sevens</code>: "
        "done, 7 of 8 rows done, 1 failed</div>"
    )
    failing.forget()
    assert repr(failing).endswith(": forgotten>")
    with pytest.raises(JobError, match="no longer exists"):
        _ = failing.state
    assert not {"leave", "read", "heard", "done"} & {*dir(job)}
    assert {"state", "rows", "results", "name", "retry"} <= {*dir(job)}
    check_foreign_words(job, OF_JOBS)


def keep_seconds(folder: Path, name: str) -> float:
    """Return how long a job is kept, as its record on disk has it."""
    [found] = [each for _, each in read_jobs(folder) if isinstance(each, JobSummary) and each.terms.name == name]
    return found.terms.keep_seconds


def test_the_last_keep_for_of_a_job_counts_and_calls_without_one_leave_it(client: Client, folder: Path) -> None:
    day, year = 86400, 365 * 86400
    kept = partial(keep_seconds, folder, "kept")
    client.map(double, rows(3), job="kept")
    assert kept() == 30 * day
    client.map(double, rows(3), job="kept", keep_for="1y")
    assert kept() == year
    client.map(double, rows(3), job="kept")
    assert kept() == year
    assert sorted(client.map_unordered(double, rows(3), job="kept", keep_for="2d")) == [0, 2, 4]
    assert kept() == 2 * day
    client.map(fails_at_sevens, rows(3), job="kept", on_change="keep")  # a new version
    assert kept() == 2 * day
    client.map(double, rows(4), job="kept", on_change="keep", keep_for=float("inf"))
    assert kept() == 2**40
    with pytest.raises(JobConflictError):
        client.map(fails_at_sevens, rows(5), job="kept", keep_for=1)
    assert kept() == 2**40
    for _ in range(2):
        client.start(double, rows(3), name="kept detached", keep_for="ever").wait(60)
        assert keep_seconds(folder, "kept detached") == 2**40
    client.start(double, rows(3), name="kept detached")
    client.job("kept detached").retry()
    assert keep_seconds(folder, "kept detached") == 2**40
    with pytest.raises(ConfigError, match=r'keep_for must be seconds, or a text such as "12h", "30d", "1y" or "ever"'):
        client.map(double, rows(3), job="kept", keep_for="for ever")
    with pytest.raises(TypeError, match="keep_for='1y' has no effect on a map without job="):
        client.map_unordered(double, rows(3), keep_for="1y")


WATCHING = """
import sys
sys.modules["tqdm.auto"] = None
from scaler import Client

with Client(sys.argv[1]) as client:
    print(client.job("watched").wait(progress=True))
"""


def test_a_wait_for_a_job_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with (
        SchedulerClusterCombo(n_workers=2, keep=str(tmp_path / "jobs")) as combo,
        Client(combo.get_address()) as client,
    ):
        items = [(str(gate if x == 9 else tmp_path), x) for x in range(10)]
        client.start(waits, items, name="watched")
        program = (sys.executable, "-c", WATCHING, combo.get_address())
        with terminal(*program, width=100) as shown, terminal(*program, width=100, height=60) as interrupted:
            for each in (shown, interrupted):
                each.wait_for("[##################..] 9/10  90%")
            interrupted.press(CTRL_C)
            assert interrupted.end()
            assert interrupted.lines[0].startswith("[#")
            assert not any("[#" in line for line in interrupted.lines[1:])  # the traceback begins on its own line
            assert interrupted.settings == interrupted.settings_before
            gate.touch()
            shown.wait_for("10/10 100%")
            assert shown.end() == 0
            assert "state='done', rows=10, done=10" in shown.text


def test_a_map_with_a_name_draws_while_it_waits(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    with terminals.Terminal() as screen, ThreadPoolExecutor(1) as thread:
        monkeypatch.setattr(sys, "stderr", screen.stream)
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        items = [(str(gate if x == 0 else tmp_path), x) for x in range(9)]
        mapped = thread.submit(client.map, waits, items, job="drawn", progress=True)
        wait_until(lambda: " 8/9 " in screen.output_so_far(), "the bar has the rows behind the one that is awaited")
        gate.touch()
        assert mapped.result(60) == list(range(9))
        assert terminals.states_of(screen.output())[-1].startswith("[####################] 9/9 100%")


def test_a_job_is_forgotten(client: Client, folder: Path) -> None:
    job = client.start(double, rows(5), name="short-lived")
    assert job.wait(60).state == "done"
    assert "short-lived" in [each.name for each in client.jobs()]
    [listed] = [each for each in client.jobs() if each.name == "short-lived"]
    assert list(listed) == [0, 2, 4, 6, 8]
    job.forget()
    assert "short-lived" not in [each.name for each in client.jobs()]
    assert not list(folder.glob("*/short-lived"))
    with pytest.raises(JobError, match="no longer exists"):
        job.progress()


def test_a_cancelled_job_can_be_resumed(client: Client, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    job = client.start(noted, [(str(ran), x, 0.01) for x in range(500)], name="cancelled")
    wait_until(lambda: job.progress().done > 10, "some rows have ended")
    job.cancel()
    stopped = job.wait(60)
    assert stopped.state == "canceled"
    with pytest.raises(CancelledError, match="the job 'cancelled' was cancelled before all of its rows had ended"):
        list(job.results())
    assert stopped.done < 500
    job.retry()
    assert job.wait(60).done == 500
    assert set(counts(ran)) == set(range(500))


def test_jobs_can_be_awaited(folder: Path) -> None:
    async def main() -> None:
        async with AsyncClient(n_workers=2, keep=folder.with_name("awaited")) as client:
            assert await client.map(double, rows(50), job="a") == [2 * x for x in range(50)]
            assert max([each async for each in client.map_unordered(double, rows(50), job="a")]) == 98
            job = await client.start(double, rows(600), name="b")
            assert (await job.wait(60)).done == 600
            assert [each async for each in job.results(start=598)] == [1196, 1198]
            assert sum([value async for _, value in job.as_completed()]) == 600 * 599
            assert (await job.state(), await job.rows()) == ("done", 600)
            assert sum([value async for value in job]) == 600 * 599
            assert repr(job) == "<AsyncJob 'b' of double: done, 600 of 600 rows done>"
            assert job._repr_html_().endswith("<code>b</code> of <code>double</code>: done, 600 of 600 rows done</div>")
            check_foreign_words(job, OF_ASYNC_JOBS)
            assert [each.name for each in await client.jobs()] == ["a", "b"]
            await (await client.job("a")).forget()
            assert await job.failures() == []
            await client.map(double, rows(3), job="kept", keep_for="1y")
            assert keep_seconds(folder.with_name("awaited"), "kept") == 365 * 86400
            with pytest.raises(TypeError, match="keep_for=1 has no effect on a map without job="):
                await client.map(double, rows(3), keep_for=1)

    asyncio.run(main())


def test_a_wait_for_a_job_can_be_cancelled_and_drawn(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(screen: terminals.Terminal) -> None:
        async with AsyncClient(n_workers=1, keep=folder.with_name("cancelled waits")) as client:
            gate = tmp_path / "gate"
            job = await client.start(waits, [(str(gate), 1)], name="late")
            n_threads = threading.active_count()
            for progress in (False, True) * 8:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(job.wait(progress=progress), 0.2)
                with pytest.raises(TimeoutError, match="its next row, did not end within the timeout"):
                    await job.wait(0, progress)
            assert threading.active_count() == n_threads
            assert len(link_of(client)._work.jobs.open) <= 2  # one wait, and at most one request of a bar
            gate.touch()
            assert (await job.wait(60, progress=True)).done == 1
            assert "1/1 100%" in terminals.states_of(screen.output())[-1]

    with terminals.Terminal() as screen:
        monkeypatch.setattr(sys, "stderr", screen.stream)
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        asyncio.run(main(screen))


def test_a_cluster_of_threads_keeps_jobs(tmp_path: Path) -> None:
    with Client(processes=False, keep=tmp_path / "jobs") as client:
        assert client.map(double, rows(10), job="threads") == [2 * x for x in range(10)]


def test_expired_jobs_are_removed_and_those_in_use_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the looks of a minute in some tenths of a second."""
    monkeypatch.setattr(job_keeper, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(job, "REST_SECONDS", 0.5)
    may_go_on = tmp_path / "may go on"
    with Client(processes=False, n_workers=2, keep=tmp_path / "jobs") as client:
        running = client.start(picks, [(0, b"value", str(may_go_on))], name="running", keep_for=0)
        asked = client.start(double, rows(3), name="asked", keep_for=2)
        expiring = client.start(double, rows(3), name="expiring", keep_for=2)
        client.start(double, rows(3), name="kept", keep_for="1h").wait(60)
        assert list(expiring.results()) == [0, 2, 4]

        def names() -> set[str]:
            assert asked.progress().done == 3
            return {each.name for each in client.jobs()}

        wait_until(lambda: names() == {"running", "asked", "kept"}, "the job has expired")
        wait_until(lambda: not list((tmp_path / "jobs").glob("*/expiring")), "its folder is gone")
        with pytest.raises(JobError, match="the job 'expiring' no longer exists: it was forgotten, or has expired"):
            list(expiring.results())
        assert running.progress().state == "open"
        may_go_on.touch()
        assert list(running.results()) == [(0, 5)]
        wait_until(lambda: [each.name for each in client.jobs()] == ["kept"], "so have the others")


OTHER_PROGRAM = """
import sys, time
from pathlib import Path
from scaler import Client

def gated(x, folder):
    while x >= 10 and not Path(folder, str(x)).exists():
        time.sleep(0.01)
    with Path(folder, "ran").open("a") as ran:
        ran.write(f"{x}\\n")
    if x == 3:
        raise ValueError("three")
    return x

if __name__ == "__main__":
    with Client(n_workers=2, keep=sys.argv[1]) as client:
        job = client.start(gated, [(x, sys.argv[2]) for x in range(30)], job="of another")
        print("started", flush=True)
        sys.stdin.read()
"""


def refusal(act: Callable[[], object]) -> str:
    before = time.monotonic()
    with pytest.raises(JobError) as refused:
        act()
    assert time.monotonic() - before < 2.5
    return str(refused.value)


@pytest.mark.faults
def test_a_job_of_another_program_is_read_while_it_runs_and_taken_over_when_that_program_is_killed(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    script = tmp_path / "nightly.py"
    script.write_text(OTHER_PROGRAM)
    arguments = [sys.executable, str(script), str(folder), str(tmp_path)]
    other = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        job = client.job("of another")
        wait_until(lambda: job.progress().done == 9, "rows without a gate have ended")
        assert [(each.row, str(each.error)) for each in job.failures()] == [(3, "three")]
        used = (
            f"the job 'of another' is in use: nightly.py {other.pid} has it open. Its progress and results can be read"
        )
        starts = [job.cancel, job.retry, job.forget, lambda: client.map(double, rows(3), job="of another")]
        assert all(refusal(each).startswith(used) for each in starts)
        assert [each.progress().state for each in client.jobs() if each.name == "of another"] == ["open"]
        code, output = called(main, "--file", str(folder), "list")
        assert code == 0
        assert re.search(r"of another .* open +30 +9 +1 ", output)
        with pytest.raises(TimeoutError):
            job.wait(0.1)
        results = job.results(return_exceptions=True)
        assert len(list(islice(results, 10))) == 10
        completed = job.as_completed(return_exceptions=True)
        assert {row for row, _ in islice(completed, 10)} == set(range(10))
        with ThreadPoolExecutor() as threads:
            following = threads.submit(next, results)
            (tmp_path / "10").touch()
            assert following.result(60) == 10
            assert next(completed)[0] == 10
            following = threads.submit(list, results)
            completing = threads.submit(list, completed)
            other.kill()
            other.wait()
            for row in range(11, 30):
                (tmp_path / str(row)).touch()
            assert following.result(60) == list(range(11, 30))
            assert sorted(row for row, _ in completing.result(60)) == list(range(11, 30))
        ran = counts(tmp_path / "ran")
        assert {row: ran[row] for row in range(11)} == dict.fromkeys(range(11), 1), "what was acknowledged"
        (tmp_path / "ran").unlink()
        job.retry()
        assert job.wait(60).failed == 1
        assert counts(tmp_path / "ran") == {3: 1}
        job.forget()
    finally:
        other.kill()
        other.communicate()


def test_a_scheduler_without_a_job_folder_refuses_jobs_with_the_reason() -> None:
    address = free_address()
    with command("scheduler", address) as scheduler, Client(address) as client:
        scheduler.wait_for("address")
        with pytest.raises(JobError, match="this scheduler keeps no jobs: start it with --keep FOLDER"):
            client.jobs()


def test_a_folder_of_a_scheduler_is_refused_to_a_second_one_and_read_by_local_clusters(tmp_path: Path) -> None:
    address, jobs = free_address(), str(tmp_path / "jobs")
    with command("scheduler", address, "--keep", jobs, "--insecure-let-everybody-run-code") as first:
        first.wait_for("jobs are kept in")
        used = (
            f"another scheduler keeps its jobs in {jobs}: the scheduler at {address}, process {first.pid}. Connect to"
        )
        with command("scheduler", free_address(), "--keep", jobs) as second:
            second.wait_for(used)
            assert second.end() != 0
        with command("cluster", address, "-n", "1"), Client(address) as client:
            assert client.map(double, rows(3), job="done") == [0, 2, 4]
        with Client(processes=False, keep=jobs) as client:
            assert list(client.job("done").results()) == [0, 2, 4]
            assert [each.name for each in client.jobs()] == ["done"]
            acts = (client.job("done").forget, lambda: client.map(double, rows(3), job="new"))
            assert all(refusal(each).startswith(used) for each in acts)


def run(*arguments: str) -> tuple[int, str]:
    """Call `scaler_jobs`; return its exit code and what it prints."""
    return called(main, *arguments)


def test_the_command_shows_waits_retries_cancels_and_forgets(tmp_path: Path) -> None:
    with SchedulerClusterCombo(2, keep=str(tmp_path / "jobs"), logging_level="ERROR") as combo:
        address = combo.get_address()
        with Client(address) as client:
            client.start(fails_at_sevens, rows(50), name="sevens")
            with pytest.raises(KeyError):
                client.start(double, breaks(lambda: client.job("broken").progress().done > 0), name="broken")
        assert "not all rows were submitted: run its program again" in run(address, "show", "broken")[1]
        assert run(address, "forget", "broken") == (0, "")
        assert run(address, "wait", "sevens") == (1, "sevens: done, 43 of 50 rows done, 7 failed\n")
        code, shown = run(address, "show", "sevens")
        assert code == 0
        assert "50 rows: 43 done, 7 failed, 0 open" in shown
        assert "row 3: ValueError: bad 3 in " in shown
        assert re.search(r"\nrows have run for [\d.]+ ?\w+, [\d.]+ ?\w+ each\n", shown)
        assert run(address, "results", "sevens", "--start", "48") == (0, "48\n49\n")
        listed = subprocess.run(
            [sys.executable, "-m", "scaler.cli.jobs", address, "list"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        assert [line.split()[:2] for line in listed.splitlines()][1][0] == "sevens"
        for words in (["--key-file", "none", address], [address]):  # the default; ipc needs no key
            assert _without_ages(run(*words)[1]) == _without_ages(listed)
        check_export(address, tmp_path)
        assert run(address, "retry", "sevens") == run(address, "cancel", "sevens") == (0, "")
        folder = str(tmp_path / "jobs")
        assert run("--file", folder, "list")[1].splitlines()[1].split()[0] == "sevens"
        assert run("--file", folder)[1].splitlines()[1].split()[0] == "sevens"
        assert run("--file", folder, "check") == (0, "1 jobs, no problems; nothing was changed\n")
        assert run(address, "forget", "sevens") == (0, "")
        assert run(address, "show", "sevens")[1].startswith("scaler_jobs: there is no job 'sevens'")
        assert run("list")[0] == run()[0] == 2
        assert "forget needs a scheduler: name its address" in run("--file", folder, "forget", "sevens")[1]
        assert "the number of a row is 0 or greater, not '-1'" in run(address, "results", "sevens", "--start", "-1")[1]


def _without_ages(table: str) -> list[list[str]]:
    """Return the cells of a table of jobs without the last column, which changes every second."""
    return [line.split()[:-1] for line in table.splitlines()]


def check_export(address: str, folder: Path) -> None:
    """Check the files of a job of 50 rows, of which 7 have failed, and of one with open rows."""
    lines, table = folder / "sevens.jsonl", folder / "sevens.csv"
    assert run(address, "export", "sevens", str(lines)) == (0, f"{lines}: 50 rows, 7 failed\n")
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert found[:2] == [{"row": row, "status": "done", "value": row} for row in (0, 1)]
    assert found[3] == {"row": 3, "status": "failed", "error": "ValueError: bad 3"}
    assert [each["row"] for each in found] == list(range(50))
    assert "exists: take another name, or replace it with --force" in run(address, "export", "sevens", str(lines))[1]
    assert run(address, "export", "sevens", str(lines), "--force", "--format", "csv")[0] == 0
    assert run(address, "export", "sevens", str(table))[0] == 0
    assert table.read_text() == lines.read_text()
    assert table.read_text().splitlines()[:2] == ["row,status,error,value", "0,done,,0"]
    assert run(address, "export", "sevens", "-")[1].splitlines()[3] == json.dumps(found[3])
    assert "ends neither in .jsonl nor in .csv" in run(address, "export", "sevens", "sevens.xlsx")[1]
    assert "there is no job 'nines'" in run(address, "export", "nines", str(folder / "nines.csv"))[1]
    assert sorted(each.name for each in folder.glob("*.*")) == ["sevens.csv", "sevens.jsonl"]


def test_export_writes_what_has_ended_and_ctrl_c_ends_a_loop_of_commands(tmp_path: Path) -> None:
    file = tmp_path / "go on"
    with SchedulerClusterCombo(1, keep=str(tmp_path / "jobs"), logging_level="ERROR") as combo:
        address = combo.get_address()
        with Client(address) as client:
            job = client.start(waits_in_row_2, [(row, str(file)) for row in range(4)], name="half")
            wait_until(lambda: job.progress().done >= 2, "two rows")
            text = "standard output: 2 rows, 2 open: export them when they have ended"
            code, printed = run(address, "export", "half", "-")
            assert (code, printed.splitlines()[-1]) == (1, text)
            assert [json.loads(line)["row"] for line in printed.splitlines()[:-1]] == [0, 1]
            command = f"{sys.executable} -m scaler.cli.jobs {address} wait half"
            shell = subprocess.Popen(
                ["bash", "-c", f"for each in 1 2 3; do echo $each; {command}; done"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
            with shell:
                wait_until(lambda: client.info().clients == 2, "the command waits")
                os.killpg(shell.pid, signal.SIGINT)  # as a terminal does
                assert shell.communicate(timeout=60)[0] == "1\n"
            assert shell.returncode == -signal.SIGINT
            file.touch()
            job.wait(60)


def refusal_of_another(client: Client) -> str:
    """Return why another job is refused; empty if it is taken, as for a moment when the log of a full one shrinks."""
    try:
        client.start(double, rows(1), name="another one").forget()
    except JobError as error:
        return str(error)
    return ""


def test_a_folder_without_room_refuses_new_jobs_and_pauses_running_ones(tmp_path: Path) -> None:
    options = {"keep": str(tmp_path / "jobs"), "keep_bytes": 4_000_000, "logging_level": "CRITICAL"}
    with SchedulerClusterCombo(2, **options) as combo, Client(combo.get_address()) as client:
        job = client.start(large, rows(200), name="too large")
        paused = wait_until(lambda: (now := job.progress()).reason and now, "it pauses")
        assert "and may take 4,000,000: forget some, or start the scheduler with more --keep-bytes" in paused.reason
        assert 0 < paused.done < 200
        wait_until(lambda: "may take 4,000,000" in refusal_of_another(client), "another job is refused")
        done = list(islice(job.as_completed(), paused.done))  # any of them: those that end now find no room
        assert all(value == large(row) for row, value in done)
        job.forget()
        assert client.map(double, rows(5), job="another one") == [0, 2, 4, 6, 8]


PROGRAM = """
import sys
from tests.integration.test_jobs import begun, noted
from scaler import Client

address, file, seconds, count, how = sys.argv[1:]
items = [(file, x, float(seconds)) for x in range(int(count))]
with Client(address) as client:
    if how == "map":
        print(client.map(noted, items, job="prices") == list(range(int(count))), flush=True)
    elif how == "once":
        client.options(at_most_once=True).start(begun, items, name="prices")
        print("started", flush=True)
    else:
        client.start(noted, items, name="prices")
        print("started", flush=True)
"""


class Cluster:
    """A scheduler with a folder, a cluster, and programs, each of which may be killed."""

    client_timeout_seconds = 60.0

    def __init__(self, place: Path) -> None:
        self.address, self.place, self.ran = free_address(), place, place / "ran"
        self.start_scheduler()
        self.start_cluster()

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    def start_scheduler(self) -> None:
        with (self.place / "scheduler.log").open("a") as log:
            self._scheduler = subprocess.Popen(
                [sys.executable, "-m", "scaler.cli.scheduler", self.address, "--keep", str(self.place / "jobs"),
                 "--client-timeout-seconds", str(self.client_timeout_seconds)],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def start_cluster(self) -> None:
        with (self.place / "cluster.log").open("a") as log:
            self._cluster = subprocess.Popen(
                [sys.executable, "-m", "scaler.cli.cluster", self.address, "-n", "2"],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def program(self, seconds: float, count: int, how: str) -> subprocess.Popen[str]:
        return self._start("-c", PROGRAM, self.address, str(self.ran), str(seconds), str(count), how)

    def kill(self, process: subprocess.Popen) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def kill_scheduler(self) -> None:
        self.kill(self._scheduler)
        self.start_scheduler()

    def kill_cluster(self) -> None:
        self.kill(self._cluster)
        self.start_cluster()

    def _read(self, query: str) -> list[tuple]:
        """Ask the record, beside the scheduler."""
        files = list((self.place / "jobs").glob("*/prices/job.sqlite"))
        if not files:
            return []
        connection = sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def n_acknowledged(self) -> int:
        """Return of how many rows the results are on disk."""
        return sum(each[0] or 0 for each in self._read("SELECT sum(count) FROM results"))

    def acknowledged(self) -> set[int]:
        """Return the rows whose results are on disk."""
        found = self._read("SELECT row, count FROM results")
        return {row for first, count in found for row in range(first, first + count)}

    def end(self) -> None:
        for process in (self._cluster, self._scheduler):
            process.terminate()
        for process in (self._cluster, self._scheduler):
            process.wait(30)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


def run_for(cluster: Cluster, most: int) -> Counter[int]:
    """Return how often the rows ran that are acknowledged now, when there are so many."""
    wait_until(lambda: cluster.n_acknowledged() > most, f"{most} rows are acknowledged")
    acknowledged, ran = cluster.acknowledged(), counts(cluster.ran)
    return Counter({row: ran[row] for row in acknowledged})


@pytest.mark.faults
def test_a_killed_program_resumes_where_it_stopped(cluster: Cluster) -> None:
    program = cluster.program(0.005, 1000, "map")
    run_for(cluster, 100)
    cluster.kill(program)
    again = cluster.program(0.005, 1000, "map")
    assert again.communicate(timeout=120)[0].strip() == "True"
    assert counts(cluster.ran) == Counter(range(1000))


@pytest.mark.faults
def test_when_the_program_of_a_map_ends_running_rows_end_and_no_others_start(cluster: Cluster) -> None:
    program = cluster.program(0.02, 1000, "map")
    run_for(cluster, 20)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=60)
    with Client(cluster.address) as client:
        wait_until(lambda: not sum(worker.tasks for worker in client.workers()), "what ran has ended")
        wait_until(lambda: cluster.n_acknowledged() == counts(cluster.ran).total(), "it is on disk")
        assert client.job("prices").progress().done == cluster.n_acknowledged() < 1000
        assert client.info().waiting_tasks == 0
        assert client.submit(double, 4).result(60) == 8  # the workers have nothing else to do
        assert not sum(worker.tasks for worker in client.workers())
    assert counts(cluster.ran) == Counter(cluster.acknowledged())


@pytest.mark.faults
@pytest.mark.parametrize(
    ("n_rows", "n_deaths"),
    [
        pytest.param(20_000, 10, marks=pytest.mark.more),
        pytest.param(200_000, 100, marks=(pytest.mark.soak, pytest.mark.timeout(3600))),
    ],
)
def test_many_deaths_in_a_job(cluster: Cluster, n_rows: int, n_deaths: int) -> None:
    chance = random.Random(2)
    program = cluster.program(0.001, n_rows, "map")
    before: Counter[int] = Counter()
    run_for(cluster, 0)
    with Client(cluster.address) as client, ThreadPoolExecutor(1) as pool:
        results = pool.submit(list, client.job("prices").results())  # somebody else, who only reads
        for death in range(1, n_deaths + 1):
            most = n_rows * 3 * death // (4 * n_deaths)
            before.update({row: n for row, n in run_for(cluster, most).items() if row not in before})
            victim = chance.choice(("scheduler", "cluster", "program", "all"))
            if victim in ("program", "all"):
                cluster.kill(program)
            if victim in ("cluster", "all"):
                cluster.kill_cluster()
            if victim in ("scheduler", "all"):
                cluster.kill_scheduler()
            if victim in ("program", "all"):
                program = cluster.program(0.001, n_rows, "map")
        assert program.communicate(timeout=600)[0].strip() == "True"
        assert results.result(60) == list(range(n_rows))
    after = counts(cluster.ran)
    assert {row: after[row] for row in before} == dict(before)
    assert set(after) == set(range(n_rows))
    print(f"{n_rows:,} rows, {n_deaths} deaths: {after.total() - n_rows:,} runs more than rows")


@pytest.mark.faults
def test_objects_that_rows_refer_to_outlive_their_program_and_the_scheduler(cluster: Cluster) -> None:
    with Client(cluster.address) as client:
        large, small = client.send_object(bytes(range(256)) * 20_000), client.send_object([7, 8])
        job = client.start(
            picks, [(x, large if x % 2 else small, str(cluster.place / "go")) for x in range(40)], name="refer"
        )
        del large, small
    cluster.kill_scheduler()
    cluster.kill_cluster()
    (cluster.place / "go").touch()
    with Client(cluster.address) as client:
        job = client.job("refer")
        assert job.wait(120).done == 40
        assert list(job.results()) == [(x, 256 * 20_000) if x % 2 else (x, 2) for x in range(40)]


@pytest.mark.faults
def test_a_job_outlives_its_program_and_its_scheduler(cluster: Cluster) -> None:
    program = cluster.program(0.005, 1000, "start")
    assert program.communicate(timeout=120)[0].strip() == "started"
    before = run_for(cluster, 100)
    cluster.kill_scheduler()
    with Client(cluster.address) as client:
        assert client.job("prices").wait(120).done == 1000
        assert list(client.job("prices").results()) == list(range(1000))
    after = counts(cluster.ran)
    assert {row: after[row] for row in before} == dict(before)  # acknowledged rows never run again
    assert set(after) == set(range(1000))


@pytest.mark.more
@pytest.mark.faults
def test_rows_that_may_run_once_never_run_twice_whatever_dies(cluster: Cluster) -> None:
    cluster.client_timeout_seconds = 3.0  # so long a new scheduler waits for agents that may have them
    assert cluster.program(0.02, 300, "once").communicate(timeout=120)[0].strip() == "started"
    deaths = 3
    for death in range(1, deaths + 1):
        run_for(cluster, 40 * death)
        cluster.kill(cluster._scheduler)
        cluster.kill(cluster._cluster)
        cluster.start_scheduler()
        cluster.start_cluster()
    with Client(cluster.address) as client:
        job = client.job("prices")
        ended = job.wait(120)
        failures = {each.row: each.error for each in job.failures()}
    after = counts(cluster.ran)
    assert set(after.values()) == {1}
    assert ended.done + ended.failed == 300
    assert set(range(300)) - set(after) <= set(failures)  # what has not begun has failed, and all others have run
    assert 1 <= len(failures) <= 2 * deaths  # two workers: of each, the row that ran
    assert all(type(error) is TaskNotFoundError for error in failures.values())


@pytest.mark.faults
def test_at_most_once_rows_continue_at_their_agent_while_the_scheduler_restarts(cluster: Cluster) -> None:
    cluster.client_timeout_seconds = 5.0
    assert cluster.program(0.5, 10, "once").communicate(timeout=120)[0].strip() == "started"
    run_for(cluster, 1)
    cluster.kill_scheduler()
    with Client(cluster.address) as client:
        job = client.job("prices")
        ended = job.wait(120)
    after = counts(cluster.ran)
    assert set(after.values()) == {1}
    assert ended.done == len(after) >= 10 - 2  # the two that ran are adopted, and so are those that the agent has


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_iterators_of_items_are_closed_when_a_job_does_not_begin(face: Face, tmp_path: Path) -> None:
    def raising() -> Iterator[Any]:
        yield (1,)
        raise LookupError("no more of these")

    async def test(client: AnyClient) -> None:
        await client.map(double, [(1,), (2,)], job="known")
        calls: list[Callable[..., Any]] = [
            lambda items: client.map(double, items, job="new"),
            lambda items: client.start(double, items, "started"),
            lambda items: anext(client.map_unordered(double, items, job="unordered")),
        ]
        for call in calls:
            for rows, error in (([(1,), 3, *[(2,)] * 9], TypeError), (raising(), LookupError)):
                items = ClosedItems(rows)
                with pytest.raises(error):
                    await call(items)
                assert items.is_closed
        items = ClosedItems((n,) for n in range(1_000_000))
        with pytest.raises(JobConflictError):
            await client.map(double, items, job="known")
        assert await client.map(double, ClosedItems([(1,), (2,)]), job="known") == [2, 4]

    user(face, n_workers=1, keep=tmp_path / "jobs")(test)
