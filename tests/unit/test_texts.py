from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.texts import counted, escaped, printable, signature


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
