"""Dask collections on Scaler: the same values as with dask's own threads, and dask's tests for any scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo, SerializeObjectError
from tests.bridges.needs import needs

dask = needs("dask")
pytestmark = [pytest.mark.more, pytest.mark.processes]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    import scaler.integrations.dask

    with SchedulerClusterCombo(2, logging_level="WARNING") as cluster, Client(cluster.get_address()) as client:
        yield scaler.integrations.dask.get(client)


def compute(collection: Any, scheduler: Any) -> tuple[Any, Any]:
    """The values of ours and of dask's threads."""
    return collection.compute(scheduler=scheduler), collection.compute(scheduler="threads")


def test_delayed(scheduler: Any) -> None:
    def half(number: int) -> float:
        return number / 2

    calls = [dask.delayed(half)(number) for number in range(200)]
    ours, theirs = compute(dask.delayed(sum)(calls), scheduler)
    assert ours == theirs == 9950.0
    nested = dask.delayed(lambda pair: pair["a"] + sum(pair["b"]))({"a": calls[2], "b": [calls[4], calls[6]]})
    assert compute(nested, scheduler) == (6.0, 6.0)


def test_array(scheduler: Any) -> None:
    array = needs("dask.array")
    values = array.random.default_rng(0).random((400, 400), chunks=(100, 100))
    ours, theirs = compute((values @ values.T + values).sum(axis=0), scheduler)
    assert (abs(ours - theirs) < 1e-9).all()
    _, ours, _ = dask.compute(*array.linalg.svd(values.rechunk((100, 400))), scheduler=scheduler)
    _, theirs, _ = dask.compute(*array.linalg.svd(values.rechunk((100, 400))), scheduler="threads")
    assert (abs(ours - theirs) < 1e-6).all()


def test_bag(scheduler: Any) -> None:
    bag = needs("dask.bag")
    words = bag.from_sequence(["ab", "ba", "ab", "c"] * 25, npartitions=5)
    ours, theirs = compute(words.frequencies().topk(2, key=1), scheduler)
    assert sorted(ours) == sorted(theirs)
    assert compute(words.map(len).filter(lambda length: length > 1).sum(), scheduler) == (150, 150)


def test_dataframe(scheduler: Any) -> None:
    dataframe, pandas = needs("dask.dataframe"), needs("pandas")
    table = pandas.DataFrame({"key": [number % 7 for number in range(1000)], "value": range(1000)})
    frame = dataframe.from_pandas(table, npartitions=8)
    ours, theirs = compute(frame.groupby("key").value.agg(["mean", "std"]), scheduler)
    pandas.testing.assert_frame_equal(ours.sort_index(), theirs.sort_index())
    other = dataframe.from_pandas(table.assign(value=1), npartitions=3)
    ours, theirs = compute(frame.merge(other, on="key").value_x.sum(), scheduler)
    assert ours == theirs


def test_an_exception_of_a_task_is_raised_as_it_is(scheduler: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        dask.delayed(divmod)(1, 0).compute(scheduler=scheduler)


def test_errors_name_the_node_as_dask_does(scheduler: Any) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        dask.delayed(abs)(dask.delayed(divmod)(1, 0, dask_key_name="split"), dask_key_name="size").compute(
            scheduler=scheduler, optimize_graph=False
        )
    assert "task split, which task size needs:" in str(caught.value.__cause__)
    same = {"1": (abs, -1), 1: (abs, "1")}
    assert scheduler(same, [1]) == (1,)


def test_the_client_may_have_options(scheduler: Any) -> None:
    import scaler.integrations.dask

    with Client() as client:
        get = scaler.integrations.dask.get(client.options(priority=1))
        assert dask.delayed(abs)(-1).compute(scheduler=get) == 1


def test_values_of_other_tasks_are_copies(scheduler: Any) -> None:
    mine = object()
    assert dask.delayed(lambda pair: pair[0])((mine, 1)).compute(scheduler=scheduler) is not mine
    assert dask.delayed(lambda pair: pair[0])((mine, 1)).compute(scheduler="threads") is mine


def test_what_a_task_sets_in_its_process_is_not_set_in_the_program(scheduler: Any) -> None:
    calls: list[int] = []
    dask.delayed(calls.append)(1).compute(scheduler=scheduler)
    assert calls == []


def test_a_generator_is_no_value_of_a_task(scheduler: Any) -> None:
    numbers = dask.delayed(lambda: (number for number in range(3)))()
    with pytest.raises(SerializeObjectError, match="generator"):
        dask.delayed(sum)(numbers).compute(scheduler=scheduler, optimize_graph=False)


def test_the_scheduler_interface_of_dask(scheduler: Any) -> None:
    from dask.utils_test import GetFunctionTestMixin

    class Suite(GetFunctionTestMixin):
        get = staticmethod(scheduler)

    suite = Suite()
    tests = [name for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 8
    for name in tests:
        getattr(suite, name)()
