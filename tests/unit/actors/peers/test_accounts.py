"""The numbers of clients, on whose share their work runs."""

from __future__ import annotations

from scaler.actors.peers.accounts import Accounts
from scaler.actors.peers.owners import Owner

NOBODY, OWNER = Owner(""), Owner("alice")


def test_a_new_account_has_the_lowest_number_that_is_free() -> None:
    accounts = Accounts(NOBODY)
    assert [accounts.open(client, OWNER) for client in (b"a", b"b", b"c")] == [0, 1, 2]
    accounts.close(b"a")
    accounts.close(b"b")
    assert [accounts.open(client, OWNER) for client in (b"d", b"e", b"f")] == [0, 1, 3]


def test_a_client_has_one_account_however_often_it_is_opened_or_closed() -> None:
    accounts = Accounts(NOBODY)
    assert [accounts.open(b"a", OWNER), accounts.open(b"a", OWNER)] == [0, 0]
    accounts.close(b"a")
    accounts.close(b"a")
    assert len(accounts) == 0
    assert [accounts.open(b"b", OWNER), accounts.open(b"c", OWNER)] == [0, 1]


def test_a_number_that_clients_inside_tasks_may_still_name_is_not_given_again() -> None:
    accounts = Accounts(NOBODY)
    assert [accounts.open(b"a", OWNER), accounts.open(b"b", OWNER)] == [0, 1]
    accounts.enter(b"nested")
    accounts.close(b"a")
    assert accounts.open(b"c", OWNER) == 2
    accounts.close(b"nested")
    accounts.close(b"b")
    assert [accounts.open(b"d", OWNER), accounts.open(b"e", OWNER)] == [1, 3]


def test_a_client_has_the_number_again_that_it_had_at_the_last_scheduler() -> None:
    accounts = Accounts(NOBODY)
    assert [
        accounts.open(b"a", OWNER, 3),
        accounts.open(b"b", OWNER),
        accounts.open(b"c", OWNER, 3),
        accounts.of(b"a"),
    ] == [3, 0, 1, 3]
    assert [accounts.open(b"d", OWNER), accounts.open(b"e", OWNER), accounts.open(b"f", OWNER)] == [2, 4, 5]
    accounts.close(b"a")
    accounts.close(b"b")
    assert [
        accounts.open(b"g", OWNER, 2**32 - 1),
        accounts.open(b"h", OWNER),
        accounts.open(b"i", OWNER),
        accounts.open(b"j", OWNER),
    ] == [
        2**32 - 1,
        0,
        3,
        6,
    ]
    assert accounts.of(b"a") == 0


def test_an_account_belongs_to_the_owner_of_its_client_as_long_as_it_may_be_named() -> None:
    accounts, bob = Accounts(NOBODY), Owner("bob")
    assert [accounts.open(b"a", OWNER), accounts.open(b"b", bob), accounts.open(b"c", OWNER)] == [0, 1, 2]
    assert [accounts.owner_of(number) for number in range(4)] == [OWNER, bob, OWNER, NOBODY]
    accounts.close(b"b")
    assert accounts.owner_of(1) is NOBODY
    accounts.enter(b"nested")
    accounts.close(b"a")
    assert accounts.owner_of(0) is OWNER  # its tasks may still run


def test_where_clients_take_no_turns_those_of_one_owner_have_one_account() -> None:
    accounts, bob = Accounts(NOBODY, has_turns=False), Owner("bob")
    assert [accounts.open(b"a", OWNER), accounts.open(b"b", bob), accounts.open(b"c", OWNER)] == [0, 1, 0]
    accounts.close(b"a")
    assert [accounts.owner_of(0), accounts.open(b"d", bob), accounts.of(b"c")] == [OWNER, 1, 0]
