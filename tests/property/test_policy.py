"""Places against a model that simply looks at all workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.policy import Places, moving_mean, window

workers = st.integers(0, 5)
windows = st.integers(1, 6)
operations = st.one_of(
    st.tuples(st.just("join"), workers, windows, st.integers(0, 8)),
    st.tuples(st.just("leave"), workers, windows, st.just(0)),
    st.tuples(st.just("free"), workers, windows, st.integers(0, 4)),
    st.tuples(st.just("take"), workers, windows, st.just(0)),
)


@given(st.lists(operations, max_size=80))
def test_a_least_loaded_worker_with_a_free_place_gets_the_next_task(story: list[tuple[str, int, int, int]]) -> None:
    places: Places[int] = Places()
    model: dict[int, tuple[int, int]] = {}  # load, window
    for name, worker, size, number in story:
        if name == "join":
            places.join(worker, size, number)
            model[worker] = (number, size)
        elif name == "leave":
            places.leave(worker)
            model.pop(worker, None)
        elif name == "free":
            places.free(worker, number, size)
            if worker in model:
                model[worker] = (max(0, model[worker][0] - number), size)
        else:
            taken = places.take()
            free = {known: load for known, (load, most) in model.items() if load < most}
            if taken is None:
                assert not free
            else:
                assert free[taken] == min(free.values())
                model[taken] = (free[taken] + 1, model[taken][1])
        check(places, model)


def check(places: Places[int], model: dict[int, tuple[int, int]]) -> None:
    assert len(places) == len(model)
    assert {worker: places.load(worker) for worker in model} == {worker: load for worker, (load, _) in model.items()}
    listed = {worker: level for level, members in enumerate(places._levels) for worker in members}
    assert listed == {worker: load for worker, (load, most) in model.items() if load < most}
    assert sum(map(len, places._levels)) == len(listed)
    assert places._lowest <= min(listed.values(), default=places._lowest)


@given(st.floats(0, 1e6) | st.none(), st.floats(0, 1e6), st.integers(1, 10_000))
def test_a_window_is_possible_and_longer_tasks_never_widen_it(mean: float | None, more: float, queue: int) -> None:
    assert 1 <= window(mean, queue) <= queue
    if mean is not None:
        assert window(mean + more, queue) <= window(mean, queue)


@given(st.floats(0, 1e6) | st.none(), st.floats(0, 1e6), st.integers(1, 10_000))
def test_a_moving_mean_lies_between_the_old_one_and_that_of_the_batch(
    mean: float | None, seconds: float, count: int
) -> None:
    batch = seconds / count
    new = moving_mean(mean, seconds, count)
    low, high = min(batch, mean or 0.0 if mean is not None else batch), max(batch, mean if mean is not None else batch)
    assert low - 1e-6 <= new <= high + 1e-6
