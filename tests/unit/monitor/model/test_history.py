from __future__ import annotations

from scaler.monitor.model.history import RINGS, SERIES, History
from scaler.monitor.model.model import Model
from tests.support.monitored import NOON_US, agent, news, row, scheduler

NOON = 1_795_000_020
"""The start of a minute."""


def sample(**values: float) -> list[float]:
    return [values.get(name, 0.0) for name in SERIES]


def filled(seconds: int, **values: float) -> History:
    history = History()
    for second in range(seconds):
        history.add(NOON + second, sample(**values))
    return history


def test_a_minute_has_the_mean_of_rates_and_the_maximum_of_bytes() -> None:
    history = History()
    for second in range(61):
        history.add(NOON + second, sample(success=second % 2, objects=second))
    assert history.read(("success", "objects"), NOON, 60, 1) == {"success": [0.5], "objects": [59.0]}


def test_each_finished_step_of_history_is_stored_once() -> None:
    kept: list[tuple[int, int]] = []
    history = History(lambda step, number, _: kept.append((step, number)))
    for second in range(125):
        history.add(NOON + second, sample())
    assert len(kept) == len(set(kept))
    assert [number * step for step, number in kept if step == 60] == [NOON, NOON + 60]
    assert len([step for step, _ in kept if step == 10]) == 12


def test_a_gap_is_none_and_not_zero() -> None:
    history = History()
    history.add(NOON, sample(success=1))
    history.add(NOON + 3, sample(success=2))
    assert history.read(("success",), NOON, 1, 4)["success"] == [1, None, None, 2]


def test_slightly_late_news_leaves_no_gap() -> None:
    history = History()
    for at in (0.0, 0.99, 2.01, 3.0):
        history.add(NOON + at, sample(success=at))
    assert history.read(("success",), NOON, 1, 4)["success"] == [0.99, 2.01, 2.01, 3]


def test_hours_without_news_do_not_take_hours() -> None:
    history = filled(5)
    history.add(NOON + 30 * 86400, sample(success=7))
    assert history.end == NOON + 30 * 86400 + 1
    assert history.read(("success",), history.end - 1, 1, 1)["success"] == [7]


def test_a_clock_that_was_set_back_does_not_change_history() -> None:
    history = filled(5, success=1)
    history.add(NOON - 100, sample(success=9))
    assert history.read(("success",), NOON, 1, 5)["success"] == [1] * 5


def test_rings_are_bounded() -> None:
    history = filled(RINGS[0][1] + 50)
    assert len(list(history.rings[0].rows())) == RINGS[0][1]


def test_a_window_has_the_shortest_steps_that_fit() -> None:
    history = filled(10)
    assert history.span(300, 300)[1:] == (1, 300)
    assert history.span(1800, 300)[1:] == (6, 300)
    assert history.span(21600, 180)[1:] == (120, 180)
    assert history.span(604800, 300)[1] == 2040
    start, step, count = history.span(300, 300)
    assert start + step * count == history.end


def test_times_before_a_restart_of_the_server_have_only_longer_steps() -> None:
    history = History()
    history.rings[1].put(NOON // 10, sample(success=5))
    assert history.read(("success",), NOON, 1, 11)["success"] == [5] * 10 + [None]


def test_longer_steps_do_not_fill_gaps_between_seconds() -> None:
    history = History()
    history.add(NOON, sample(success=1))
    history.add(NOON + 25, sample(success=1))
    assert history.read(("success",), NOON, 1, 3)["success"] == [1, None, None]


def test_a_sample_has_what_the_model_knows() -> None:
    model = Model()
    model.take(news("workers", agent(row(rss=100), row(rss=50), rss_bytes=7)), 0)
    model.take(news("scheduler", scheduler(rss_bytes=11, cpu_permille=500, waiting=3, running=2, workers=2)), 0)
    found = model.history.read(SERIES, NOON_US // 1_000_000, 1, 1)
    values = {name: column[0] for name, column in found.items()}
    assert (values["processors"], values["agents"], values["scheduler"]) == (150, 7, 11)
    assert (values["cpu"], values["open"], values["busy"]) == (0.5, 5, 2)
