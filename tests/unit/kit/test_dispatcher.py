"""The dispatcher: turns, budgets, the urgent lane, actors that run last, addresses, other threads, the end."""

from __future__ import annotations

import logging
import threading

import pykka
import pytest

from scaler.kit import (
    Actor,
    ActorRef,
    ActorStoppedError,
    ChildFailed,
    ChildSpec,
    ChildStopped,
    Dispatcher,
    MessageRefused,
    RestartBudget,
    Supervisor,
    charged_to,
    handles,
)
from scaler.kit.dispatcher import RUN_MESSAGES, TURN_MESSAGES
from scaler.message import message
from tests.support.virtual_clock import VirtualClock


@message
class Work:
    number: int


@message
class Urgent:
    number: int


@message
class Fail:
    pass


@message
class Close:
    pass


class Listener(Actor):
    def __init__(self, log: list[tuple[str, int]] | None = None, name: str = "") -> None:
        self.log: list[tuple[str, int]] = [] if log is None else log
        self._name = name

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.log]

    @handles(Work, Urgent)
    def work(self, work: Work | Urgent) -> int:
        self.log.append((self._name, work.number))
        return work.number

    @handles(Fail)
    def fail(self, _command: Fail) -> None:
        raise RuntimeError("told to fail")

    @handles(Close)
    def close(self, _command: Close) -> None:
        self.actor_ref._dispatcher.close()


class Last(Listener):
    """An actor that runs last, and records the end of each of its turns."""

    runs_last = True

    def on_turn_end(self) -> None:
        self.log.append((self._name, -1))


class Indifferent(Actor):
    """A parent that ignores what happens to its children."""

    @handles(ChildFailed)
    def child_failed(self, failed: ChildFailed) -> None:
        pass


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher(VirtualClock())


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "scaler")


# Turns and budgets


def test_run_without_mail_returns_at_once(dispatcher: Dispatcher) -> None:
    assert dispatcher.run()
    assert dispatcher.statistics()["messages_handled"] == 0


def test_an_idle_actor_has_no_mailbox(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Listener())
    assert ref._mailbox is None
    ref.send(Work(1))
    assert ref._mailbox == [Work(1)]
    dispatcher.run()
    assert ref._mailbox is None


def test_an_actor_with_much_mail_does_not_delay_the_turns_of_other_actors(dispatcher: Dispatcher) -> None:
    log: list[tuple[str, int]] = []
    busy, other = dispatcher.spawn(Listener(log, "busy")), dispatcher.spawn(Listener(log, "other"))
    for number in range(10 * TURN_MESSAGES):
        busy.send(Work(number))
    other.send(Work(0))
    dispatcher.run()
    assert log.index(("other", 0)) == TURN_MESSAGES
    assert [number for name, number in log if name == "busy"] == list(range(10 * TURN_MESSAGES))


def test_mail_that_arrives_while_a_long_mailbox_is_handled_is_handled_last(dispatcher: Dispatcher) -> None:
    class Echo(Listener):
        def work(self, work: Work | Urgent) -> int:
            if work.number == 0:
                self.actor_ref.send(Work(-1))
            return super().work(work)

    echo = Echo()
    ref = dispatcher.spawn(echo)
    for number in range(3 * TURN_MESSAGES):
        ref.send(Work(number))
    dispatcher.run()
    assert echo.numbers == [*range(3 * TURN_MESSAGES), -1]


def test_actors_that_send_to_themselves_endlessly_share_the_time(dispatcher: Dispatcher) -> None:
    class Restless(Listener):
        def work(self, work: Work | Urgent) -> int:
            self.actor_ref.send(work)
            return super().work(work)

    actors = [Restless(), Restless(), Restless()]
    for actor in actors:
        dispatcher.spawn(actor).send(Work(1))
    assert not dispatcher.run(budget=300)
    assert [len(actor.log) for actor in actors] == [100, 100, 100]


