"""Why is it waiting? Asked of real schedulers and workers."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from scaler import Client, Cluster, Scheduler
from scaler.wire.reasons import NO_WORKER, WORKER
from tests.support.processes import wait_until


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_a_task_is_explained_and_warned_about_until_a_worker_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"ipc://{tmp_path}/s"
    scheduler = Scheduler(address=address, logging_level="WARNING")
    scheduler.start()
    cluster = Cluster(address=address, n_workers=1, logging_level="WARNING")
    try:
        with Client(address, heartbeat_interval_seconds=0.5) as client:
            future = client.submit(nap, 1)
            assert future.story().waits_for == NO_WORKER
            warning = "1 task waits: no worker is connected"
            wait_until(lambda: any(warning in text for text in caplog.messages), "a warning")
            with pytest.raises(TimeoutError, match="no worker is connected"):
                client.map(nap, [(0,)], timeout=0.1)
            cluster.start()
            wait_until(lambda: future.story().waits_for == WORKER, "a worker")
            assert future.result(60) == 1
            wait_until(lambda: "the tasks that waited go on" in caplog.messages, "the end of the warning")
    finally:
        cluster.terminate()
        scheduler.terminate()
        cluster.join()
        scheduler.join()
    assert all(record.levelno >= logging.WARNING for record in caplog.records)
