"""The numbers of clients, on whose share their work runs."""

from __future__ import annotations

from scaler.actors.peers.accounts import Accounts


def test_a_new_account_has_the_lowest_number_that_is_free() -> None:
    accounts = Accounts()
    assert [accounts.open(client) for client in (b"a", b"b", b"c")] == [0, 1, 2]
    accounts.close(b"a")
    accounts.close(b"b")
    assert [accounts.open(client) for client in (b"d", b"e", b"f")] == [0, 1, 3]


def test_a_client_has_one_account_however_often_it_is_opened_or_closed() -> None:
    accounts = Accounts()
    assert [accounts.open(b"a"), accounts.open(b"a")] == [0, 0]
    accounts.close(b"a")
    accounts.close(b"a")
    assert len(accounts) == 0
    assert [accounts.open(b"b"), accounts.open(b"c")] == [0, 1]


def test_a_number_that_clients_inside_tasks_may_still_name_is_not_given_again() -> None:
    accounts = Accounts()
    assert [accounts.open(b"a"), accounts.open(b"b")] == [0, 1]
    accounts.enter(b"nested")
    accounts.close(b"a")
    assert accounts.open(b"c") == 2
    accounts.close(b"nested")
    accounts.close(b"b")
    assert [accounts.open(b"d"), accounts.open(b"e")] == [1, 3]


def test_a_client_has_the_number_again_that_it_had_at_the_last_scheduler() -> None:
    accounts = Accounts()
    assert [accounts.open(b"a", 3), accounts.open(b"b"), accounts.open(b"c", 3), accounts.of(b"a")] == [3, 0, 1, 3]
    assert [accounts.open(b"d"), accounts.open(b"e"), accounts.open(b"f")] == [2, 4, 5]
    accounts.close(b"a")
    accounts.close(b"b")
    assert [accounts.open(b"g", 2**32 - 1), accounts.open(b"h"), accounts.open(b"i"), accounts.open(b"j")] == [
        2**32 - 1,
        0,
        3,
        6,
    ]
    assert accounts.of(b"a") == 0
