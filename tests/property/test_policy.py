"""Places against a model that simply looks at all workers; what is said about durations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.policy import FUNCTIONS_REMEMBERED, WORK_AHEAD_US, Durations, Places, moving_mean
from scaler.ids import ObjectId

Model = dict[int, tuple[int, list[int]]]
"""of each worker: the size of its queue, and the work of each task, the oldest first"""

workers = st.integers(0, 5)
works_us = st.sampled_from((0, 2, 1_000, 20_000, WORK_AHEAD_US - 1, WORK_AHEAD_US, 3_000_000))
operations = st.one_of(
    st.tuples(st.just("join"), workers, st.lists(works_us, max_size=8), st.integers(1, 6)),
    st.tuples(st.just("leave"), workers, st.just([]), st.just(0)),
    st.tuples(st.just("free"), workers, st.just([]), st.integers(0, 4)),
    st.tuples(st.just("take"), workers, st.lists(works_us, min_size=1, max_size=1), st.just(0)),
)


@given(st.lists(operations, max_size=80))
def test_a_worker_with_the_fewest_tasks_among_those_with_room_gets_the_next_one(
    story: list[tuple[str, int, list[int], int]],
) -> None:
    places: Places[int] = Places()
    model: Model = {}
    for name, worker, works, number in story:
        if name == "join":
            places.join(worker, number, len(works), sum(works))
            model[worker] = (number, list(works))
        elif name == "leave":
            places.leave(worker)
            model.pop(worker, None)
        elif name == "free":
            _, tasks = model.get(worker, (0, []))
            ended, tasks[:number] = tasks[:number], []
            places.free(worker, len(ended), sum(ended))
        else:
            free = with_room(model)
            taken = places.take(works[0])
            assert (taken is None) == (not free)
            if taken is not None:
                assert free[taken] == min(free.values())
                model[taken][1].append(works[0])
        check(places, model)


def with_room(model: Model) -> dict[int, int]:
    """Return how many tasks the workers with room have."""
    return {
        worker: len(works)
        for worker, (queue_size, works) in model.items()
        if not works or (len(works) < queue_size and sum(works) < WORK_AHEAD_US)
    }


def check(places: Places[int], model: Model) -> None:
    assert len(places) == len(model)
    loads = {worker: (len(works), sum(works)) for worker, (_, works) in model.items()}
    assert {worker: places.load(worker) for worker in model} == loads
    listed = {worker: level for level, members in enumerate(places._levels) for worker in members}
    assert listed == with_room(model)
    assert sum(map(len, places._levels)) == len(listed) == places._with_room
    assert places._lowest <= min(listed.values(), default=places._lowest)


@given(st.floats(0, 1e10) | st.none(), st.integers(0, 2**40), st.integers(1, 10_000))
def test_a_moving_mean_lies_between_the_old_one_and_that_of_the_batch(
    mean: float | None, total: int, count: int
) -> None:
    batch = total / count
    before = batch if mean is None else mean
    slack = 1e-9 * max(batch, before)
    assert min(batch, before) - slack <= moving_mean(mean, total, count) <= max(batch, before) + slack


@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 300), st.integers(0, 10_000))))
def test_functions_that_always_take_the_same_are_known_exactly(us: int, batches: list[tuple[int, int]]) -> None:
    durations = Durations()
    for count, function in batches:
        function_id = ObjectId(function.to_bytes(16, "big"))
        durations.learn(function_id, us * count, count)
        assert durations.expected_us(function_id) == us
    assert len(durations) == min(FUNCTIONS_REMEMBERED, len({function for _, function in batches}))
