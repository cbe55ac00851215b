"""All screens of a cluster say the same numbers, and these are what happened."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from scaler.ids import public_id
from tests.support.all_screens import AllScreens, disagreements
from tests.support.processes import command, free_address, wait_until

pytestmark = [pytest.mark.more, pytest.mark.processes]

Future = ScalerFuture[Any]


def well(number: int) -> int:
    return number


def refuse(number: int) -> int:
    raise ValueError(f"no {number}")


def crash(_number: int) -> None:
    os._exit(3)


def row(number: int) -> int:
    if number % 50 == 7:
        raise KeyError(number)
    return number


def hold(path: str) -> str:
    while not os.path.exists(path):  # noqa: PTH110 - it travels to a worker
        time.sleep(0.01)
    return path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, AllScreens]]:
    """A scheduler that keeps jobs, two workers, one with a gpu, and the page."""
    address, keep = f"ipc://{tmp_path}/s", tmp_path / "keep"
    keep.mkdir(mode=0o700)
    home = {"XDG_STATE_HOME": str(tmp_path)}
    port = free_address().rpartition(":")[2]
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(command("scheduler", address, "--keep", str(keep)))
        scheduler.wait_for("address ipc")
        stack.enter_context(command("cluster", address, "-n", "2"))
        stack.enter_context(command("cluster", address, "-n", "1", "--capabilities", "gpu=1"))
        page = stack.enter_context(command("ui", address, "--port", port, env=home))
        yield address, AllScreens(address, page.wait_for("?token=").strip())


def agree(look: Callable[[], Mapping[str, Mapping[str, Any]]], truth: Mapping[str, Mapping[str, Any]]) -> None:
    """Wait until all screens say the truth."""
    lines: list[str] = []

    def is_so() -> bool:
        lines[:] = disagreements(look(), truth)
        return not lines

    try:
        wait_until(is_so, "all screens say the same")
    except AssertionError:
        raise AssertionError("\n".join(lines)) from None


def test_ended_tasks_are_counted_once_and_everywhere(site: tuple[str, AllScreens]) -> None:
    address, screens = site
    truth: dict[str, Counter[str]] = {}

    def count(name: str, **states: int) -> None:
        truth[name] = Counter(states)

    with Client(address) as client:
        for function, number in ((well, 30), (refuse, 5), (crash, 2)):
            futures = [client.submit(function, each) for each in range(number)]
            for future in futures:
                future.exception()
        count("well", success=30)
        count("refuse", failed=5)
        count("crash", failed=2)  # each is tried several times, and is one task
        results = client.map(row, [(each,) for each in range(400)], return_exceptions=True)
        failed = sum(isinstance(each, Exception) for each in results)
        count("row", success=400 - failed, failed=failed)
        assert failed == 8
        job = client.start(well, [(each,) for each in range(40)], name="agree")
        assert job.wait(60)
        truth["well"]["success"] += 40
        gate = site[0].removeprefix("ipc://") + ".gate"
        held = [client.submit(hold, gate) for _ in range(9)]
        wait_until(lambda: sum(each.running() for each in held) >= 1, "one runs")
        for future in held[3:]:
            future.cancel()
        wait_until(lambda: screens.json()["tasks"]["canceled"] == 6, "they are cancelled, also at their workers")
        Path(gate).touch()
        assert [each.result(60) for each in held[:3]] == [gate] * 3
        count("hold", success=3, canceled=6)
        whole = Counter[str]()
        for counts in truth.values():
            whole.update(counts)
        expected: dict[str, Mapping[str, int]] = {
            "": {state: whole[state] for state in ("success", "failed", "canceled")}
        }
        for name, counts in truth.items():
            states = {state: counts[state] for state in ("success", "failed", "canceled")}
            expected |= {f"{name} of {screen}": states for screen in ("json", "view", "metrics")}
        agree(lambda: screens.ended(*truth), expected)
        (of_view,) = screens.rows("jobs")
        progress = job.progress()
        rows = {"done": of_view["done"], "failed": of_view["failed"]}
        assert rows == {"done": 40, "failed": 0} == {"done": progress.done, "failed": progress.failed}
        assert screens.job("agree")["done"] == 40
        assert all(each["name"] for each in screens.rows("functions"))
        open_tasks = {"waiting": 0, "running": 0, "busy": 0, "verdict": "idle", "warning": "", "left": ""}
        agree(screens.open, {"": open_tasks})


def test_open_tasks_are_shown_as_they_are_everywhere(site: tuple[str, AllScreens], tmp_path: Path) -> None:
    address, screens = site
    gate = str(tmp_path / "gate")
    with Client(address) as client:
        gpu, tpu = (client.options(capabilities={name: 1}) for name in ("gpu", "tpu"))
        tasks: list[Future] = [gpu.submit(hold, gate) for _ in range(3)]
        wait_until(lambda: sum("it runs at worker" in each.explain() for each in tasks) == 1, "one of them runs")
        plain = [client.submit(hold, gate) for _ in range(2)]
        wait_until(lambda: all("it runs at worker" in each.explain() for each in plain), "they run")
        never = [tpu.submit(well, each) for each in range(2)]
        dependent = client.submit(well, plain[0])
        waiting = next(each for each in tasks if "it runs at worker" not in each.explain())

        def explained() -> str:
            return waiting.explain()

        assert "it asks for gpu=1" in explained()
        expected = {
            "waiting": 2 + 2 + 1, "running": 3, "busy": 3, "verdict": "gpu=1", "left": "",
            "warning": "2 need tpu=1: no worker has it",
        }  # fmt: skip
        agree(screens.open, {"": expected})
        found = screens.json()
        sentences = {each["asks"]: each["sentence"] for each in found["waiting"]}
        assert sentences["gpu=1"] in explained()
        assert found["advice"] == f"2 wait: {sentences['gpu=1']}"
        assert sentences["tpu=1"].replace("ADDRESS", address) in never[0].explain().replace("ADDRESS", address)
        executed = [each for each in [*tasks, *plain] if "it runs at worker" in each.explain()]
        running = {each["id"] for each in screens.rows("tasks", state="running")}
        assert running == {public_id(each.task_id).hex() for each in executed}
        job = client.start(hold, [(gate,)] * 4, name="held")
        wait_until(lambda: job.progress().handed_out == 4, "its rows are tasks")
        progress, names = job.progress(), ("done", "failed", "open", "handed_out", "running")
        of_progress = {"open": progress.rows - progress.done - progress.failed}
        of_progress |= {name: getattr(progress, name) for name in names if name != "open"}

        def of_view() -> list[dict[str, int]]:
            return [{name: each[name] for name in names} for each in screens.rows("jobs")]

        wait_until(lambda: of_view() == [of_progress], f"the view says {of_progress}")
        assert screens.job("held") == of_progress
        Path(gate).touch()
        assert dependent.result(60) == gate
        assert job.wait(60)
        for each in never:
            each.cancel()
        wait_until(lambda: all(each.done() for each in tasks), "all have ended")
        agree(screens.open, {"": {"waiting": 0, "running": 0, "busy": 0, "verdict": "idle", "warning": "", "left": ""}})