def test_a_run_ends_when_its_budget_is_spent_and_the_next_run_continues(dispatcher: Dispatcher) -> None:
    listeners = [Listener() for _ in range(10)]
    for listener in listeners:
        dispatcher.spawn(listener).send(Work(1))
    assert not dispatcher.run(budget=4)
    assert sum(len(listener.log) for listener in listeners) == 4
    assert dispatcher.run()
    assert sum(len(listener.log) for listener in listeners) == 10


def test_statistics_count_handled_messages_dead_letters_and_failures(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Listener())
    for letter in (Work(1), Fail(), Work(2)):
        ref.send(letter)
    ref.notify(Work(3))
    assert dispatcher.statistics()["actors_with_mail"] == 1
    dispatcher.run()
    assert dispatcher.statistics() == {
        "messages_handled": 3,
        "dead_letters": 1,
        "failures": 1,
        "actors_with_mail": 0,
        "timers": 0,
    }


# The urgent lane


def test_urgent_mail_is_handled_before_all_work(dispatcher: Dispatcher) -> None:
    log: list[tuple[str, int]] = []
    first, second = dispatcher.spawn(Listener(log, "first")), dispatcher.spawn(Listener(log, "second"))
    first.send(Work(1))
    second.send(Work(2))
    second.notify(Urgent(3))
    dispatcher.run()
    assert log == [("second", 3), ("first", 1), ("second", 2)]


def test_urgent_mail_to_an_address_without_an_actor_waits_there(dispatcher: Dispatcher) -> None:
    ref = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    ref.notify(Urgent(1))
    dispatcher.run()
    listener = Listener()
    dispatcher.attach(ref, listener)
    dispatcher.run()
    assert listener.numbers == [1]


def test_urgent_mail_that_never_ends_does_not_hold_up_the_shell(dispatcher: Dispatcher) -> None:
    class Hasty(Listener):
        def work(self, work: Work | Urgent) -> int:
            self.actor_ref.notify(work)
            return super().work(work)

    hasty = Hasty()
    dispatcher.spawn(hasty).notify(Urgent(1))
    assert not dispatcher.run(budget=50)
    assert len(hasty.log) == 50


def test_an_urgent_handler_that_raises_is_a_failure_as_any_other(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Listener())
    ref.notify(Fail())
    dispatcher.run()
    assert ref.is_stopped()


# Actors that run last


def test_an_actor_that_runs_last_handles_all_its_mail_of_a_run_in_one_turn(dispatcher: Dispatcher) -> None:
    class Sender(Listener):
        def work(self, work: Work | Urgent) -> int:
            if work.number:
                self.actor_ref.send(Work(work.number - 1))
            last.send(work)
            return super().work(work)

    log: list[tuple[str, int]] = []
    last = dispatcher.spawn(Last(log, "last"))
    sender = dispatcher.spawn(Sender(log, "sender"))
    last.send(Work(9))
    sender.send(Work(2))
    assert dispatcher.run()
    of_sender = [("sender", number) for number in (2, 1, 0)]
    assert log == [*of_sender, *(("last", number) for number in (9, 2, 1, 0)), ("last", -1)]


def test_messages_are_flushed_before_each_last_turn_and_after_the_turns_that_it_causes(
    dispatcher: Dispatcher,
) -> None:
    class Asker(Last):
        def on_turn_end(self) -> None:
            super().on_turn_end()
            for worker in workers:
                worker.send(Work(1))

    class Worker(Listener):
        def work(self, work: Work | Urgent) -> int:
            first.send(Work(2))
            return super().work(work)

    log: list[tuple[str, int]] = []
    last = dispatcher.spawn(Asker(log, "last"))
    first = dispatcher.spawn(Listener(log, "first"))
    workers = [dispatcher.spawn(Worker(log, "worker")) for _ in range(2)]
    last.send(Work(0))
    first.send(Work(0))
    dispatcher.run(flush=lambda: log.append(("flush", 0)))
    assert log == [
        ("first", 0),
        ("flush", 0),
        ("last", 0),
        ("last", -1),
        ("worker", 1),
        ("worker", 1),
        ("flush", 0),
        ("first", 2),
        ("first", 2),
        ("flush", 0),
    ]


