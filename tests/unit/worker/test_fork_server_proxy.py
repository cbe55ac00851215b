"""ForkServerProxy: real processes start, are all lost with the fork server, and nothing is left in the end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunCancel
from tests.support.node import Node
from tests.support.processes import alive

pytestmark = pytest.mark.processes


def sleep_for_ever() -> None:
    while True:
        time.sleep(100)


def test_what_a_task_started_ends_with_its_processor(node: Node, tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def start_child() -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        note.write_text(f"{child.pid}\n")
        child.wait()

    running = node.task(start_child)
    node.run(running)
    node.until(lambda: note.exists() and note.read_text().endswith("\n"))
    node.slots[0].send(Batch[RunCancel]([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: node.results)
    node.until(lambda: not alive(int(note.read_text())))


def test_loss_of_the_fork_server_loses_no_task(node: Node) -> None:
    running, waiting = node.task(sleep_for_ever), node.task(int)
    node.run(running, waiting)
    before = node.until_executing()
    [fork_server] = psutil.Process().children()
    [processor] = fork_server.children()
    fork_server.kill()
    node.until(lambda: node.active() not in {None, before})
    node.until_executing()
    node.until(lambda: not alive(processor.pid))
    node.slots[0].send(Batch[RunCancel]([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: TaskStatus.SUCCESS in node.statuses())
