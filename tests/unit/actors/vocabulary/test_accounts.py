"""The accounts of clients: their owners and their numbers."""

from __future__ import annotations

from scaler.actors.vocabulary.accounts import Accounts
from scaler.actors.vocabulary.owners import UNNAMED_MOST, Owner, Owners
from scaler.wire.messages.accounts import account_of, number_of, tag_of


class Scene:
    """Accounts of two owners."""

    def __init__(self, has_turns: bool = True) -> None:
        self.owners = Owners()
        self.accounts = Accounts(self.owners, has_turns)
        self.alice, self.eve = self.owners.of("alice"), self.owners.of("eve")

    def open(self, *clients: bytes, owner: Owner | None = None, last: int | None = None) -> list[int]:
        """Return the account numbers of clients, which belong to alice unless `owner` is given."""
        return [number_of(self.accounts.open(client, owner or self.alice, last)) for client in clients]


def test_a_new_account_has_the_lowest_number_that_is_free() -> None:
    scene = Scene()
    assert scene.open(b"a", b"b", b"c") == [0, 1, 2]
    scene.accounts.close(b"a")
    scene.accounts.close(b"b")
    assert scene.open(b"d", b"e", b"f") == [0, 1, 3]


def test_each_owner_has_numbers_of_its_own_and_the_first_is_0() -> None:
    scene = Scene()
    assert scene.open(b"a", b"b") == [0, 1]
    assert scene.open(b"c", owner=scene.eve) == [0]
    assert scene.open(b"d", owner=scene.owners.nobody) == [0]
    assert scene.accounts.of(b"d") == 0, "no byte of a message"
    assert len({scene.accounts.of(client) for client in (b"a", b"b", b"c", b"d")}) == 4
    assert scene.accounts.owner_of(scene.accounts.of(b"c")) is scene.eve


def test_opening_or_closing_an_account_twice_changes_nothing() -> None:
    scene = Scene()
    assert scene.open(b"a", b"a") == [0, 0]
    scene.accounts.close(b"a")
    scene.accounts.close(b"a")
    assert len(scene.accounts) == 0
    assert scene.open(b"b", b"c") == [0, 1]


def test_an_account_number_that_nested_clients_may_still_name_is_not_reused() -> None:
    scene = Scene()
    assert scene.open(b"a", b"b") == [0, 1]
    scene.accounts.enter(b"nested")
    scene.accounts.close(b"a")
    assert scene.open(b"c") == [2]
    scene.accounts.close(b"nested")
    scene.accounts.close(b"b")
    assert scene.open(b"d", b"e") == [1, 3]


def test_a_client_keeps_the_account_number_that_it_had_at_the_last_scheduler() -> None:
    scene = Scene()
    assert [*scene.open(b"a", last=3), *scene.open(b"b"), *scene.open(b"c", last=3)] == [3, 0, 1]
    assert scene.open(b"d", b"e", b"f") == [2, 4, 5]
    scene.accounts.close(b"a")
    scene.accounts.close(b"b")
    assert [*scene.open(b"g", last=2**32 - 1), *scene.open(b"h", b"i", b"j")] == [2**32 - 1, 0, 3, 6]


def test_an_owner_can_claim_an_account_number_that_another_owner_has_claimed() -> None:
    scene = Scene()
    for number in (0, 5, 2**32 - 1):
        eve = b"eve%d" % number
        assert scene.open(eve, owner=scene.eve, last=number) == [number]
        assert scene.open(b"alice%d" % number, last=number) == [number]
        assert scene.accounts.owner_of(scene.accounts.of(eve)) is scene.eve
        assert scene.accounts.owner_of(account_of(scene.alice.tag, number)) is scene.alice


def test_an_account_belongs_to_its_owner_before_and_after_its_client_is_connected() -> None:
    scene = Scene()
    early = scene.accounts.owner_of(account_of(tag_of("bob"), 3))
    assert early.name == ""
    assert early is not scene.owners.nobody
    bob = scene.owners.of("bob")
    assert (bob, bob.name) == (early, "bob")
    scene.open(b"b", owner=bob)
    account = scene.accounts.of(b"b")
    scene.accounts.close(b"b")
    assert scene.accounts.owner_of(account) is bob


def test_memory_for_invented_owner_tags_is_bounded() -> None:
    scene = Scene()
    owners = {scene.accounts.owner_of(account_of(tag, 0)) for tag in range(1, 10 * UNNAMED_MOST)}
    assert len(owners) <= UNNAMED_MOST + 1
    assert scene.owners.nobody in owners
    assert scene.accounts.owner_of(account_of(scene.alice.tag, 0)) is scene.alice


def test_without_keys_all_accounts_have_one_owner() -> None:
    scene = Scene()
    scene.owners.alias_nobody("me")
    assert scene.accounts.owner_of(account_of(tag_of("me"), 0)) is scene.owners.nobody


def test_clients_of_one_owner_share_one_account_if_they_do_not_take_turns() -> None:
    scene = Scene(has_turns=False)
    assert [*scene.open(b"a", b"c"), *scene.open(b"b", owner=scene.eve)] == [0, 0, 0]
    accounts = scene.accounts
    assert accounts.of(b"a") == accounts.of(b"c") != accounts.of(b"b")
    accounts.close(b"a")
    assert accounts.owner_of(accounts.of(b"c")) is scene.alice
    assert accounts.label_of(accounts.of(b"c")) == ""