def test_an_actor_that_runs_last_has_its_turn_in_each_run_however_busy_other_actors_are(dispatcher: Dispatcher) -> None:
    class Restless(Listener):
        def work(self, work: Work | Urgent) -> int:
            self.actor_ref.send(work)
            return super().work(work)

    last = Last()
    dispatcher.spawn(Restless()).send(Work(1))
    ref = dispatcher.spawn(last)
    for number in range(3):
        ref.send(Work(number))
        assert not dispatcher.run(budget=10)
        assert last.numbers[-2:] == [number, -1]


def test_much_mail_of_an_actor_that_runs_last_takes_several_turns_and_keeps_its_order(dispatcher: Dispatcher) -> None:
    last = Last()
    ref = dispatcher.spawn(last)
    for number in range(RUN_MESSAGES + 1):
        ref.send(Work(number))
    assert not dispatcher.run(), "the process serves its sockets in between"
    assert dispatcher.run()
    assert last.numbers == [*range(RUN_MESSAGES), -1, RUN_MESSAGES, -1]
    assert dispatcher.statistics()["messages_handled"] == RUN_MESSAGES + 1


def test_urgent_mail_is_handled_before_the_last_turn(dispatcher: Dispatcher) -> None:
    class Hasty(Listener):
        def work(self, work: Work | Urgent) -> int:
            self.actor_ref.notify(work)
            return super().work(work)

    last = Last()
    dispatcher.spawn(Hasty()).notify(Urgent(1))
    dispatcher.spawn(last).send(Work(1))
    assert not dispatcher.run(budget=50)
    assert last.numbers == []


def test_an_actor_that_raises_at_the_end_of_its_turn_has_failed(dispatcher: Dispatcher) -> None:
    class Failing(Last):
        def on_turn_end(self) -> None:
            raise RuntimeError("told to fail")

    ref = dispatcher.spawn(Failing())
    ref.send(Work(1))
    dispatcher.run()
    assert ref.is_stopped()
    assert dispatcher.failures == 1


def test_on_turn_end_is_not_called_for_an_actor_that_ends_in_its_turn(dispatcher: Dispatcher) -> None:
    last = Last()
    ref = dispatcher.spawn(last)
    ref.send(Fail())
    dispatcher.run()
    assert last.log == []


def test_a_last_actor_that_is_put_behind_an_address_with_mail_runs_last(dispatcher: Dispatcher) -> None:
    log: list[tuple[str, int]] = []
    ref = dispatcher.address(Last, dispatcher.spawn(Indifferent()))
    ref.send(Work(1))
    dispatcher.attach(ref, Last(log, "last"))
    dispatcher.spawn(Listener(log, "first")).send(Work(2))
    dispatcher.run()
    assert log == [("first", 2), ("last", 1), ("last", -1)]


def test_mail_of_actors_that_run_last_is_refused_at_the_end(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Last())
    ref.send(Work(1))
    assert dispatcher.has_mail
    assert dispatcher.statistics()["actors_with_mail"] == 1
    dispatcher.close()
    assert dispatcher.run()
    assert ref.is_stopped()
    assert dispatcher.dead_letters.count == 1


# Failures and addresses


def test_the_failure_of_an_actor_without_a_parent_escalates_to_the_process() -> None:
    errors: list[BaseException] = []
    dispatcher = Dispatcher(VirtualClock(), on_escalation=errors.append)
    dispatcher.spawn(Listener()).send(Fail())
    dispatcher.run()
    assert [str(error) for error in errors] == ["told to fail"]


def test_mail_after_a_message_that_fails_is_handled_by_the_next_actor_at_the_address(dispatcher: Dispatcher) -> None:
    ref = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    first, second = Listener(), Listener()
    dispatcher.attach(ref, first)
    for letter in (Work(1), Fail(), Work(2), Work(3)):
        ref.send(letter)
    dispatcher.run()
    ref.send(Work(4))
    assert dispatcher.run()
    dispatcher.attach(ref, second)
    dispatcher.run()
    assert (first.numbers, second.numbers) == ([1], [2, 3, 4])
    assert dispatcher.dead_letters.count == 0


