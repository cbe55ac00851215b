"""The condition of a future: a lock, and one more for each thread that waits."""

from __future__ import annotations

import gc
import signal
import threading
from concurrent.futures import Future

import pytest

from scaler.client.results.condition import LeanCondition
from tests.support.processes import wait_until


def test_a_thread_that_waits_is_woken() -> None:
    condition, woken = LeanCondition(), []

    def wait() -> None:
        with condition:
            woken.append(condition.wait())

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(condition._waiters or ()) == 2, "both wait")
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join()
    assert woken == [True, True]


def test_a_wait_has_an_end() -> None:
    condition = LeanCondition()
    with condition:
        assert not condition.wait(0.001)
        assert not condition.wait(0)
        assert not condition.wait(-1)
        assert not condition._waiters
        condition.notify_all()


def test_the_lock_is_that_of_its_owner() -> None:
    condition = LeanCondition()
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


def test_a_wait_gives_the_lock_away_however_often_it_is_held() -> None:
    condition = LeanCondition()

    def wake() -> None:
        with condition:
            condition.notify_all()

    with condition, condition:
        thread = threading.Thread(target=wake)
        thread.start()
        assert condition.wait(10)
        assert not condition.wait(0)
        thread.join()
        others = []
        thread = threading.Thread(target=lambda: others.append(condition.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert others == [False]


def test_an_interrupted_wait_has_the_lock_again_and_wants_no_wake_up() -> None:
    condition = LeanCondition()

    def interrupt() -> None:
        wait_until(lambda: len(condition._waiters or ()) == 1, "the main thread waits")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with condition:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            condition.wait(10)
        assert not condition._waiters
        condition.notify_all()
    thread.join()
    with pytest.raises(RuntimeError):
        condition.release()


def test_nobody_waits_without_the_lock() -> None:
    with pytest.raises(RuntimeError, match="un-acquired"):
        LeanCondition().wait()


def test_it_is_far_fewer_objects_than_that_of_the_standard_library() -> None:
    def objects(make: type) -> float:
        gc.collect()
        before = len(gc.get_objects())
        made = [make() for _ in range(1000)]
        return (len(gc.get_objects()) - before) / len(made)

    assert objects(LeanCondition) < 2.5
    assert objects(Future) > 3 * objects(LeanCondition)
