"""The numbers of functions on screens, against what the program itself knows: each task counts once."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from scaler import Client, SchedulerClusterCombo
from scaler.wire.messages.monitor import ENDED, StateFailure, StateFunction, StateJob
from tests.support.viewer import Message, Viewer

ROWS = 2000


def double(number: int) -> int:
    return 2 * number


def never_even(number: int) -> int:
    if number % 2 == 0:
        raise ValueError("even")
    return number


def crash(_number: int) -> None:
    os._exit(3)


def crash_at_first(place: Path) -> str:
    if not place.exists():
        place.touch()
        os._exit(3)
    return "well"


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def outcome(error: BaseException | None) -> str:
    return "success" if error is None else "canceled" if isinstance(error, CancelledError) else "failed"


def error_of(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception(60)
    except CancelledError as error:
        return error


class Program:
    """A user's program, which counts how its own tasks end."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.ended: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def count(self, function: Any, futures: Iterable[Future[Any]]) -> None:
        self.ended[function.__name__].update(outcome(error_of(future)) for future in futures)

    def count_values(self, function: Any, values: Iterable[Any]) -> None:
        errors = (value if isinstance(value, BaseException) else None for value in values)
        self.ended[function.__name__].update(map(outcome, errors))

    def run(self) -> None:
        submit, numbers = self.client.submit, range(30)
        self.count(double, [submit(double, number) for number in numbers])
        self.count(never_even, [submit(never_even, number) for number in numbers])
        self.count(crash, [submit(crash, number) for number in range(3)])
        self.count(crash_at_first, [submit(crash_at_first, self.folder / f"tried-{number}") for number in range(2)])
        self.count_values(never_even, self.client.map(never_even, zip(range(ROWS)), return_exceptions=True))
        self.run_calls_that_need_others()
        job = self.client.start(never_even, [(number,) for number in range(300)], name="rows")
        job.wait(120)
        self.count_values(never_even, job.results(return_exceptions=True))

    def run_calls_that_need_others(self) -> None:
        submit = self.client.submit
        failed = submit(never_even, 2)
        need_failed = [submit(double, failed) for _ in range(4)]  # they never start
        self.count(never_even, [failed])
        self.count(double, need_failed)
        naps = [submit(nap, 600) for _ in range(6)]  # more than there are workers
        need_naps = [submit(double, naps[-1]) for _ in range(5)]
        for future in (*need_naps, *reversed(naps)):
            future.cancel()
        self.count(nap, naps)
        self.count(double, need_naps)


def numbers_of(function: StateFunction) -> dict[str, int]:
    counts = {"success": function.success, "failed": function.failed, "canceled": function.canceled}
    return {name: count for name, count in counts.items() if count}


def states(counts: dict[str, int]) -> Counter[str]:
    """Return counts of ended tasks, with one name for all failures."""
    found = Counter[str]()
    for name, count in counts.items():
        found[name if name in ("success", "canceled") else "failed"] += count
    return found


def test_each_count_of_ended_tasks_is_the_one_of_the_program(tmp_path: Path) -> None:
    """Nobody watches while the tasks run."""
    with (
        SchedulerClusterCombo(3, keep=str(tmp_path / "jobs"), logging_level="CRITICAL") as combo,
        Client(combo.get_address()) as client,
    ):
        program = Program(client, tmp_path)
        program.run()
        expected, seen = {name: dict(counts) for name, counts in program.ended.items()}, dict[str, Message]()
        failed = sum(counts["failed"] for counts in program.ended.values())

        def are_equal(message: Message) -> bool:
            seen[message.topic] = message
            if len(seen) < 4 or seen["scheduler"].head.time_us < seen["functions"].head.time_us:
                return False
            functions = seen["functions"].of(StateFunction)
            return {each.name: numbers_of(each) for each in functions} == expected

        with Viewer(combo.get_monitor_address(), "scheduler", "functions", "failures", "jobs") as viewer:
            viewer.until(are_equal, f"{expected}")
        assert states(seen["scheduler"].counts(ENDED)) == sum(program.ended.values(), Counter[str]())
        assert sum(each.times for each in seen["failures"].of(StateFailure)) == failed
        functions = seen["functions"].of(StateFunction)
        assert seen["functions"].head.total == len(functions) == len(expected)
        assert expected["crash"] == {"failed": 3}
        (job,) = seen["jobs"].of(StateJob)
        assert (job.function_name, job.done, job.failed, job.handed_out, job.running) == ("never_even", 150, 150, 0, 0)
        assert [line.split(":")[0] for line in job.failures.splitlines()] == [f"row {2 * n}" for n in range(20)]


def test_the_rows_of_a_job_that_run_are_those_at_workers(tmp_path: Path) -> None:
    """The same numbers are in the progress of the job, on screens, and in the sum over all workers."""
    with (
        SchedulerClusterCombo(2, keep=str(tmp_path / "jobs"), logging_level="CRITICAL") as combo,
        Client(combo.get_address()) as client,
        Viewer(combo.get_monitor_address(), "jobs", "functions", "scheduler") as viewer,
    ):
        job = client.start(nap, [(600,)] * 40, name="naps")
        found: dict[str, tuple[int, ...]] = {}

        def are_equal(message: Message) -> bool:
            for each in message.of(StateJob):
                found["job"] = each.handed_out, each.running
            for function in message.of(StateFunction):
                found["function"] = function.waiting + function.running, function.running
            return len(found) == 2 and found["job"] == found["function"] and found["job"][1] > 0

        viewer.until(are_equal, "equal numbers")
        progress = job.progress()
        assert (progress.handed_out, progress.running) == found["job"] == (40, 2)
        names = [each.name for each in viewer.until(lambda seen: seen.of(StateFunction), "it").of(StateFunction)]
        assert names == ["nap"]
        job.cancel()
