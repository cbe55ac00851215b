"""What a peer may connect as with the key of its owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.vocabulary.hellos import HeldRun, held_by, is_admin, wrong_key, wrong_owner
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import NO_ID, ClientId, TaskId, random_id
from scaler.keys.allowed import AllowedKey
from scaler.keys.folder import KeyPair
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.rows import row_ids
from scaler.wire.messages.worker import HELD_RUN, WorkerHello

CLIENT = ClientHello(1, "1.0", "3.11.7", "3.0", ClientId(random_id()), NO_ID, 0)
NESTED = ClientHello(1, "1.0", "3.11.7", "3.0", ClientId(random_id()), random_id(), 1)
AGENT = WorkerHello(1, "1.0", "3.11.7", "3.0", random_id(), "a,b", b"", random_id())


def permit(role: str) -> AllowedKey:
    return AllowedKey(role, "alice", KeyPair.new().public)


@pytest.mark.parametrize(
    ("role", "good"),
    [("client", [CLIENT]), ("admin", [CLIENT]), ("worker", [AGENT, NESTED]), ("monitor", [])],
)
def test_a_key_permits_the_connections_of_its_role_only(role: str, good: list[ClientHello | WorkerHello]) -> None:
    """A nested client shows the token of its agent, which is checked afterwards."""
    for hello in (CLIENT, NESTED, AGENT):
        reason = wrong_key(permit(role), hello)
        assert (not reason) == (hello in good), (role, hello)
        if reason:
            assert f"the key of alice has the role {role}" in reason


def test_only_the_owner_that_started_a_session_may_resume_it() -> None:
    alice, bob = Owner("alice"), Owner("bob")
    assert wrong_owner(alice, None) == wrong_owner(alice, alice) == ""
    assert wrong_owner(bob, alice) == "its id is in use by a peer that does not belong to bob"


def test_without_keys_a_peer_may_connect_as_client_or_agent() -> None:
    assert wrong_key(None, CLIENT) == wrong_key(None, AGENT) == ""


@pytest.mark.parametrize(
    ("role", "good"), [("client", []), ("admin", [CLIENT]), ("worker", []), ("monitor", []), (None, [CLIENT])]
)
def test_an_admin_is_a_root_client_with_an_admin_key_or_without_keys(role: str | None, good: list[ClientHello]) -> None:
    for hello in (CLIENT, NESTED, AGENT):
        assert is_admin(None if role is None else permit(role), hello) == (hello in good), (role, hello)


def test_each_row_of_a_range_in_a_hello_is_held_once() -> None:
    """Of a range that has ended early, the running row is named alone, and with the rows before."""
    first = TaskId(b"prefix--" + bytes(8))
    rows = row_ids(first, 3)
    records = [(rows[2], 7, 1, 0), (first, 7, 1, 3), (rows[0], 8, 0, 0)]
    hello = replace(AGENT, held=b"".join(HELD_RUN.pack(*record) for record in records))
    ranges = [HeldRun(row, 7, 1, 0, is_row=True) for row in rows]
    assert sorted(held_by(hello)) == sorted([*ranges, HeldRun(rows[0], 8, 0, 0)])
