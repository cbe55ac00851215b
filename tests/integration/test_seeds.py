"""Seeds: a call with one draws the same numbers wherever it runs; without one, no two draw the same."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import gauss  # as programs import it
from typing import Any

import cloudpickle
import numpy as np
import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo, current_task
from scaler.errors import JobConflictError
from scaler.wire.messages.seeds import key_number
from tests.integration.test_pages import PROGRAMS

pytestmark = pytest.mark.processes

ROWS = 300
Numbers = tuple[float, ...]


def draw(*_arguments: object) -> Numbers:
    task = current_task()
    assert task is not None
    numbers = (
        random.random(),
        gauss(0, 1),
        float(np.random.rand()),
        float(task.rng().random()),
        float(task.rng().random()),
    )
    assert len({*numbers}) == len(numbers)
    return numbers


def expected(spawn_key: tuple[int, ...] = (), seed: int = 7) -> Numbers:
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key)
    state = sequence.generate_state(18)
    pythons = random.Random(int.from_bytes(state[12:16].astype("<u4").tobytes(), "little"))
    rng = np.random.default_rng(sequence)
    numpys = np.random.RandomState(state[8:12])
    return pythons.random(), pythons.gauss(0, 1), numpys.rand(), rng.random(), rng.random()


def draw_or_die(row: int, marks: Path) -> Numbers:
    """Draw; the first runs of some rows end with their process, before or after they have drawn."""
    mark = marks / str(row)
    if row % 60 == 7 and not mark.exists():
        mark.touch()
        if row % 120 == 7:
            draw()
        os.kill(os.getpid(), signal.SIGKILL)
    return draw()


def draw_and_fail(log: str) -> None:
    with Path(log).open("a") as file:
        file.write(f"{draw()}\n")
    raise ConnectionError


def draw_through_a_client(_row: int) -> tuple[Numbers, Numbers]:
    with Client() as client:
        return draw(), client.submit(draw).result()


def seeds_itself(_row: int) -> Numbers:
    random.seed(1)
    np.random.seed(1)
    return random.random(), float(np.random.rand())


def seed_the_process() -> None:
    np.random.seed(1)


def draw_unless(row: int, gate: str) -> Numbers:
    if row == 40 and not Path(gate).exists():
        raise ConnectionError
    return draw()


def pid_and_number(_row: int) -> tuple[int, float]:
    return os.getpid(), float(np.random.rand())


@pytest.fixture(scope="module", autouse=True)
def _as_a_script() -> Iterator[None]:
    """Workers cannot import this file, as they could not import a script."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize("n_workers", [1, 2, 5])
def test_a_simulation_gives_the_same_numbers_whatever_is_killed(n_workers: int, tmp_path: Path) -> None:
    """With any number of workers; the simulation of the page, too."""
    items = [(row, tmp_path) for row in range(ROWS)]
    numbers = [expected((row,)) for row in range(ROWS)]
    page: dict[str, Any] = {"__name__": "__main__"}
    exec(PROGRAMS["docs/howto/monte-carlo.md"].partition("client = ")[0], page)
    strikes = [80.0 + row for row in range(40)]
    with SchedulerClusterCombo(n_workers, logging_level="CRITICAL") as combo, Client(combo.get_address()) as client:
        seeded = client.options(seed=7)
        assert seeded.map(draw_or_die, items) == numbers
        assert len([*tmp_path.iterdir()]) == ROWS // 60
        assert sorted(seeded.map_unordered(draw_or_die, items)) == sorted(numbers)
        prices = seeded.map(page["price_of_call"], [(strike,) for strike in strikes])
        shares = client.options(seed=(7, 1)).map(page["share_within_circle"], [(1000,)] * 20)
    assert prices == [price(row, strike) for row, strike in enumerate(strikes)]
    assert sum(shares) == 15.669  # of the generator of Python, which is the same everywhere


def price(row: int, strike: float) -> float:
    rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(row,)))
    return float(np.maximum(100 * np.exp(-0.02 + 0.2 * rng.standard_normal(10_000)) - strike, 0).mean())


