"""Supervisors: which children are restarted, when, how often, in which order, and when a failure escalates."""

from __future__ import annotations

import logging

import pytest

from scaler.kit import (
    Actor,
    ActorRef,
    BackOff,
    ChildFailed,
    ChildSpec,
    Dispatcher,
    Peers,
    Restart,
    RestartBudget,
    RestartBudgetExceededError,
    Strategy,
    Supervisor,
    handles,
)
from scaler.message import message
from tests.support.virtual_clock import VirtualClock


@message
class Work:
    number: int


@message
class Fail:
    pass


@message
class Leave:
    pass


NO_BACK_OFF = BackOff(first_seconds=0.0)


class Company:
    """A supervisor of workers, and the diary of what happened to them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.escalated: list[BaseException] = []
        self.dispatcher = Dispatcher(self.clock, on_escalation=self.escalated.append)
        self.diary: list[str] = []
        self.sick: dict[str, int] = {}
        """How often the child of this name still fails at its start."""

    def spec(self, name: str, restart: Restart = Restart.PERMANENT) -> ChildSpec:
        return ChildSpec(name, Worker, lambda _peers: Worker(name, self), restart)

    def supervise(
        self,
        *children: ChildSpec | str,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        budget: RestartBudget = RestartBudget(times=5, within_seconds=10.0),  # noqa: B008 -- a frozen value
        back_off: BackOff = NO_BACK_OFF,
    ) -> Supervisor:
        specs = tuple(self.spec(child) if isinstance(child, str) else child for child in children)
        supervisor = Supervisor(specs, strategy, budget, back_off)
        self.dispatcher.spawn(supervisor)
        self.run()
        return supervisor

    def run(self) -> None:
        assert self.dispatcher.run()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.run()

    def tell(self, ref: ActorRef, *mail: object) -> None:
        for letter in mail:
            ref.send(letter)
        self.run()

    def news(self) -> list[str]:
        news, self.diary[:] = list(self.diary), []
        return news


class Worker(Actor):
    def __init__(self, name: str, company: Company) -> None:
        self._name = name
        self._company = company

    def _note(self, what: str) -> None:
        self._company.diary.append(f"{self._name} {what}")

    def on_start(self) -> None:
        if self._company.sick.get(self._name, 0) > 0:
            self._company.sick[self._name] -= 1
            raise RuntimeError("sick")
        self._note("started")

    def on_stop(self) -> None:
        self._note("stopped")

    def on_failure(self, *_error: object) -> None:
        self._note("failed")

    @handles(Work)
    def work(self, work: Work) -> None:
        self._note(f"did {work.number}")

    @handles(Fail)
    def fail(self, _command: Fail) -> None:
        raise RuntimeError("told to fail")

    @handles(Leave)
    def leave(self, _command: Leave) -> None:
        self.stop_now()


@pytest.fixture
def company() -> Company:
    return Company()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "scaler")


# Start and stop


def test_children_start_in_order_and_stop_in_reverse(company: Company) -> None:
    supervisor = company.supervise("a", "b", "c")
    assert company.news() == ["a started", "b started", "c started"]
    company.dispatcher.stop(supervisor.actor_ref)
    assert company.news() == ["c stopped", "b stopped", "a stopped"]
    company.run()
    assert all(ref.is_stopped() for ref in supervisor.children.values())


def test_a_tree_stops_in_reverse_at_every_level(company: Company) -> None:
    inner = Supervisor((company.spec("b1"), company.spec("b2")))
    company.supervise("a", ChildSpec("b", Supervisor, lambda _peers: inner), "c")
    company.news()
    outer_ref = inner.actor_ref._parent
    assert outer_ref is not None
    company.dispatcher.stop(outer_ref)
    assert company.news() == ["c stopped", "b2 stopped", "b1 stopped", "a stopped"]


def test_a_child_gets_the_addresses_of_all_earlier_and_later_siblings(company: Company) -> None:
    class Caller(Actor):
        def __init__(self, peers: Peers) -> None:
            self._later = peers["later"]

        def on_start(self) -> None:
            self._later.send(Work(7))

    company.supervise(ChildSpec("caller", Caller, Caller), "later")
    assert company.news() == ["later started", "later did 7"]


def test_two_children_of_the_same_name_are_refused(company: Company) -> None:
    with pytest.raises(ValueError, match="same name"):
        Supervisor((company.spec("a"), company.spec("a")))
    supervisor = company.supervise("a")
    with pytest.raises(ValueError, match="named a already"):
        supervisor.add(company.spec("a"))


def test_a_child_that_is_added_later_is_supervised(company: Company) -> None:
    supervisor = company.supervise("a")
    ref = supervisor.add(company.spec("b"))
    assert supervisor.children["b"] is ref
    company.tell(ref, Fail(), Work(1))
    assert company.news() == ["a started", "b started", "b failed", "b started", "b did 1"]


# Strategies


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ONE_FOR_ONE, ["b failed", "b started"]),
        (Strategy.REST_FOR_ONE, ["b failed", "d stopped", "c stopped", "b started", "c started", "d started"]),
        (
            Strategy.ONE_FOR_ALL,
            ["b failed", "d stopped", "c stopped", "a stopped", "a started", "b started", "c started", "d started"],
        ),
    ],
)
def test_a_failure_restarts_the_children_that_the_strategy_names(
    company: Company, strategy: Strategy, expected: list[str]
) -> None:
    supervisor = company.supervise("a", "b", "c", "d", strategy=strategy)
    company.news()
    company.tell(supervisor.children["b"], Fail())
    assert company.news() == expected


def test_on_restart_receives_only_the_failed_child_and_its_error(company: Company) -> None:
    told: list[tuple[str, str]] = []
    supervisor = Supervisor(
        (company.spec("a"), company.spec("b"), company.spec("c", Restart.TRANSIENT)),
        Strategy.ONE_FOR_ALL,
        back_off=NO_BACK_OFF,
        on_restart=lambda name, error: told.append((name, str(error))),
    )
    company.dispatcher.spawn(supervisor)
    company.run()
    company.tell(supervisor.children["c"], Leave())
    company.tell(supervisor.children["b"], Leave())
    assert told == []
    company.tell(supervisor.children["a"], Fail())
    assert told == [("a", "told to fail")]


@pytest.mark.parametrize("strategy", [Strategy.REST_FOR_ONE, Strategy.ONE_FOR_ALL])
def test_siblings_lose_no_mail_when_they_are_restarted(company: Company, strategy: Strategy) -> None:
    supervisor = company.supervise("a", "b", strategy=strategy)
    company.news()
    a, b = supervisor.children["a"], supervisor.children["b"]
    for letter in (Work(1), Fail(), Work(2)):
        a.send(letter)
    b.send(Work(3))
    company.run()
    news = company.news()
    assert news[:5] == ["a did 1", "a failed", "b stopped", "a started", "b started"]
    assert sorted(news[5:]) == ["a did 2", "b did 3"]
    assert company.dispatcher.dead_letters.count == 0


@pytest.mark.parametrize("strategy", list(Strategy))
def test_mail_waits_during_a_back_off(company: Company, strategy: Strategy) -> None:
    supervisor = company.supervise("a", "b", "c", strategy=strategy, back_off=BackOff(first_seconds=1.0))
    b = supervisor.children["b"]
    company.tell(b, Fail())  # the first restart is at once
    company.tell(b, Fail())
    company.news()
    company.tell(b, Work(1))
    company.advance(0.9)
    assert company.news() == []
    company.advance(0.1)
    names = {Strategy.ONE_FOR_ONE: "b", Strategy.REST_FOR_ONE: "bc", Strategy.ONE_FOR_ALL: "abc"}[strategy]
    assert company.news() == [f"{name} started" for name in names] + ["b did 1"]


def test_a_sibling_that_ends_in_order_does_not_shorten_a_back_off(company: Company) -> None:
    supervisor = company.supervise("a", "b", strategy=Strategy.REST_FOR_ONE, back_off=BackOff(first_seconds=1.0))
    a, b = supervisor.children["a"], supervisor.children["b"]
    company.tell(b, Fail())
    company.tell(b, Fail())
    company.news()
    company.tell(a, Leave())
    assert company.news() == ["a stopped", "a started"]
    company.advance(1.0)
    assert company.news() == ["b started"]


def test_an_earlier_sibling_that_fails_during_a_back_off_delays_the_later_siblings(company: Company) -> None:
    supervisor = company.supervise(
        "a", "b", "c", strategy=Strategy.REST_FOR_ONE, back_off=BackOff(first_seconds=1.0, factor=2.0)
    )
    a, b = supervisor.children["a"], supervisor.children["b"]
    company.tell(b, Fail())
    company.tell(b, Fail())  # b and c wait until 1.0
    company.advance(0.5)
    company.tell(a, Fail())  # a, b and c wait until 2.5
    company.news()
    company.advance(0.5)
    assert company.news() == []
    company.advance(1.5)
    assert company.news() == ["a started", "b started", "c started"]
    company.advance(10.0)
    assert company.news() == []


@pytest.mark.parametrize("strategy", [Strategy.REST_FOR_ONE, Strategy.ONE_FOR_ALL])
def test_siblings_wait_for_the_child_that_they_depend_on(company: Company, strategy: Strategy) -> None:
    company.sick["b"] = 2
    company.supervise("a", "b", "c", strategy=strategy, back_off=BackOff(first_seconds=1.0))
    again = ["a stopped", "a started"] if strategy is Strategy.ONE_FOR_ALL else []
    assert company.news() == ["a started", "b failed", *again, "b failed", *again[:1]]
    company.advance(1.0)
    assert company.news() == [*again[1:], "b started", "c started"]


def test_one_for_one_a_child_that_fails_at_its_start_does_not_delay_siblings(company: Company) -> None:
    company.sick["a"] = 1
    company.supervise("a", "b")
    assert company.news() == ["a failed", "b started", "a started"]


# When a child is restarted


@pytest.mark.parametrize(
    ("restart", "after_a_failure", "after_a_good_end"),
    [(Restart.PERMANENT, True, True), (Restart.TRANSIENT, True, False)],
)
def test_a_child_is_restarted_as_its_specification_requires(
    company: Company, restart: Restart, after_a_failure: bool, after_a_good_end: bool
) -> None:
    for letter, expected in ((Fail(), after_a_failure), (Leave(), after_a_good_end)):
        supervisor = company.supervise(company.spec("a", restart))
        ref = supervisor.children["a"]
        company.tell(ref, letter, Work(1))
        assert ("a did 1" in company.news()) is expected
        assert ("a" in supervisor.children) is expected
        assert ref.is_stopped() is not expected


def test_a_permanent_child_keeps_its_address_and_mail_when_it_ends_in_order(company: Company) -> None:
    supervisor = company.supervise("a", "b", strategy=Strategy.ONE_FOR_ALL)
    ref = supervisor.children["a"]
    company.news()
    company.tell(ref, Work(1), Leave(), Work(2))
    assert company.news() == ["a did 1", "a stopped", "a started", "a did 2"]
    assert supervisor.children["a"] is ref


def test_a_permanent_child_that_always_ends_at_once_does_not_delay_siblings(company: Company) -> None:
    class Impatient(Worker):
        def on_start(self) -> None:
            self.stop_now()

    supervisor = company.supervise("b")
    supervisor.add(ChildSpec("a", Impatient, lambda _peers: Impatient("a", company)))
    for number in range(3):
        supervisor.children["b"].send(Work(number))
        company.dispatcher.run(budget=100)
    assert [entry for entry in company.diary if entry.startswith("b did")] == ["b did 0", "b did 1", "b did 2"]
    assert company.escalated == []


def test_a_transient_child_that_ends_at_its_start_lets_later_siblings_start(company: Company) -> None:
    class Brief(Worker):
        def on_start(self) -> None:
            self.stop_now()

    brief = ChildSpec("brief", Brief, lambda _peers: Brief("brief", company), Restart.TRANSIENT)
    supervisor = company.supervise("a", brief, "c", strategy=Strategy.REST_FOR_ONE)
    assert "c started" in company.news()
    assert list(supervisor.children) == ["a", "c"]


# Failures at odd moments


def test_a_factory_that_raises_is_a_failure_of_its_child(company: Company) -> None:
    missing = iter([{}, {"a": Worker("a", company)}])
    company.supervise(ChildSpec("a", Worker, lambda _peers: next(missing)["a"]), "b")
    assert company.news() == ["b started", "a started"]
    assert company.dispatcher.failures == 1
    assert company.escalated == []


def test_a_factory_that_always_raises_escalates(company: Company) -> None:
    nobody: dict[str, Worker] = {}
    company.supervise(ChildSpec("a", Worker, lambda _peers: nobody["a"]), "b")
    assert isinstance(company.escalated[0], RestartBudgetExceededError)
    assert company.news() == ["b started", "b stopped"]


def test_a_child_that_raises_when_it_is_withdrawn_is_not_withdrawn_again(company: Company) -> None:
    class Grumpy(Worker):
        def on_stop(self) -> None:
            super().on_stop()
            raise RuntimeError("leave me alone")

    supervisor = company.supervise(
        "a", ChildSpec("b", Grumpy, lambda _peers: Grumpy("b", company)), strategy=Strategy.ONE_FOR_ALL
    )
    company.news()
    company.tell(supervisor.children["a"], Fail())
    assert company.news() == ["a failed", "b stopped", "a started", "b started"]


def test_a_child_that_raises_after_it_ended_in_order_is_restarted_once(company: Company) -> None:
    class Torn(Worker):
        @handles(Leave)
        def leave(self, _command: Leave) -> None:
            self.stop_now()
            raise RuntimeError("one more thing")

    supervisor = company.supervise(ChildSpec("a", Torn, lambda _peers: Torn("a", company)))
    company.news()
    company.tell(supervisor.children["a"], Leave())
    assert company.news() == ["a stopped", "a started"]


def test_an_old_failure_report_of_a_restarted_child_is_ignored(company: Company) -> None:
    supervisor = company.supervise("a")
    company.news()
    supervisor.actor_ref.notify(ChildFailed(supervisor.children["a"], RuntimeError("old news")))
    company.run()
    assert company.news() == []


def test_mail_to_a_removed_child_is_dead_and_failure_reports_of_it_are_ignored(company: Company) -> None:
    supervisor = company.supervise(company.spec("a", Restart.TRANSIENT))
    ref = supervisor.children["a"]
    company.tell(ref, Leave(), Work(1))
    supervisor.actor_ref.notify(ChildFailed(ref, RuntimeError("old news")))
    company.run()
    assert company.dispatcher.dead_letters.count == 1
    assert company.escalated == []


# Budget, back-off, escalation


def test_failures_beyond_the_budget_end_the_supervisor_and_all_its_children(company: Company) -> None:
    supervisor = company.supervise("a", "b", budget=RestartBudget(times=2, within_seconds=10.0))
    company.news()
    for _ in range(3):
        company.tell(supervisor.children["b"], Fail())
    assert company.news() == ["b failed", "b started", "b failed", "b started", "b failed", "a stopped"]
    assert supervisor.actor_ref.is_stopped()
    (error,) = company.escalated
    assert isinstance(error, RestartBudgetExceededError)
    assert "3 failures within 10 s" in str(error)
    assert str(error.__cause__) == "told to fail"


def test_old_failures_are_forgiven(company: Company) -> None:
    supervisor = company.supervise("a", budget=RestartBudget(times=1, within_seconds=10.0))
    for _ in range(5):
        company.tell(supervisor.children["a"], Fail())
        company.advance(10.1)
    assert company.escalated == []


def test_an_end_in_order_does_not_count_for_the_budget(company: Company) -> None:
    supervisor = company.supervise("a", budget=RestartBudget(times=1))
    for _ in range(5):
        company.tell(supervisor.children["a"], Leave())
    assert company.escalated == []


def test_the_back_off_grows_to_its_limit() -> None:
    back_off = BackOff(first_seconds=0.5, factor=2.0, most_seconds=3.0)
    assert [back_off.delay_seconds(n) for n in (1, 2, 3, 4, 5, 5000)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_failure_may_escalate_through_two_levels_to_the_process(company: Company) -> None:
    once = RestartBudget(times=1, within_seconds=10.0)
    inner: list[Supervisor] = []

    def make_inner(_peers: Peers) -> Supervisor:
        inner.append(Supervisor((company.spec("child"),), budget=once, back_off=NO_BACK_OFF))
        return inner[-1]

    outer = company.supervise(ChildSpec("inner", Supervisor, make_inner), "sibling", budget=once)
    inner_ref = outer.children["inner"]
    old_child = inner[0].children["child"]
    company.news()
    for _ in range(2):
        company.tell(inner[0].children["child"], Fail())
    assert company.news() == ["child failed", "child started", "child failed", "child started"]
    assert len(inner) == 2
    assert inner[1].actor_ref is inner_ref
    assert old_child.is_stopped()
    for _ in range(2):
        company.tell(inner[1].children["child"], Fail())
    assert company.news()[-1] == "sibling stopped"
    (error,) = company.escalated
    assert isinstance(error, RestartBudgetExceededError)
    assert isinstance(error.__cause__, RestartBudgetExceededError)
    assert inner_ref.is_stopped()
    assert outer.actor_ref.is_stopped()


def test_a_supervisor_that_ends_during_a_back_off_restarts_no_child(company: Company) -> None:
    supervisor = company.supervise("a", back_off=BackOff(first_seconds=1.0))
    for _ in range(2):
        company.tell(supervisor.children["a"], Fail())
    company.news()
    company.dispatcher.stop(supervisor.actor_ref)
    company.advance(5.0)
    assert company.news() == []
    assert company.dispatcher.failures == 2
