"""WorkerLoads against a model that simply looks at all workers; what is said about durations."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from scaler.actors.policy.placement import FUNCTIONS_REMEMBERED
from scaler.actors.policy.worker_loads import WORK_AHEAD_US, WorkerLoads, tasks_to_recall
from scaler.durations import Durations, moving_mean
from scaler.ids import ObjectId

Model = dict[int, tuple[int, list[int]]]
"""of each worker: the size of its queue, and the work of each task, the oldest first"""

workers = st.integers(0, 5)
works_us = st.sampled_from((0, 2, 1_000, 20_000, WORK_AHEAD_US - 1, WORK_AHEAD_US, 3_000_000))
operations = st.one_of(
    st.tuples(st.just("join"), workers, st.lists(works_us, max_size=8), st.integers(1, 6)),
    st.tuples(st.just("leave"), workers, st.just([]), st.just(0)),
    st.tuples(st.just("free"), workers, st.just([]), st.integers(0, 4)),
    st.tuples(st.just("give back"), workers, st.just([]), st.integers(0, 4)),
    st.tuples(st.just("level"), workers, st.just([]), st.just(0)),
    st.tuples(st.just("take"), workers, st.lists(works_us, min_size=1, max_size=1), st.just(0)),
    st.tuples(st.just("take near"), workers, st.lists(works_us, min_size=1, max_size=1), st.just(0)),
)


@given(st.lists(operations, max_size=80))
def test_a_worker_with_the_fewest_tasks_among_those_with_room_gets_the_next_one(
    story: list[tuple[str, int, list[int], int]],
) -> None:
    loads: WorkerLoads = WorkerLoads()
    model: Model = {}
    held: set[int] = set()
    for name, worker, works, number in story:
        if name == "join":
            loads.join(worker, number, len(works), sum(works), host=worker % 2)
            model[worker] = (number, list(works))
            held.discard(worker)
        elif name == "leave":
            loads.leave(worker)
            model.pop(worker, None)
            held.discard(worker)
        elif name == "free":
            _, tasks = model.get(worker, (0, []))
            ended, tasks[:number] = tasks[:number], []
            loads.free(worker, len(ended), sum(ended))
            held.discard(worker)
        elif name == "give back":
            _, tasks = model.get(worker, (0, []))
            given, tasks[1:] = tasks[1:], []
            loads.remove_recalled(worker, len(given), sum(given))
        elif name == "level":
            held |= loads.level({}).keys()
        else:
            free = with_room(model, held)
            beside = {each: tasks for each, tasks in free.items() if each % 2 == worker % 2}
            if name == "take near" and worker in model and beside:
                free = beside
            assert bool(loads.with_room) == bool(free)
            if free:
                taken = loads.take_near(worker, works[0]) if name == "take near" else loads.take(works[0])
                assert free[taken] == min(free.values())
                model[taken][1].append(works[0])
        check(loads, model, held)


def with_room(model: Model, held: set[int]) -> dict[int, int]:
    """Return how many tasks the workers with room have."""
    return {
        worker: len(works)
        for worker, (queue_size, works) in model.items()
        if not works or (len(works) < queue_size and sum(works) < WORK_AHEAD_US and worker not in held)
    }


def check(loads: WorkerLoads, model: Model, held: set[int]) -> None:
    assert len(loads) == len(model)
    expected = {worker: (len(works), sum(works)) for worker, (_, works) in model.items()}
    assert {worker: loads.load(worker) for worker in model} == expected
    listed = {worker: level for level, members in enumerate(loads._levels) for worker in members}
    assert listed == with_room(model, held)
    assert sum(map(len, loads._levels)) == len(listed) == loads.with_room
    assert loads._lowest <= min(listed.values(), default=loads._lowest)
    counts = [tasks for tasks, _ in expected.values()]
    assert loads.has_waiting() == any(tasks > 1 for tasks in counts)
    assert loads.is_uneven() == (0 in counts and any(tasks > 1 for tasks in counts))
    assert loads.free_places() == sum(max(0, size - len(works)) for size, works in model.values())


loads = st.lists(st.tuples(st.integers(0, 50) | st.sampled_from((0, 3, 4, 1000)), st.booleans()), max_size=12)
LOADS_OF_A_LOOP = [(tasks, False) for tasks in (0, 0, 3, 3, 3, 4)]


@given(loads, st.data())
@example(LOADS_OF_A_LOOP, None)
def test_rounds_end_and_never_make_it_worse_even_if_no_task_ever_ends(
    loads: list[tuple[int, bool]], data: st.DataObject | None
) -> None:
    """What was given back waits, and goes to idle workers, one task each, as tasks of a doubted function do."""
    waiting = 0
    while any(given := tasks_to_recall(loads)):
        assert any(tasks == 0 for tasks, _ in loads)
        before = [tasks for tasks, _ in loads]
        after = [tasks - number for tasks, number in zip(before, given, strict=True)]
        assert all(number >= 0 for number in given)
        assert all(left >= 1 for left, number in zip(after, given, strict=True) if number)  # what runs stays
        waiting += sum(given)
        for place, tasks in enumerate(after):
            if not tasks and waiting:
                after[place] = 1
                waiting -= 1
        assert max(after) <= max(before)
        assert min(after) >= min(before)
        assert behind(after) < behind(before)
        stuck = data.draw(st.lists(st.booleans(), min_size=len(after), max_size=len(after))) if data else [False] * 6
        loads = list(zip(after, stuck, strict=True))


def behind(tasks: list[int]) -> int:
    """Return how many tasks wait behind others."""
    return sum(max(0, number - 1) for number in tasks)


@given(loads)
@example(LOADS_OF_A_LOOP)
def test_one_round_levels_workers_that_are_not_stuck(loads: list[tuple[int, bool]]) -> None:
    loads = [(tasks, False) for tasks, _ in loads]
    given = tasks_to_recall(loads)
    after = [tasks - number for (tasks, _), number in zip(loads, given, strict=True)]
    for _ in range(sum(given)):
        after[after.index(min(after))] += 1
    if any(tasks == 0 for tasks, _ in loads):
        assert max(after) - min(after) <= 1
    assert not any(tasks_to_recall([(tasks, False) for tasks in after]))


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
    durations = Durations(WORK_AHEAD_US, FUNCTIONS_REMEMBERED)
    for count, function in batches:
        function_id = ObjectId(function.to_bytes(16, "big"))
        durations.learn(function_id, us * count, count)
        assert durations.expected_us(function_id) == us
    assert len(durations) == min(FUNCTIONS_REMEMBERED, len({function for _, function in batches}))