def test_each_kind_of_call_draws_from_the_documented_seed(client: Client) -> None:
    seeded = client.options(seed=7)
    later = seeded.submit(draw)
    assert later.result(60) == seeded.submit(draw, later, client.submit(abs, -1)).result(60) == expected()
    assert {*seeded.run_on_all(draw).values()} == {expected()}
    graph = {"a": (draw,), "b": (draw, "a"), "c": (draw, "b", "a")}
    by_key = {key: expected((key_number(key),)) for key in graph}
    assert seeded.get(graph, ["a", "b", "c"]) == by_key
    assert seeded.get({"b": (draw, 1)}, ["b"]) == {"b": by_key["b"]}
    assert client.options(seed=(7, 2**40)).submit(draw).result(60) == expected(seed=(7, 2**40))  # type: ignore[arg-type]


def test_the_other_client_draws_the_same(address: str) -> None:
    async def run() -> None:
        async with AsyncClient(address) as client:
            seeded = client.options(seed=7)
            rows = [(row,) for row in range(ROWS)]
            numbers = [expected((row,)) for row in range(ROWS)]
            assert await seeded.map(draw, rows) == numbers
            assert sorted([each async for each in seeded.map_unordered(draw, rows)]) == sorted(numbers)
            waiting = client.submit(abs, -1)
            assert await seeded.map(draw, [(waiting,), (2,)]) == numbers[:2]
            assert await seeded.submit(draw, waiting) == expected()
            assert await seeded.get({"a": (draw,)}, ["a"]) == {"a": expected((key_number("a"),))}

    asyncio.run(run())


def test_a_failed_node_of_a_seeded_graph_is_named(client: Client) -> None:
    graph = {"first": (divmod, 1, 0), "second": (draw, "first")}
    with pytest.raises(ZeroDivisionError) as info:
        client.options(seed=7).get(graph, ["second"])
    assert "first, which task second needs" in str(info.value.__cause__)


