"""Actor and ActorRef: handlers, addresses, questions."""

from __future__ import annotations

from typing import Any

import pykka
import pytest

from scaler.kit import Actor, ActorRef, ActorStoppedError, Dispatcher, UnknownMessageError, handles
from scaler.kit.lifecycle import ChildFailed
from scaler.message import message
from tests.support.virtual_clock import VirtualClock


@message
class Add:
    amount: int


@message
class Multiply:
    factor: int


@message
class Divide:
    divisor: int


class LoudAdd(Add):
    """A subclass of a message type: another type."""


class Sum(Actor):
    def __init__(self, total: int = 0) -> None:
        self.total = total

    @handles(Add)
    def add(self, message: Add) -> int:
        self.total += message.amount
        return self.total

    @handles(Divide)
    def divide(self, message: Divide) -> int:
        self.total //= message.divisor
        return self.total


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher(VirtualClock())


def test_a_message_reaches_the_handler_of_its_type(dispatcher: Dispatcher) -> None:
    actor = Sum()
    dispatcher.spawn(actor).send(Add(3))
    dispatcher.run()
    assert actor.total == 3


def test_one_method_may_handle_several_types(dispatcher: Dispatcher) -> None:
    seen = []

    class Both(Actor):
        @handles(Add, Multiply)
        def both(self, message: Any) -> None:
            seen.append(message)

    ref = dispatcher.spawn(Both())
    ref.send(Add(1))
    ref.send(Multiply(2))
    dispatcher.run()
    assert seen == [Add(1), Multiply(2)]


def test_a_message_without_a_handler_is_a_failure_of_the_receiver(dispatcher: Dispatcher) -> None:
    errors: list[BaseException] = []
    dispatcher = Dispatcher(VirtualClock(), on_escalation=errors.append)
    ref = dispatcher.spawn(Sum())
    ref.send(Multiply(2))
    dispatcher.run()
    assert ref.is_stopped()
    assert isinstance(errors[0], UnknownMessageError)
    assert "Sum has no handler for Multiply" in str(errors[0])


def test_a_subclass_of_a_message_is_another_message(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Sum())
    ref.send(LoudAdd(1))
    dispatcher.run()
    assert ref.is_stopped()


def test_handlers_are_inherited_overridden_and_added(dispatcher: Dispatcher) -> None:
    class Calculator(Sum):
        def add(self, message: Add) -> int:  # not marked again
            return super().add(Add(message.amount * 10))

        @handles(Multiply)
        def multiply(self, message: Multiply) -> None:
            self.total *= message.factor

    actor = Calculator()
    ref = dispatcher.spawn(actor)
    ref.send(Add(1))
    ref.send(Multiply(2))
    dispatcher.run()
    assert actor.total == 20
    assert Multiply not in Sum.handlers


def test_a_subclass_may_handle_a_type_by_another_method(dispatcher: Dispatcher) -> None:
    class Negative(Sum):
        @handles(Add)
        def subtract(self, message: Add) -> None:
            self.total -= message.amount

    actor = Negative()
    dispatcher.spawn(actor).send(Add(1))
    dispatcher.run()
    assert actor.total == -1


def test_a_class_with_two_handlers_for_one_type_is_refused() -> None:
    with pytest.raises(TypeError, match="two handlers for Add: first and second"):

        class Undecided(Actor):
            @handles(Add)
            def first(self, message: Add) -> None: ...

            @handles(Add)
            def second(self, message: Add) -> None: ...


def test_an_actor_may_send_messages_to_itself(dispatcher: Dispatcher) -> None:
    class Countdown(Actor):
        def __init__(self) -> None:
            self.seen: list[int] = []

        @handles(Add)
        def count(self, message: Add) -> None:
            self.seen.append(message.amount)
            if message.amount:
                self.actor_ref.send(Add(message.amount - 1))

    actor = Countdown()
    dispatcher.spawn(actor).send(Add(3))
    assert dispatcher.run()
    assert actor.seen == [3, 2, 1, 0]


def test_a_failed_child_is_reported_to_the_actor_that_spawned_it(dispatcher: Dispatcher) -> None:
    class Parent(Actor):
        def __init__(self) -> None:
            self.failed: list[ChildFailed] = []

        def on_start(self) -> None:
            self.child = self.spawn(Sum())

        @handles(ChildFailed)
        def child_failed(self, failed: ChildFailed) -> None:
            self.failed.append(failed)

    parent = Parent()
    dispatcher.spawn(parent)
    parent.child.send(Divide(0))
    dispatcher.run()
    assert parent.failed[0].child is parent.child
    assert isinstance(parent.failed[0].error, ZeroDivisionError)


def test_a_failed_child_whose_parent_does_not_handle_failures_fails_its_parent(dispatcher: Dispatcher) -> None:
    parent = dispatcher.spawn(Sum())
    dispatcher.spawn(Sum(), parent).send(Divide(0))
    dispatcher.run()
    assert parent.is_stopped()


