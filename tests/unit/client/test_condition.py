"""The condition of a future: a lock, and a condition of the standard library from the first wait on."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future

import pytest

from scaler.client.condition import LazyCondition
from tests.support.processes import wait_until


def test_a_thread_that_waits_is_woken() -> None:
    condition, woken = LazyCondition(), []

    def wait() -> None:
        with condition:
            woken.append(condition.wait())

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: condition._condition is not None and len(condition._condition._waiters) == 2, "both wait")  # type: ignore[attr-defined]
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join()
    assert woken == [True, True]


def test_a_wait_has_an_end() -> None:
    condition = LazyCondition()
    with condition:
        assert not condition.wait(0.001)


def test_the_lock_is_that_of_its_owner() -> None:
    condition = LazyCondition()
    with condition, condition:  # as often as the owner likes
        others = []
        thread = threading.Thread(target=lambda: others.append(condition.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert others == [False]
    assert condition.acquire()
    condition.release()
    with pytest.raises(RuntimeError):
        condition.release()


def test_nobody_waits_without_the_lock() -> None:
    with pytest.raises(RuntimeError, match="un-acquired"):
        LazyCondition().wait()


def test_it_is_far_fewer_objects_than_that_of_the_standard_library() -> None:
    def objects(make: type) -> float:
        gc.collect()
        before = len(gc.get_objects())
        made = [make() for _ in range(1000)]
        return (len(gc.get_objects()) - before) / len(made)

    assert objects(LazyCondition) < 2.5
    assert objects(Future) > 3 * objects(LazyCondition)
