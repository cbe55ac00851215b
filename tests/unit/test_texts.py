from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.texts import JSON_BYTES, JSON_DEPTH, counted, escaped, printable, read_json, signature


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
def test_what_is_not_printable_is_escaped_and_what_is_too_long_is_cut(text: str, shown: str) -> None:
    assert printable(text, 24) == shown


@given(st.text(st.characters(exclude_categories=())), st.integers(3, 40))
def test_a_shown_text_is_one_short_line_and_stays_as_it_is(text: str, most: int) -> None:
    shown = printable(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    assert printable(shown, most) == shown


def test_some_characters_may_stay() -> None:
    assert escaped("a\n\tb", "\n") == "a\n\\tb"


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
        (b'"' + b"x" * JSON_BYTES + b'"', "may have"),
        ("[1,", "Expecting value"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_deep_large_infinite_or_no_text_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_json(text)


def test_json_of_the_greatest_depth_is_read() -> None:
    assert read_json("[" * JSON_DEPTH + "]" * JSON_DEPTH)
