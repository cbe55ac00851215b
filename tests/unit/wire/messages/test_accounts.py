"""Accounts in messages: their two parts, and tags of owners that are the same at each scheduler."""

from __future__ import annotations

from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.accounts import NUMBER_MOST, account_in, account_of, number_of, owner_of, tag_of
from scaler.wire.messages.client import Task


def test_an_account_keeps_its_owner_tag_and_number() -> None:
    for tag in (0, 1, tag_of("alice"), 2**64 - 1):
        for number in (0, 7, NUMBER_MOST):
            account = account_of(tag, number)
            assert (owner_of(account), number_of(account)) == (tag, number)
            task = Task(TaskId(bytes(16)), ObjectId(bytes(16)), b"", b"", account=number, owner=tag)
            assert account_in(task) == account


def test_a_tag_depends_on_the_name_alone() -> None:
    assert tag_of("alice") == int.from_bytes(bytes.fromhex("4deaec0cce54da89"), "little")
    assert tag_of("") == 0
    assert len({tag_of(f"owner{number}") for number in range(10_000)}) == 10_000
