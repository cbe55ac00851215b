"""Digests of rows and ranges."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scaler.client.jobs.comparing.row_digests import NOT_COMPARED, ROW_BYTES, RowDigests, are_plain

INFINITE = {"inf": float("inf"), "nan": float("nan")}

NANS = [INFINITE["nan"], -INFINITE["nan"], INFINITE["inf"] - INFINITE["inf"]]

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(NANS)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)

DAY = dt.date(2026, 1, 1)


def rows_of(items: list[Any]) -> list[bytes]:
    digests = RowDigests().of_rows(items)
    return [digests[at : at + ROW_BYTES] for at in range(0, len(digests), ROW_BYTES)]


@given(st.lists(st.tuples(plain, plain), max_size=5))
def test_equal_values_have_equal_digests_whether_shared_or_not(items: list[Any]) -> None:
    apart = [eval(repr(item), INFINITE) for item in items]
    shared = [(item[0], item[0]) for item in items]
    digests = RowDigests()
    assert digests.of_range(items) == digests.of_range(apart)
    assert digests.of_rows(items) == digests.of_rows(apart)
    assert digests.of_range(shared) == digests.of_range([(a[0], eval(repr(a[0]), INFINITE)) for a in items])


@given(st.lists(st.tuples(plain, st.just(DAY)), min_size=1, max_size=5))
def test_the_digest_of_a_row_does_not_depend_on_its_position(items: list[Any]) -> None:
    assert rows_of(items) == [rows_of([each])[0] for each in items]


def test_a_row_that_differs_is_found_among_others_of_each_kind() -> None:
    known = [(1, "a"), (DAY, 2), ([{"a": 1}], {3})]
    for index, other in enumerate([(1.0, "a"), (DAY, 3), ([{"a": 2}], {3})]):
        rows = [*known]
        rows[index] = other
        assert [a != b for a, b in zip(rows_of(known), rows_of(rows), strict=True)] == [at == index for at in range(3)]
        assert RowDigests().of_range(known) != RowDigests().of_range(rows)


def test_rows_that_cannot_be_compared_are_named() -> None:
    digests = RowDigests()
    rows = [(1,), ((each for each in ()),), (DAY,)]
    assert digests.of_range(rows) == b""
    assert digests.not_compared == [(1, "argument 0: a generator")]
    found = digests.of_rows(rows)
    assert found[ROW_BYTES : 2 * ROW_BYTES] == NOT_COMPARED
    assert digests.not_compared == [(1, "argument 0: a generator")]
    assert NOT_COMPARED not in rows_of([(1,), (DAY,)])
    assert digests.of_range([(1,)])
    assert digests.not_compared == []


def test_cyclic_deep_or_widely_shared_values_are_not_plain() -> None:
    within: list[Any] = []
    within += [within, within]
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    shared: Any = 1
    for _ in range(60):
        shared = [shared, shared]
    for value in (within, deep, shared):
        assert not are_plain([(value,)])
        digests = RowDigests()
        assert digests.of_range([(value,)])
        assert digests.not_compared == []
    assert are_plain([([{"a": (1, [2.0])}], None)])
    assert not are_plain([({1},)])
    assert not are_plain([({"a": {1}},)])


def test_both_digests_are_made_at_once() -> None:
    digests = RowDigests()
    for rows in ([(1, "a"), [2, "b"]], [(1, DAY), (2,)], [((each for each in ()),), (1,)], []):
        assert digests.of_both(rows) == (digests.of_range(rows), digests.of_rows(rows))
    assert digests.of_both([((each for each in ()),)])[0] == b""
    assert len(digests.not_compared) == 1