def test_the_order_of_a_long_mailbox_survives_a_restart(dispatcher: Dispatcher) -> None:
    ref = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    log: list[tuple[str, int]] = []
    dispatcher.attach(ref, Listener(log))
    for number in range(2 * TURN_MESSAGES):
        ref.send(Fail() if number == 100 else Work(number))
    dispatcher.run()
    dispatcher.attach(ref, Listener(log))
    dispatcher.run()
    assert [number for _, number in log] == [number for number in range(2 * TURN_MESSAGES) if number != 100]


def test_an_actor_may_be_withdrawn_and_replaced_while_it_waits_for_its_turn(dispatcher: Dispatcher) -> None:
    ref = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    first, second = Listener(), Listener()
    dispatcher.attach(ref, first)
    ref.send(Work(1))
    dispatcher.detach(ref)
    dispatcher.attach(ref, second)
    ref.send(Work(2))
    assert dispatcher.run()
    assert (first.numbers, second.numbers) == ([], [1, 2])


def test_a_withdrawn_actor_has_no_turn_and_its_mail_waits(dispatcher: Dispatcher) -> None:
    ref = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    dispatcher.attach(ref, Listener())
    ref.send(Work(1))
    dispatcher.detach(ref)
    assert dispatcher.run()
    second = Listener()
    dispatcher.attach(ref, second)
    dispatcher.run()
    assert second.numbers == [1]


def test_mail_that_an_actor_sends_to_itself_in_on_start_follows_the_waiting_mail(dispatcher: Dispatcher) -> None:
    class Starter(Listener):
        def on_start(self) -> None:
            self.actor_ref.send(Work(2))

    ref = dispatcher.address(Starter, dispatcher.spawn(Indifferent()))
    ref.send(Work(1))
    starter = Starter()
    dispatcher.attach(ref, starter)
    dispatcher.run()
    assert starter.numbers == [1, 2]


def test_an_address_accepts_one_actor_at_a_time_and_none_after_its_end(dispatcher: Dispatcher) -> None:
    ref = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    dispatcher.attach(ref, Listener())
    with pytest.raises(ActorStoppedError):
        dispatcher.attach(ref, Listener())
    dispatcher.end(ref)
    with pytest.raises(ActorStoppedError):
        dispatcher.attach(ref, Listener())


def test_a_supervised_actor_that_stops_in_order_leaves_its_mail_and_its_address(dispatcher: Dispatcher) -> None:
    class Parent(Indifferent):
        @handles(ChildStopped)
        def child_stopped(self, _stopped: ChildStopped) -> None:
            pass

    ref = dispatcher.address(Listener, dispatcher.spawn(Parent()))
    dispatcher.attach(ref, Listener())
    ref.tell(Work(1))
    ref.stop(block=False)
    ref.tell(Work(2))
    dispatcher.run()
    assert not ref.is_stopped()
    second = Listener()
    dispatcher.attach(ref, second)
    dispatcher.run()
    assert second.numbers == [2]


# Other threads


def test_posted_mail_wakes_the_shell_and_keeps_its_order() -> None:
    wakes: list[int] = []
    dispatcher = Dispatcher(VirtualClock(), wake=lambda: wakes.append(1))
    listener = Listener()
    ref = dispatcher.spawn(listener)
    for number in range(3):
        dispatcher.post(ref, Work(number))
    assert len(wakes) == 3
    assert dispatcher.run()
    assert listener.numbers == [0, 1, 2]


def test_mail_that_a_handler_sends_is_handled_in_the_same_run(dispatcher: Dispatcher) -> None:
    class Teller(Listener):
        def work(self, work: Work | Urgent) -> int:
            if work.number < 3:
                self.actor_ref.tell(Work(work.number + 1))
            return super().work(work)

    teller = Teller()
    dispatcher.spawn(teller).send(Work(1))
    assert dispatcher.run()
    assert teller.numbers == [1, 2, 3]


