"""The list of allowed keys, as people write it."""

from __future__ import annotations

from datetime import date

import pytest

from scaler.config import ConfigError
from scaler.keys.allowed import AllowedKey, AllowedKeys, OwnerTerms, amount_of
from scaler.keys.folder import KeyPair

TODAY = date(2026, 11, 23)
KEY, OTHER = KeyPair.new().public, KeyPair.new().public


def test_a_list_of_allowed_keys_is_read_as_it_was_written() -> None:
    keys = [
        AllowedKey("client", "alice", KEY, until=date(2027, 1, 1)),
        AllowedKey("worker", "node-7", OTHER, OwnerTerms(2, 100_000, 20 * 2**30), revoked=TODAY),
    ]
    allowed = AllowedKeys.parse(str(AllowedKeys(keys)))
    assert list(allowed.values()) == keys
    assert allowed[KEY].name == "alice"


def test_empty_lines_and_comments_are_ignored() -> None:
    assert len(AllowedKeys.parse("")) == 0
    assert list(AllowedKeys.parse(f"\n  # alice left\n   client   bob\t{KEY}  \n")) == [KEY]


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    assert not AllowedKeys.parse(f"# alice left{separator}client alice {KEY}\r\n")
    assert list(AllowedKeys.parse(f"# both\r\nclient alice {KEY}\r\nclient bob {OTHER}\r\n")) == [KEY, OTHER]
    with pytest.raises(ConfigError, match=r"^line 2: unknown option 'client'"):
        AllowedKeys.parse(f"# bob\nclient bob {OTHER}{separator}client alice {KEY}\n")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("root alice KEY", "'root' is not a role: use client, worker, monitor or admin"),
        ("client alice short", "the text after the name alice is not a public key"),
        ("client alice", "the text after the name alice is not a public key"),
        ("client a/b KEY", "cannot be the name"),
        ("client alice KEY jobs=5", "unknown option 'jobs=5': use share=, tasks=, bytes=, until=, revoked="),
        ("client alice KEY until=soon", "until: 'soon' is not a date"),
        ("client alice KEY share=0", "share: '0' is not a whole number from 1 to 100"),
        ("client alice KEY share=101", "share: '101' is not a"),
        ("client alice KEY share=" + "1" * 5000, "share: '1{10,}[.]{3}1+' is not a whole number from 1 to 100$"),
        ("client alice KEY tasks=" + "1" * 5000 + "K", "tasks: it must be .*, not '1{10,}[.]{3}1+K'$"),
        ("client alice KEY tasks=0", "tasks: '0' is not between 1 and 8192T"),
        ("client alice KEY tasks=8193T", "tasks: '8193T' is not between 1 and 8192T"),
        ("client alice KEY until=" + "1" * 5000, "until: '1{10,}[.]{3}1+' is not a date"),
        ("x" * 5000 + " alice KEY", "'x+[.]{3}x+' is not a role"),
        ("client " + "x" * 5000 + " KEY", "'x+[.]{3}x+' cannot be the name"),
        ("client alice KEY tasks=1.5", "tasks: it must be a whole number, or .*, not '1.5'"),
        ("client alice KEY bytes=G", "bytes: it must be .*, not 'G'"),
        ("client alice KEY until=2027-01-01 5", "unknown option '5'"),
    ],
)
def test_a_bad_line_is_refused_and_named(line: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^line 2: .*{text}"):
        AllowedKeys.parse(f"client bob {OTHER}\n{line.replace('KEY', KEY)}\n")


def test_a_key_that_is_on_the_list_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="line 2: the key of bob is on the list twice"):
        AllowedKeys.parse(f"client alice {KEY}\nclient bob {KEY}\n")


def test_a_key_is_valid_until_the_end_of_its_last_day() -> None:
    key = AllowedKey("client", "alice", KEY, until=TODAY)
    assert key.why_invalid(TODAY) == ""
    assert key.why_invalid(date(2026, 11, 24)) == "it was valid until 2026-11-23"
    assert "revoked on 2026-11-23" in AllowedKey("client", "alice", KEY, revoked=TODAY).why_invalid(TODAY)


def test_only_valid_keys_of_a_name_are_found() -> None:
    old, new = AllowedKey("client", "alice", KEY, revoked=TODAY), AllowedKey("client", "alice", OTHER)
    assert AllowedKeys([old, new]).named("alice", TODAY) == [new]
    assert AllowedKeys([old]).named("alice", TODAY) == []


@pytest.mark.parametrize(
    ("text", "amount"), [("1", 1), ("1025", 1025), ("1k", 2**10), ("3M", 3 * 2**20), ("20G", 20 * 2**30), ("8T", 2**43)]
)
def test_amounts_are_written_as_they_are_read(text: str, amount: int) -> None:
    assert amount_of(text) == amount
    assert f"bytes={text.upper()}" in str(AllowedKey("client", "alice", KEY, OwnerTerms(n_bytes=amount)))


OVER, REVOKED = "until=2027-01-01", "revoked=2026-12-31"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["client eve"], None),
        (["admin eve", f"client eve {REVOKED}"], None),
        ([f"client eve {OVER}", "worker eve"], None),
        (["client bob"], "no key that may submit is on the list"),
        (["monitor eve"], "no key that may submit is on the list"),
        ([f"client eve {REVOKED}", "monitor eve"], "it was revoked on 2026-12-31"),
        ([f"client eve {REVOKED}"], "it was revoked on 2026-12-31"),
        ([f"client eve {OVER}"], "it was valid until 2027-01-01"),
        ([f"client eve {REVOKED}", f"client eve {OVER}"], "it was valid until 2027-01-01"),
        ([f"client eve {OVER}", "client eve revoked=2027-01-02"], "it was revoked on 2027-01-02"),
    ],
)
def test_an_owner_is_locked_out_without_a_valid_key_that_may_submit(lines: list[str], reason: str | None) -> None:
    parts = [line.split() for line in lines]
    text = "\n".join(" ".join([*each[:2], letter * 40, *each[2:]]) for letter, each in zip("abc", parts, strict=False))
    lockout = AllowedKeys.parse(text).lockout_of("eve", date(2027, 1, 2), ("client", "worker", "admin"))
    if reason is None:
        assert lockout is None
    else:
        assert lockout is not None
        assert (
            lockout.reason
            == f"its owner, eve, has no valid key: {reason}. Allow a key with that name, and it continues"
        )
        assert lockout.is_expiry is reason.startswith("it was valid")
