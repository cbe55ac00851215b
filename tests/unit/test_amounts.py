"""Amounts of capabilities, as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.amounts import AMOUNT_MOST, CAPABILITIES_MOST, amount_of, amount_text, read_amounts, to_texts
from scaler.config import ConfigError


def test_an_amount_is_shown_in_the_largest_exact_unit() -> None:
    shown = {1: "1", 2_000: "2,000", 2**30: "1G", 3 * 2**20: "3M", 2**40 + 1: f"{2**40 + 1:,}", 1024: "1,024"}
    assert {amount: amount_text(amount, ",") for amount in shown} == shown
    assert amount_text(2**30 - 1) == "1073741823"


def test_a_name_without_an_amount_counts_one_and_units_are_powers_of_1024() -> None:
    assert read_amounts(()) == {}
    texts = ("gpu=2", "licence", "memory=64G", "disk=1TiB", "cache=3k", "swap=5MB", "größe = 7")
    assert read_amounts(texts) == {
        "gpu": 2, "licence": 1, "memory": 64 * 2**30, "disk": 2**40, "cache": 3 * 2**10, "swap": 5 * 2**20, "größe": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "name of a capability"),
        ("=1", "name of a capability"),
        ("a\nb", "printable"),
        ("n" * 300, "printable"),
        ("gpu=", "amount of the capability gpu"),
        ("gpu=0", "whole number from 1"),
        ("gpu=-1", "not '-1'"),
        ("gpu=1.5", "not '1.5'"),
        ("gpu=G", "not 'G'"),
        ("gpu=2x", "not '2x'"),
        ("gpu=²", "whole number"),
        (f"gpu={AMOUNT_MOST + 1}", "whole number"),
        (f"gpu={'9' * 5000}", "whole number"),
        ("gpu=9999999T", "whole number"),
    ],
)
def test_a_malformed_capability_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_amounts([text])


def test_repeated_and_too_many_capabilities_are_refused() -> None:
    with pytest.raises(ConfigError, match="gpu is named twice"):
        read_amounts(["gpu=1", "gpu=2"])
    with pytest.raises(ConfigError, match="at most 64"):
        read_amounts(f"c{number}" for number in range(CAPABILITIES_MOST + 1))


@pytest.mark.parametrize("amount", [True, 1.5, None, -1, [1]])
def test_an_amount_is_a_whole_number(amount: Any) -> None:
    assert amount_of("gpu", 0, 0) == 0
    with pytest.raises(ConfigError, match="amount of the capability gpu must be a whole number from 0"):
        amount_of("gpu", amount, 0)


def test_a_mapping_becomes_texts_and_a_list_stays_as_it_is() -> None:
    assert to_texts({"gpu": 2, "memory": "1G"}) == ("gpu=2", "memory=1G")
    assert to_texts(["gpu"]) == ["gpu"]
    with pytest.raises(ConfigError, match="name of a capability"):
        to_texts({"a=b": 1})
