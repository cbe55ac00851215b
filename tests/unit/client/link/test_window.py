"""Window: which tasks the scheduler has, and which ones wait."""

from __future__ import annotations

import logging

import pytest

from scaler.client.link.window import Window
from scaler.ids import TaskId


def task_id(number: int) -> TaskId:
    return TaskId(bytes([number]) * 16)


def entered(window: Window, *numbers: int, size: int = 10) -> list[int]:
    return [number for number in numbers if window.enter(task_id(number), size)]


def admitted(window: Window) -> list[int]:
    return [each[0] for each in window.admit()]


@pytest.fixture
def window() -> Window:
    window = Window()
    window.resize(3, 100)
    return window


def test_a_window_is_unlimited_before_the_scheduler_has_sent_its_size() -> None:
    window = Window()
    assert entered(window, *range(100), size=10**9) == list(range(100))


def test_tasks_beyond_the_window_wait_and_follow_in_their_order(window: Window) -> None:
    assert entered(window, 1, 2, 3, 4, 5, 6) == [1, 2, 3]
    assert [each[0] for each in window.waiting] == [4, 5, 6]
    assert admitted(window) == []
    assert window.leave(task_id(2))
    assert window.leave(task_id(1))
    assert admitted(window) == [4, 5]
    assert entered(window, 7) == []  # it does not overtake
    assert window.leave(task_id(3))
    assert admitted(window) == [6]


def test_a_window_is_limited_in_bytes(window: Window) -> None:
    assert entered(window, 1, 2, size=60) == [1]
    assert entered(window, 3, size=1) == []
    window.leave(task_id(1))
    assert admitted(window) == [2, 3]


def test_a_task_larger_than_the_window_is_sent_alone(window: Window) -> None:
    assert entered(window, 1, 2, size=1000) == [1]
    window.leave(task_id(1))
    assert admitted(window) == [2]


def test_sent_and_waiting_tasks_leave_the_window_with_their_results(window: Window) -> None:
    assert entered(window, 1, 2, 3, 4, 5, size=30) == [1, 2, 3]
    window.end([task_id(number) for number in (1, 3, 4, 99)])
    assert [each[0] for each in window.waiting] == [5]
    assert admitted(window) == [5]
    assert entered(window, 6, size=40) == [6]
    assert entered(window, 7, size=1) == []


@pytest.mark.parametrize("sizes", [{2: 10, 3: 10, 4: 10}, {2: 10, 3: 81}])
def test_tasks_enter_together_if_there_is_room_for_all(window: Window, sizes: dict[int, int]) -> None:
    assert entered(window, 1) == [1]
    assert not window.enter_all({task_id(number): size for number, size in sizes.items()})
    assert window.enter_all({task_id(2): 10, task_id(3): 80})
    assert entered(window, 4) == []
    assert not window.enter_all({task_id(5): 0})
    window.end([task_id(number) for number in (1, 2, 3)])
    assert admitted(window) == [4]


def test_waiting_tasks_can_be_removed_from_a_window(window: Window) -> None:
    entered(window, 1, 2, 3, 4, 5)
    assert not window.leave(task_id(4))
    assert not window.leave(task_id(99))
    window.leave(task_id(1))
    assert admitted(window) == [5]


def test_a_window_is_empty_after_clear(window: Window) -> None:
    entered(window, 1, 2, 3, 4, 5)
    window.clear()
    assert not window.waiting
    assert entered(window, 6, 7, 8) == [6, 7, 8]


def test_the_log_says_once_that_tasks_wait(window: Window, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        entered(window, 1, 2, 3, 4, 5)
        window.clear()
        entered(window, 1, 2, 3, 4, 5)
    (record,) = caplog.records
    assert "3 open tasks of this client with 30 bytes" in record.getMessage()