def test_stop_handles_waiting_mail_and_then_ends(dispatcher: Dispatcher) -> None:
    class Stopping(Sum):
        @handles(Multiply)
        def multiply(self, message: Multiply) -> None:
            self.stop()

    actor = Stopping()
    ref = dispatcher.spawn(actor)
    for mail in (Multiply(0), Add(1), Add(2)):
        ref.send(mail)
    dispatcher.run()
    assert actor.total == 3
    assert ref.is_stopped()
    assert dispatcher.dead_letters.count == 0


def test_stop_now_leaves_waiting_mail_as_dead_letters(dispatcher: Dispatcher) -> None:
    class Stopping(Sum):
        @handles(Multiply)
        def multiply(self, message: Multiply) -> None:
            self.stop_now()

    actor = Stopping()
    ref = dispatcher.spawn(actor)
    for mail in (Multiply(0), Add(1), Add(2)):
        ref.send(mail)
    dispatcher.run()
    assert actor.total == 0
    assert dispatcher.dead_letters.count == 2
    assert dispatcher.statistics()["messages_handled"] == 1


def test_stop_now_in_on_stop_and_after_the_end_is_ignored(dispatcher: Dispatcher) -> None:
    class Eager(Actor):
        def __init__(self) -> None:
            self.ends = 0

        def on_stop(self) -> None:
            self.ends += 1
            self.stop_now()

    actor = Eager()
    ref = dispatcher.spawn(actor)
    dispatcher.stop(ref)
    actor.stop_now()
    assert actor.ends == 1
    assert dispatcher.failures == 0


def test_mail_to_a_stopped_actor_is_a_counted_dead_letter(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Sum())
    dispatcher.stop(ref)
    ref.send(Add(1))
    ref.notify(Add(1))
    dispatcher.post(ref, Add(1))
    dispatcher.run()
    assert dispatcher.dead_letters.count == 3


def test_an_answer_is_sent_to_the_asker(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Sum(4))
    answer = ref.ask(Add(1), block=False)
    dispatcher.run()
    assert answer.get(timeout=0) == 5


def test_an_exception_is_sent_to_the_asker_and_the_actor_lives(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Sum())
    answer = ref.ask(Divide(0), block=False)
    unknown = ref.ask(Multiply(0), block=False)
    dispatcher.run()
    with pytest.raises(ZeroDivisionError):
        answer.get(timeout=0)
    with pytest.raises(UnknownMessageError):
        unknown.get(timeout=0)
    assert ref.is_alive()
    assert dispatcher.failures == 0


def test_a_base_exception_is_sent_to_the_asker_and_ends_the_actor(dispatcher: Dispatcher) -> None:
    class Quitter(Actor):
        @handles(Add)
        def quit(self, message: Add) -> None:
            raise SystemExit(3)

    ref = dispatcher.spawn(Quitter())
    answer = ref.ask(Add(1), block=False)
    dispatcher.run()
    with pytest.raises(SystemExit):
        answer.get(timeout=0)
    assert ref.is_stopped()


def test_a_question_that_was_not_reached_before_the_end_is_refused(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Sum())
    ref.tell(Divide(0))
    answer = ref.ask(Add(1), block=False)
    dispatcher.run()
    with pytest.raises(pykka.ActorDeadError):
        answer.get(timeout=0)


def test_addresses_are_equal_only_to_themselves(dispatcher: Dispatcher) -> None:
    first, second = dispatcher.spawn(Sum()), dispatcher.spawn(Sum())
    assert first != second
    assert len({first, second, first}) == 2


def test_the_address_is_known_to_the_actor_from_its_start(dispatcher: Dispatcher) -> None:
    class Introduced(Actor):
        def on_start(self) -> None:
            self.known: ActorRef = self.actor_ref
            self.started_at = self.now()

    actor = Introduced()
    assert dispatcher.spawn(actor) is actor.known
    assert actor.started_at == 0.0


def test_an_actor_names_itself_before_and_after_it_was_spawned(dispatcher: Dispatcher) -> None:
    actor = Sum()
    assert str(actor) == "Sum that was not spawned"
    ref = dispatcher.spawn(actor)
    assert str(actor) == str(ref)
    assert str(ref).startswith("Sum ")
    assert ref.actor_urn.startswith("urn:actor:Sum:")


def test_starting_an_actor_as_in_pykka_raises_and_names_spawn() -> None:
    with pytest.raises(TypeError, match=r"dispatcher\.spawn\(Sum"):
        Sum.start()
    with pytest.raises(ActorStoppedError):
        Sum._create_actor_inbox()


def test_the_inbox_takes_mail_and_cannot_be_read(dispatcher: Dispatcher) -> None:
    ref = dispatcher.spawn(Sum())
    assert ref.actor_inbox.empty()
    ref.send(Add(1))
    assert not ref.actor_inbox.empty()
    with pytest.raises(ActorStoppedError):
        ref.actor_inbox.get()