def test_a_retry_draws_the_same(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    patient = client.options(seed=7, retries=2, retry_on=ConnectionError, retry_delay=0.01)
    patient.map(draw_and_fail, [(str(log),)], return_exceptions=True)
    assert log.read_text().splitlines() == [str(expected((0,)))] * 3


def test_a_call_inside_a_task_has_no_seed_of_its_parent(client: Client) -> None:
    pairs = client.options(seed=7).map(draw_through_a_client, [(1,), (2,)])
    assert [own for own, _ in pairs] == [expected((0,)), expected((1,))]
    assert len({number for _, nested in pairs for number in nested}) == 10


def test_calls_without_a_seed_draw_fresh_numbers_after_a_seeded_call(client: Client) -> None:
    seeded = client.options(seed=7)
    numbers: list[Numbers] = []
    for _ in range(20):
        assert seeded.submit(draw).result(60) == expected()
        numbers.append(client.submit(draw).result(60))
        assert seeded.map(draw, [(0,), (1,)]) == [expected((0,)), expected((1,))]
        numbers += client.map(draw, [(0,), (1,)])
    assert len({number for each in numbers for number in each}) == 5 * len(numbers)


def test_what_a_call_seeds_itself_has_precedence(client: Client) -> None:
    random.seed(1)
    np.random.seed(1)
    mine = random.random(), float(np.random.rand())
    assert client.options(seed=7).map(seeds_itself, [(1,), (2,)]) == [mine, mine]


def test_workers_that_have_inherited_numpy_draw_different_numbers() -> None:
    rows = [(row,) for row in range(30)]
    for options in ({}, {"max_tasks_per_processor": 1}):
        with Client(n_workers=2, preload=["numpy.random"], **options) as client:  # type: ignore[arg-type]
            drawn = client.map(pid_and_number, rows)
        assert len({number for _, number in drawn}) == 30, options
        assert len({pid for pid, _ in drawn}) == (30 if options else 2)


SEEDS_AT_IMPORT = """
import random
import numpy as np
random.seed(42)
np.random.seed(42)
class Trade:
    def __init__(self, row): self.row = row
    def __setstate__(self, state): self.__dict__, self.drawn = state, np.random.rand()
def draw(_row): return random.random(), float(np.random.rand())
"""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="two processes"),
        pytest.param({"max_tasks_per_processor": 1}, id="one for each row", marks=pytest.mark.more),
    ],
)
def test_a_module_that_seeds_at_its_import_changes_nothing(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is imported with the function, and one that is imported with an argument."""
    (tmp_path / "seeds_at_import.py").write_text(SEEDS_AT_IMPORT)
    monkeypatch.syspath_prepend(tmp_path)
    seeds_at_import = importlib.import_module("seeds_at_import")
    by_function = seeds_at_import.draw, [(row,) for row in range(20)]
    by_argument = draw, [(seeds_at_import.Trade(row),) for row in range(20)]
    for function, rows in (by_function, by_argument):
        with Client(n_workers=2, **options) as client:
            numbers = client.map(function, rows)
            assert len({number for each in numbers for number in each}) == sum(map(len, numbers))
        with Client(n_workers=2, **options) as client:
            numbers = client.options(seed=7).map(function, rows)
            seeded = [expected((row,)) for row in range(20)]
            assert numbers == (seeded if function is draw else [(each[0], each[2]) for each in seeded])
            first = client.options(seed=7).submit(function, *rows[0]).result(60)
            assert first[0] == expected()[0]


def draw_in_threads(_row: int) -> int:
    """Return how many generators the threads of a task get."""
    task, barrier, found = current_task(), threading.Barrier(8), []
    assert task is not None

    def ask() -> None:
        barrier.wait()
        mine = current_task()
        assert mine is not None
        found.append(mine.rng())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len({id(each) for each in (*found, task.rng())})


def test_all_threads_of_a_task_have_one_generator(client: Client) -> None:
    assert {*client.options(seed=7).map(draw_in_threads, [(row,) for row in range(50)])} == {1}


def test_a_seed_of_the_initializer_has_precedence() -> None:
    with Client(n_workers=1, preload=["numpy.random"], initializer=seed_the_process) as client:
        assert client.submit(pid_and_number, 0).result(60)[1] == np.random.RandomState(1).rand()


def test_threads_leave_the_generators_of_the_program_alone(caplog: pytest.LogCaptureFixture) -> None:
    state, numpys = random.getstate(), float(np.random.RandomState(3).rand())
    np.random.seed(3)
    with Client(processes=False) as client:
        seeded = client.options(seed=7)
        assert seeded.submit(lambda: current_task().rng().random()).result(60) == expected()[3]  # type: ignore[union-attr]
        rows = seeded.map(lambda _: current_task().rng().random(), [(0,), (1,)])  # type: ignore[union-attr]
    assert rows == [expected((0,))[3], expected((1,))[3]]
    assert (random.getstate(), float(np.random.rand())) == (state, numpys)
    assert [each for each in caplog.messages if "the option seed does not apply" in each] in ([], caplog.messages[:1])


def test_a_job_that_is_continued_draws_the_same_and_another_seed_is_other_work(tmp_path: Path) -> None:
    gate, rows = tmp_path / "gate", range(ROWS)
    items = [(row, str(gate)) for row in rows]

    def in_a_program(work: Callable[[Client], Any]) -> Any:
        with Client(n_workers=2, keep=str(tmp_path / "jobs")) as client:
            return work(client)

    with pytest.raises(ConnectionError):
        in_a_program(lambda client: client.options(seed=7).map(draw_unless, items, job="paths"))
    gate.touch()
    for other, said in ((8, "option seed was 7, and is 8"), (None, "option seed was 7, and is None")):
        with pytest.raises(JobConflictError, match=said):
            in_a_program(lambda client, seed=other: client.options(seed=seed).map(draw_unless, items, job="paths"))
    numbers = in_a_program(lambda client: client.options(seed=7).map(draw_unless, items, job="paths"))
    assert numbers == [expected((row,)) for row in rows]
    restarted = in_a_program(
        lambda client: client.options(seed=8).map(draw_unless, items, job="paths", on_change="restart")
    )
    assert restarted == [expected((row,), 8) for row in rows]
