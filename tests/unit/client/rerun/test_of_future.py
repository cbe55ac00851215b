"""The failed call of a future: what is kept, for how long, and the error without it."""

from __future__ import annotations

import gc
import weakref

import pytest

from scaler.client import Client
from scaler.client.link.link import fail_links
from scaler.errors import DisconnectedError, RerunError
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from tests.support.fake_scheduler import FakeScheduler


def boom(value: object) -> None:
    raise ValueError(value)


def test_a_future_that_failed_in_the_client_cannot_be_rerun(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(boom, 1)
    fail_links(client._core.link.address, lambda: DisconnectedError("the scheduler is gone"))
    assert isinstance(future.exception(10), DisconnectedError)
    with pytest.raises(RerunError, match=r"not kept if .* \(DisconnectedError: the scheduler is gone\): submit"):
        future.rerun()


def test_a_call_is_kept_as_long_as_its_failed_future(client: Client) -> None:
    reference = client.send_object(b"x" * 100_000)
    kept, future = weakref.ref(reference), client.submit(boom, reference)
    del reference
    assert isinstance(future.exception(10), ValueError)
    gc.collect()
    assert kept() is not None
    with pytest.raises(ValueError, match="x"):
        future.rerun()
    gc.disable()
    try:
        del future
        assert kept() is None, "without the help of the collector"
    finally:
        gc.enable()


def test_a_failure_that_cannot_be_read_can_be_rerun(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(boom, 1)
    scheduler.wait_for(Task)
    scheduler.say(TaskResult(future.task_id, TaskStatus.FAILED, b"no failure", 0))
    assert future.exception(10) is not None
    with pytest.raises(ValueError, match="1"):
        future.rerun()
