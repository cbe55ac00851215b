"""parfun, as it is published, on Scaler: its back-ends `scaler_local` and `scaler_remote`, which import the 1.x names.

Its main uses: each has the value that it has in one process. Its own tests are in `test_theirs.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bridges.needs import needs

parfun = needs("parfun")
pandas = needs("pandas")
pytestmark = [pytest.mark.more, pytest.mark.processes]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of parfun's own, with which all runs from here on."""
    own = {"n_workers": 2, "logging_level": "WARNING", "preload": ["parfun", "pandas"]}
    with parfun.set_parallel_backend_context("scaler_local", **own):
        yield parfun.get_parallel_backend().get_scheduler_address()


def by_chunk(size: int) -> dict[str, Any]:
    return {
        "split": parfun.per_argument(values=parfun.py_list.by_chunk),
        "combine_with": parfun.py_list.concat,
        "fixed_partition_size": size,
    }


@parfun.parallel(**by_chunk(10))
def scaled(values: list[int], factor: int) -> list[int]:
    return [value * factor for value in values]


@parfun.parallel(**by_chunk(10))
def with_processes(values: list[int]) -> list[tuple[int, int]]:
    return [(os.getpid(), value) for value in values]


@parfun.parallel(**by_chunk(10))
def failing(values: list[int]) -> list[int]:
    if 25 in values:
        raise ValueError("25 is bad")
    return list(values)


@parfun.parallel(**by_chunk(10))
def nested(values: list[int]) -> list[int]:
    return [sum(scaled(list(range(value, value + 20)), 2)) for value in values[:1]]


@parfun.parallel(
    split=parfun.per_argument(left=parfun.dataframe.by_row, right=parfun.dataframe.by_row),
    combine_with=parfun.dataframe.concat,
    fixed_partition_size=100,
)
def added(left: Any, right: Any) -> Any:
    return left + right


@pytest.mark.usefixtures("address")
class TestParfun:
    def test_lists_are_split_and_put_together(self) -> None:
        assert scaled(list(range(95)), 3) == [3 * value for value in range(95)]

    def test_the_parts_run_in_other_processes(self) -> None:
        found = with_processes(list(range(40)))
        assert [value for _, value in found] == list(range(40))
        assert os.getpid() not in {pid for pid, _ in found}

    def test_data_frames_are_split_by_row(self) -> None:
        frame = pandas.DataFrame({"a": range(450), "b": range(450, 900)})
        pandas.testing.assert_frame_equal(added(frame, frame), frame * 2)

    def test_an_exception_of_a_part_arrives(self) -> None:
        with pytest.raises(ValueError, match="25 is bad"):
            failing(list(range(40)))

    def test_parts_split_their_work_further(self) -> None:
        assert nested(list(range(20))) == [sum(2 * n for n in range(20)), sum(2 * n for n in range(10, 30))]


def test_an_existing_cluster_is_used(address: str) -> None:
    with parfun.set_parallel_backend_context("scaler_remote", scheduler_address=address, n_workers=2):
        assert scaled(list(range(30)), 2) == list(range(0, 60, 2))
