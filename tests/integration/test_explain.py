"""Why is it waiting? Asked of real schedulers and workers."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from scaler import Client, Cluster, Scheduler
from scaler.client.insight.explanation import Story
from scaler.wire.messages.vocabulary import NO_WORKER, WORKER
from tests.support.processes import wait_until


def hold(path: str) -> int:
    while not os.path.exists(path):  # noqa: PTH110 - it travels to a worker
        time.sleep(0.01)
    return 1


def run_of(story: Story) -> tuple[Story, float] | None:
    """The story, and for how long the task runs, if the agent has said so in time."""
    return (story, story.seconds) if story.seconds is not None and story.waits_for == WORKER else None


def test_a_task_is_explained_and_warned_about_until_a_worker_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"ipc://{tmp_path}/s"
    scheduler = Scheduler(address=address, logging_level="WARNING")
    scheduler.start()
    cluster = Cluster(address=address, n_workers=1, logging_level="WARNING")
    try:
        with Client(address, heartbeat_interval_seconds=0.5) as client:
            future = client.submit(hold, str(tmp_path / "end"))
            wait_until(lambda: future.story().waits_for == NO_WORKER, "it is told that there is no worker")
            warning = "1 task waits: no worker is connected"
            wait_until(lambda: any(warning in text for text in caplog.messages), "a warning")
            with pytest.raises(TimeoutError, match="no worker is connected"):
                client.map(abs, [(0,)], timeout=0.1)
            cluster.start()
            wait_until(lambda: future.story().waits_for == WORKER, "a worker")
            first, seconds = wait_until(lambda: run_of(future.story()), "it has begun")
            assert f"it runs at worker {first.worker} in process " in first.sentence
            wait_until(lambda: (future.story().seconds or 0.0) > seconds, "it runs for longer")
            (tmp_path / "end").touch()
            assert future.result(60) == 1
            assert (future.story().state, future.story().worker) == ("success", first.worker)
            failed = client.submit(int, "x")
            node = client.get({"a": (abs, -1)}, ["a"], block=False)["a"]
            assert (type(failed.exception(60)), node.result(60)) == (ValueError, 1)
            assert {each.story().worker for each in (failed, node)} == {first.worker}
            assert client.story(failed.task_id).worker == first.worker
            wait_until(lambda: "tasks are progressing again" in caplog.messages, "the end of the warning")
    finally:
        cluster.terminate()
        scheduler.terminate()
        cluster.join()
        scheduler.join()
    assert all(record.levelno >= logging.WARNING for record in caplog.records)
