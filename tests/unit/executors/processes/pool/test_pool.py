"""The real processors of a node: how many there are, and which of their ends are failures."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scaler.executors.processes.messages import AddProcessor, ProcessorUp
from scaler.executors.processes.pool import fork_server_proxy
from scaler.settings.functions import initializer_text
from scaler.wire.messages.common import TaskStatus
from tests.support.node import Node
from tests.support.processes import alive, fork_servers, open_descriptors

pytestmark = pytest.mark.processes


def test_tasks_run_in_processors(node: Node) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    assert node.statuses() == [TaskStatus.SUCCESS]
    assert len(node.processes()) == 1


def test_an_extra_processor_is_not_replaced_when_it_ends(node: Node) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    [first] = node.processes()
    node.pool.send(AddProcessor(0))
    node.until(lambda: len(list(node.slot()._processors)) == 2)
    [extra] = set(node.processes()) - {first}
    os.kill(extra, signal.SIGKILL)
    node.until(lambda: len(list(node.slot()._processors)) == 1)
    os.kill(first, signal.SIGKILL)
    node.until(lambda: not alive(first) and len(list(node.slot()._processors)) == 1 and len(node.processes()) == 1)
    assert {first, extra}.isdisjoint(node.processes())


def test_deaths_after_the_start_do_not_use_up_the_restart_budget(node: Node) -> None:
    tasks = [node.task(lambda: os._exit(1)) for _ in range(30)]
    node.run(*tasks)
    node.until(lambda: len(node.results) == 30)
    assert node.statuses() == [TaskStatus.PROCESSOR_DIED] * 30
    assert node.shell.exit_code == 0


def test_dead_processors_leave_no_descriptors_without_garbage_collection(node: Node) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    before = open_descriptors()
    gc.disable()
    try:
        node.run(*(node.task(lambda: os._exit(1)) for _ in range(40)))
        node.until(lambda: len(node.results) == 41)
        node.run(node.task(int))
        node.until(lambda: len(node.results) == 42)
        assert open_descriptors() <= before + 20  # not one for each process; leftovers of other tests may open some
    finally:
        gc.enable()


def test_processors_that_never_become_ready_end_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server_proxy, "PROGRAM", "import_fails_here")
    node = Node()
    try:
        node.until(lambda: node.shell.exit_code)
        assert node.shell.exit_code == 70
        assert not any(isinstance(message, ProcessorUp) for message in node.link.messages)
    finally:
        node.close()


def fails() -> None:
    raise OSError("no table")


NO_MODULE = "ModuleNotFoundError: No module named 'no_such_module'"
ENDED = "the initializer has not returned, because its worker process ended"
CUT_OFF = "the initializer ended the process, or closed a descriptor that it had not opened"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"preload": ("no_such_module",)}, f"cannot preload module 'no_such_module': {NO_MODULE}; install it, or name"),
        ({"initializer": "no_such_module:f"}, f"the initializer failed: {NO_MODULE}"),
        ({"initializer": initializer_text(fails), "n_workers": 3}, "the initializer failed: OSError: no table ("),
        ({"initializer": initializer_text(lambda: os.closerange(3, 20_000))}, CUT_OFF),
        ({"initializer": initializer_text(lambda: os._exit(0))}, CUT_OFF),
        ({"initializer": initializer_text(lambda: os._exit(3)), "n_workers": 2}, f"{ENDED}: exit code 3"),
        ({"initializer": initializer_text(lambda: os.kill(os.getpid(), signal.SIGKILL))}, f"{ENDED}: signal SIGKILL"),
    ],
    ids=["preload", "missing", "raises", "closes all", "leaves", "exits", "is killed"],
)
def test_a_failure_before_the_first_task_ends_the_agent_at_once_with_the_reason(
    settings: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(**settings)
    try:
        node.until(lambda: node.shell.exit_code)
        assert node.shell.exit_code == os.EX_CONFIG
        assert node.shell.why.startswith(why)
        assert not [record for record in caplog.records if record.levelno > logging.INFO]
    finally:
        node.close()


def test_an_initializer_that_fails_for_some_workers_is_retried_for_them(tmp_path: Path) -> None:
    def fails_twice() -> None:
        for name in "ab":
            with contextlib.suppress(FileExistsError):
                (tmp_path / name).touch(exist_ok=False)
                raise OSError("not now")

    node = Node(initializer=initializer_text(fails_twice), n_workers=3)
    try:
        node.run(*(node.task(int, worker) for worker in range(3)))
        node.until(lambda: len(node.results) == 3)
        assert node.shell.exit_code == 0
    finally:
        node.close()


def test_an_initializer_may_close_some_hundred_descriptors() -> None:
    node = Node(initializer=initializer_text(partial(os.closerange, 3, 1000)))
    try:
        node.run(node.task(partial(os.closerange, 3, 1000)), node.task(int))
        node.until(lambda: len(node.results) == 2)
        assert node.values() == [None, 0]
    finally:
        node.close()


def test_a_node_that_has_run_tasks_retries_a_failing_initializer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = str(tmp_path / "mark")

    def needs_the_mark() -> None:
        Path(mark).stat()

    Path(mark).touch()
    node = Node(initializer=initializer_text(needs_the_mark))
    try:
        node.run(node.task(int))
        node.until(lambda: node.results)
        Path(mark).unlink()
        node.run(node.task(lambda: os._exit(1)))
        node.until(lambda: caplog.text.count("the initializer failed: FileNotFoundError") > 5)
        Path(mark).touch()
        node.run(node.task(int))
        node.until(lambda: len(node.results) == 3)
        assert node.shell.exit_code == 0
    finally:
        node.close()


def test_a_node_that_has_run_tasks_retries_a_failing_preload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "preloaded_sometimes.py"
    module.touch()
    node = Node(preload=(module.stem,))
    try:
        node.run(node.task(int))
        node.until(lambda: node.results)
        module.unlink()
        [fork_server] = fork_servers()
        fork_server.kill()
        node.until(lambda: "cannot preload module 'preloaded_sometimes'" in caplog.text)
        module.touch()
        node.run(node.task(int))
        node.until(lambda: len(node.results) == 2)
        assert node.shell.exit_code == 0
    finally:
        node.close()