def test_mail_that_many_threads_post_is_neither_lost_nor_reordered() -> None:
    woken = threading.Event()
    dispatcher = Dispatcher(VirtualClock(), wake=woken.set)
    log: list[tuple[str, int]] = []
    ref = dispatcher.spawn(Listener(log))

    def post(thread_number: int) -> None:
        for number in range(2000):
            dispatcher.post(ref, Work(thread_number * 2000 + number))

    threads = [threading.Thread(target=post, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while len(log) < 8000:
        assert woken.wait(10), f"only {len(log)} messages arrived"
        woken.clear()
        while not dispatcher.run():
            pass
    for thread in threads:
        thread.join()
    for thread_number in range(4):
        mine = [number for _, number in log if number // 2000 == thread_number]
        assert mine == list(range(thread_number * 2000, (thread_number + 1) * 2000))


@pytest.mark.parametrize("round_number", range(10))
def test_a_question_while_the_dispatcher_closes_is_answered_or_refused(round_number: int) -> None:
    woken = threading.Event()
    dispatcher = Dispatcher(VirtualClock(), wake=woken.set)
    ref = dispatcher.spawn(Listener())
    answers: list[object] = []

    def ask() -> None:
        for number in range(1000):
            try:
                answers.append(ref.ask(Work(number), timeout=20))
            except pykka.ActorDeadError:
                answers.append("refused")
                return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(answers) < 20 + 10 * round_number:
        assert woken.wait(10)
        woken.clear()
        dispatcher.run()
    dispatcher.close()
    for thread in threads:
        thread.join(timeout=10)
        assert not thread.is_alive()
    assert answers.count("refused") == 4


# Who is charged for a failure


@message
class Divide:
    sender: ActorRef | None
    by: float


@message
class Order:
    """A message from a peer that is not an actor."""

    by: float


class Shared(Actor):
    """An actor that many others send messages to."""

    def __init__(self) -> None:
        self.results: list[float] = []
        self.refused: list[MessageRefused] = []

    @handles(Divide)
    @charged_to("sender")
    def divide(self, divide: Divide) -> None:
        if divide.by < 0:
            self.stop_now()
            raise ValueError("after its end")
        if divide.by == 13:
            raise KeyboardInterrupt
        self.results.append(1 / divide.by)

    @handles(Order)
    @charged_to()
    def order(self, order: Order) -> None:
        self.results.append(1 / order.by)

    @handles(MessageRefused)
    def note(self, refused: MessageRefused) -> None:
        self.refused.append(refused)

    @handles(Fail)
    def fail(self, _command: Fail) -> None:
        raise RuntimeError("told to fail")


class Peerless(Actor):
    """A sender that does not declare how it handles a refusal."""


class Parent(Actor):
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    @handles(ChildFailed)
    def child_failed(self, failed: ChildFailed) -> None:
        self.errors.append(failed.error)


@pytest.mark.parametrize("amount", [1, 5], ids=["alone", "among others"])
@pytest.mark.parametrize("is_urgent", [False, True])
def test_a_message_that_cannot_be_handled_is_reported_to_its_sender(
    dispatcher: Dispatcher, amount: int, is_urgent: bool
) -> None:
    shared, sender = Shared(), Shared()
    ref, sender_ref = dispatcher.spawn(shared), dispatcher.spawn(sender)
    for number in range(amount):
        (ref.notify if is_urgent else ref.send)(Divide(sender_ref, float(number)))
    assert dispatcher.run()
    assert shared.results == [1 / number for number in range(1, amount)], "the mail behind it is handled in its order"
    assert [(each.message.by, type(each.error)) for each in sender.refused] == [(0, ZeroDivisionError)]
    assert (dispatcher.failures, dispatcher.dead_letters.count) == (0, 0)


def test_a_sender_that_does_not_handle_refusals_fails_by_its_message(dispatcher: Dispatcher) -> None:
    shared, parent = Shared(), Parent()
    ref, sender = dispatcher.spawn(shared), dispatcher.spawn(Peerless(), dispatcher.spawn(parent))
    ref.send(Divide(sender, 0))
    ref.send(Divide(sender, 2))
    assert dispatcher.run()
    assert shared.results == [0.5]
    assert [type(error) for error in parent.errors] == [ZeroDivisionError]
    assert sender.is_stopped()


def test_a_receiver_is_notified_of_a_refused_message_without_a_sender_and_continues(dispatcher: Dispatcher) -> None:
    shared = Shared()
    ref = dispatcher.spawn(shared)
    for by in (1.0, 0.0, 2.0):
        ref.send(Order(by))
    assert dispatcher.run()
    assert shared.results == [1, 0.5]
    assert [each.message for each in shared.refused] == [Order(0)]
    assert dispatcher.failures == 0


@pytest.mark.parametrize("case", ["without a sender", "no Exception", "after its end", "not charged"])
def test_failures_that_are_not_charged_to_a_sender_fail_the_receiver(dispatcher: Dispatcher, case: str) -> None:
    shared, sender, parent = Shared(), Shared(), Parent()
    ref, sender_ref = dispatcher.spawn(shared, dispatcher.spawn(parent)), dispatcher.spawn(sender)
    messages = {
        "without a sender": Divide(None, 0),
        "no Exception": Divide(sender_ref, 13),
        "after its end": Divide(sender_ref, -1),
        "not charged": Fail(),
    }
    ref.send(messages[case])
    ref.send(Divide(sender_ref, 0))
    assert dispatcher.run()
    assert sender.refused == []
    assert (len(parent.errors), dispatcher.failures, dispatcher.dead_letters.count) == (1, 1, 1)


def test_messages_that_cannot_be_handled_spend_no_restart_of_the_receiver(dispatcher: Dispatcher) -> None:
    made: list[Shared] = []

    def factory(_peers: object) -> Shared:
        made.append(Shared())
        return made[-1]

    budget = RestartBudget(times=1, within_seconds=1e9)
    supervisor = Supervisor((ChildSpec("shared", Shared, factory),), budget=budget)
    dispatcher.spawn(supervisor)
    sender = Shared()
    sender_ref = dispatcher.spawn(sender)
    for number in range(1000):
        supervisor.children["shared"].send(Divide(sender_ref, number % 2))
    while not dispatcher.run():
        pass
    assert (len(made), len(made[0].results), len(sender.refused)) == (1, 500, 500)
    for _ in range(2):
        supervisor.children["shared"].send(Fail())
        dispatcher.run()
    assert len(made) == 2, "a failure of its own is charged to the budget"
    assert supervisor.actor_ref.is_stopped()


# The end


def answer_of(future: pykka.Future[object]) -> object:
    try:
        return future.get(timeout=0)
    except pykka.ActorDeadError:
        return "refused"


def test_close_refuses_every_question_wherever_it_waits(dispatcher: Dispatcher) -> None:
    idle = dispatcher.spawn(Listener())
    addressed: ActorRef = dispatcher.address(Listener, dispatcher.spawn(Indifferent()))
    in_a_mailbox = idle.ask(Work(1), block=False)
    at_an_address = addressed.ask(Work(2), block=False)
    dispatcher._take_posted()
    posted = idle.ask(Work(3), block=False)
    dispatcher.close()
    dispatcher.close()
    after_the_end = idle.ask(Work(4), block=False)
    assert [answer_of(f) for f in (in_a_mailbox, at_an_address, posted, after_the_end)] == ["refused"] * 4
    assert not idle.is_alive()


def test_no_actor_runs_after_close_and_all_mail_is_counted_as_dead_letters(dispatcher: Dispatcher) -> None:
    listener = Listener()
    ref = dispatcher.spawn(listener)
    ref.send(Work(1))
    ref.notify(Urgent(2))
    dispatcher.close()
    ref.send(Work(3))
    dispatcher.post(ref, Work(4))
    dispatcher.spawn(listener).send(Work(5))
    assert dispatcher.run()
    assert listener.log == []
    assert dispatcher.dead_letters.count == 5


def test_close_within_a_handler_leaves_no_mail_behind(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Listener())
    ref.send(Close())
    other = dispatcher.spawn(Listener())
    other.send(Work(1))
    other.send(Work(2))
    assert dispatcher.run()
    assert dispatcher.dead_letters.count == 2
    assert dispatcher.statistics()["actors_with_mail"] == 0
