"""The capabilities of a node, as the text of its hello."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.amounts import AMOUNT_MOST
from scaler.config import ConfigError
from scaler.wire.messages.capabilities import from_text, to_text


@pytest.mark.parametrize("capabilities", [{}, {"gpu": 2}, {"licence of ours": AMOUNT_MOST, "gpu": 1, "größer": 3}])
def test_capabilities_survive_encoding(capabilities: dict[str, int]) -> None:
    assert dict(from_text(to_text(capabilities))) == capabilities


@pytest.mark.parametrize(
    ("capabilities", "why"),
    [
        ({"": 1}, "name of a capability must be a printable str"),
        ({"a,b": 1}, "without ',' and '='"),
        ({"a=b": 1}, "without ',' and '='"),
        ({"gpu": 0}, "amount of the capability gpu must be a whole number from 1, .* not 0"),
        ({"gpu": -1}, "not -1"),
        ({"gpu": 1.5}, "not 1.5"),
        ({"gpu": True}, "not True"),
        ({"gpu": AMOUNT_MOST + 1}, "whole number"),
    ],
)
def test_capabilities_that_could_not_be_read_are_not_written(capabilities: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        to_text(capabilities)


@pytest.mark.parametrize("text", ["", ",", "=", "=1", "gpu", "gpu=", "gpu=x", "gpu=-1", "gpu=0", "gpu=1.5", "gpu=²"])
def test_malformed_capabilities_of_a_peer_are_ignored(text: str) -> None:
    assert from_text(text) == ()
    assert from_text(f"licence=1,{text}") == (("licence", 1),)


def test_a_huge_amount_is_limited_to_the_maximum() -> None:
    assert from_text(f"a={AMOUNT_MOST + 1},b={'9' * 5000}") == (("a", AMOUNT_MOST),)
