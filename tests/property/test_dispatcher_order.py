"""Whatever is sent, by whom and in which turns: order holds, nothing is lost, a restart loses one message only."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kit import Actor, ActorRef, BackOff, ChildSpec, Dispatcher, RestartBudget, Strategy, Supervisor, handles
from scaler.message import message
from tests.support.virtual_clock import VirtualClock

ACTORS = 4
LAST = 3
"""the one that runs last"""
NO_LIMIT = RestartBudget(times=10**9)
BACK_OFF = BackOff(first_seconds=0.1, most_seconds=0.4)


@message
class Numbered:
    """The number-th message from `sender` to `receiver`; `onward` is what the receiver does about it."""

    sender: int
    receiver: int
    number: int
    onward: tuple[int, ...]
    fails: bool = False


class Ledger:
    """What was sent and what was handled, in the order in which it happened."""

    def __init__(self) -> None:
        self.sent: list[Numbered] = []
        self.handled: list[Numbered] = []

    def new(self, sender: int, receiver: int, onward: tuple[int, ...], fails: bool = False) -> Numbered:
        self.sent.append(Numbered(sender, receiver, len(self.sent), onward, fails))
        return self.sent[-1]

    @staticmethod
    def by_pair(messages: list[Numbered]) -> dict[tuple[int, int], list[int]]:
        pairs: dict[tuple[int, int], list[int]] = {}
        for mail in messages:
            pairs.setdefault((mail.sender, mail.receiver), []).append(mail.number)
        return pairs


class Correspondent(Actor):
    """Sends one message to each actor that a message names, with the rest of the names, and perhaps fails then."""

    def __init__(self, number: int, peers: dict[int, ActorRef], ledger: Ledger) -> None:
        self._number = number
        self._peers = peers
        self._ledger = ledger

    @handles(Numbered)
    def _numbered(self, mail: Numbered) -> None:
        if mail.fails:
            raise RuntimeError("told to fail")
        self._ledger.handled.append(mail)
        for position, peer in enumerate(mail.onward[:3]):
            rest = mail.onward[3 + position :: 3]
            self._peers[peer].send(self._ledger.new(self._number, peer, rest))


class LastCorrespondent(Correspondent):
    """The same, when no other one has mail."""

    runs_last = True


def kind(number: int) -> type[Correspondent]:
    return LastCorrespondent if number == LAST else Correspondent


actor_numbers = st.integers(0, ACTORS - 1)
letters = st.tuples(actor_numbers, st.lists(actor_numbers, max_size=12).map(tuple), st.booleans())
batches = st.lists(st.tuples(actor_numbers, st.integers(1, 700)), max_size=6)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_to_the_end(dispatcher: Dispatcher, budgets: list[int]) -> None:
    for budget in budgets:
        dispatcher.run(budget)
    while not dispatcher.run():
        pass


@given(st.lists(letters, max_size=20), batches, st.lists(st.integers(1, 50), max_size=10))
def test_messages_between_two_actors_keep_their_order_and_none_is_lost(
    first: list[tuple[int, tuple[int, ...], bool]], bulk: list[tuple[int, int]], budgets: list[int]
) -> None:
    dispatcher, ledger = Dispatcher(VirtualClock()), Ledger()
    peers: dict[int, ActorRef] = {}
    for number in range(ACTORS):
        peers[number] = dispatcher.spawn(kind(number)(number, peers, ledger))
    for receiver, onward, by_another_thread in first:
        mail = ledger.new(-1 if by_another_thread else -2, receiver, onward)
        if by_another_thread:
            peers[receiver].tell(mail)
        else:
            peers[receiver].send(mail)
    for receiver, size in bulk:
        for _ in range(size):
            peers[receiver].send(ledger.new(-2, receiver, ()))
    run_to_the_end(dispatcher, budgets)
    assert ledger.by_pair(ledger.handled) == ledger.by_pair(ledger.sent)
    assert dispatcher.statistics()["dead_letters"] == 0
    assert dispatcher.statistics()["messages_handled"] == len(ledger.sent)


@given(st.sampled_from(Strategy), st.lists(letters, max_size=40), batches, st.lists(st.integers(1, 50), max_size=10))
def test_a_supervised_restart_loses_the_failing_message_and_no_other(
    strategy: Strategy,
    first: list[tuple[int, tuple[int, ...], bool]],
    bulk: list[tuple[int, int]],
    budgets: list[int],
) -> None:
    clock, ledger = VirtualClock(), Ledger()
    dispatcher = Dispatcher(clock)
    peers: dict[int, ActorRef] = {}

    def spec(number: int) -> ChildSpec:
        return ChildSpec(str(number), kind(number), lambda _peers: kind(number)(number, peers, ledger))

    supervisor = Supervisor(tuple(spec(number) for number in range(ACTORS)), strategy, NO_LIMIT, BACK_OFF)
    dispatcher.spawn(supervisor)
    peers.update({number: supervisor.children[str(number)] for number in range(ACTORS)})
    for receiver, size in bulk:
        for _ in range(size):
            peers[receiver].send(ledger.new(-2, receiver, ()))
    for receiver, onward, fails in first:
        peers[receiver].send(ledger.new(-2, receiver, onward, fails))
    run_to_the_end(dispatcher, budgets)
    while (deadline := dispatcher.next_deadline()) is not None:
        clock.advance(max(0.0, deadline - clock()))
        run_to_the_end(dispatcher, budgets)
    expected = [mail for mail in ledger.sent if not mail.fails]
    assert ledger.by_pair(ledger.handled) == ledger.by_pair(expected)
    assert dispatcher.statistics()["dead_letters"] == 0
    assert dispatcher.failures == len(ledger.sent) - len(expected)
