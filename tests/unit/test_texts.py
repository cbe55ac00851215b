from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import json
import pathlib
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.texts import (
    ARGUMENTS_CHARACTERS,
    JSON_BYTES,
    JSON_DEPTH,
    SHOWN_CHARACTERS,
    counted,
    described,
    escaped,
    printable,
    read_json,
    shown,
    signature,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("worker-1 (é, 日本, 🙂)", "worker-1 (é, 日本, 🙂)"),
        ("a\nb\r\x1b[2J\x00", r"a\nb\r\x1b[2J\x00"),
        ("\u202eevil\u2028\ud800", r"\u202eevil\u2028\ud800"),
        ("x" * 24, "x" * 24),
        ("x" * 25, "x" * 21 + "..."),
        ("\n" * 13, r"\n\n\n\n\n\n\n\n\n\n" + "\\..."),
    ],
)
def test_unprintable_characters_are_escaped_and_long_texts_are_cut(text: str, shown: str) -> None:
    assert printable(text, 24) == shown


@given(st.text(st.characters(exclude_categories=())), st.integers(3, 40))
def test_a_shown_text_is_one_short_line_and_showing_it_again_changes_nothing(text: str, most: int) -> None:
    shown = printable(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    assert printable(shown, most) == shown


def test_escaped_keeps_the_given_characters() -> None:
    assert escaped("a\n\tb", "\n") == "a\n\\tb"


class Ends:
    """A value whose texts end the program; it cannot be sorted either."""

    def __repr__(self) -> NoReturn:
        raise SystemExit(3)

    __str__ = __format__ = __repr__

    def __lt__(self, _other: object) -> NoReturn:
        raise SystemExit(4)


class Error(ValueError):
    def __str__(self) -> NoReturn:
        raise SystemExit(5)


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    strike: float
    model: object
    seen: int = dataclasses.field(default=0, repr=False)


class Pair(NamedTuple):
    left: object
    right: object


class Colour(enum.Enum):
    RED = 1


SHOWN_AS: list[tuple[object, str]] = [
    (None, "None"),
    ((1,), "(1,)"),
    (set(), "set()"),
    ({"a": [1.5, b"c"]}, "{'a': [1.5, b'c']}"),
    (collections.Counter("aab"), "Counter({'a': 2, 'b': 1})"),
    (pathlib.PurePosixPath("/tmp/a"), "PurePosixPath('/tmp/a')"),
    (dt.date(2024, 1, 31), "datetime.date(2024, 1, 31)"),
    (np.arange(3), "array([0, 1, 2])"),
    (np.zeros((1000, 3)), "<ndarray of float64, shape (1000, 3)>"),
    (np.array([Ends()]), "<ndarray of object, shape (1,)>"),
    (Ends(), "<Ends object>"),
    ({Ends()}, "{<Ends object>}"),
    (Pair(1, Ends()), "Pair(left=1, right=<Ends object>)"),
    (Option(2.5, Ends(), 7), "Option(strike=2.5, model=<Ends object>)"),
    (Colour.RED, "Colour.RED"),
    (Ends, f"<class '{__name__}.Ends'>"),
    (len, "<function len>"),
    ([[[[[[1]]]]]], "[[[[[...]]]]]"),
    (list(range(9)), "[0, 1, 2, 3, 4, 5, ...]"),
    (10**10_000, "<int of 33,220 bits>"),
    (object.__new__(Option), "<Option object>"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN_AS, ids=[text for _value, text in SHOWN_AS])
def test_a_value_is_shown_without_code_of_its_class(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    "value", ["x" * 10_000, b"x" * 10_000, [["x" * 50] * 10] * 10, dict.fromkeys(range(10_000), 0)]
)
def test_the_shown_text_of_a_value_is_short(value: Any) -> None:
    assert len(shown(value)) <= SHOWN_CHARACTERS < ARGUMENTS_CHARACTERS


def test_an_exception_whose_text_ends_the_program_is_described_by_its_class() -> None:
    assert described(ValueError("no")) == "ValueError: no"
    assert described(Error()) == "Error: its text cannot be shown, because its __str__ fails"


@pytest.mark.parametrize(("number", "text"), [(0, "0 tasks"), (1, "1 task"), (2000, "2,000 tasks")])
def test_a_number_of_things_has_the_right_noun(number: int, text: str) -> None:
    assert counted(number, "task") == text


def test_messages_of_one_kind_differ_in_numbers_and_workers_and_not_in_exit_codes() -> None:
    one = "the processor of worker w-1 died: process 13189 at 0x7f12, exit code 13"
    assert signature(one, "w-1") == "the processor of worker # died: process # at #, exit code 13"
    assert signature("bad strike 17") == "bad strike #"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=JSON_DEPTH,
)


@given(JSON_VALUES)
def test_json_of_other_processes_is_read(value: object) -> None:
    assert read_json(json.dumps([value])) == [value]
    assert read_json(json.dumps({"a": value}, ensure_ascii=False).encode()) == {"a": value}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000 + "]" * 100_000, "nests more than"),
        ("[" * 4_000, "nests more than"),
        ('{"a":' * (JSON_DEPTH + 1) + "1" + "}" * (JSON_DEPTH + 1), "nests more than"),
        ("[" * (JSON_DEPTH + 1) + "]" * (JSON_DEPTH + 1), "nests more than"),
        ("NaN", "not finite"),
        ('{"a": -Infinity}', "not finite"),
        ("[1e400]", "not finite"),
        ("1" * 400, "more than 64 bits"),
        ("1" * 5_000, "more than 64 bits"),
        (str(2**63), "more than 64 bits"),
        (str(-(2**63) - 1), "more than 64 bits"),
        (r'"\ud800"', "surrogates not allowed"),
        (r'{"\udfff": 1}', "surrogates not allowed"),
        (b'"\xed\xa0\x80"', "codec can't decode"),
        ('"a"'.encode("utf-16"), "codec can't decode"),
        (b'"' + b"x" * JSON_BYTES + b'"', "are accepted"),
        ("[1,", "Expecting value"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_deep_large_infinite_or_no_text_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_json(text)


def test_json_of_the_greatest_depth_is_read() -> None:
    assert read_json("[" * JSON_DEPTH + "]" * JSON_DEPTH)
