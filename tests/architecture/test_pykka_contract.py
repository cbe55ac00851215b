"""What we use of Pykka, public and private: a release that changes it fails here and not in a scheduler.

Private names: the three hooks of a runtime (`_create_actor_inbox`, `_create_future`, `_start_actor_loop`), `_stop`,
`_handle_receive`, `ActorRef._actor_weakref`, `messages._ActorStop`, and the two attributes of an envelope.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Iterator
from typing import Any

import pykka
import pytest
from pykka import messages

from scaler.kit import Actor, ActorRef, Dispatcher, handles
from scaler.message import message


@message
class Add:
    amount: int


class Adder(Actor):
    def __init__(self) -> None:
        self.total = 0
        self.handled_by: threading.Thread | None = None

    @handles(Add)
    def _add(self, add: Add) -> int:
        self.handled_by = threading.current_thread()
        return self.plus(add.amount)

    def plus(self, amount: int, times: int = 1) -> int:
        self.total += amount * times
        return self.total

    def fail(self) -> None:
        raise LookupError("from a method")


# Names and signatures


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_a_runtime_is_three_abstract_hooks_without_arguments() -> None:
    assert pykka.Actor.__abstractmethods__ == {"_create_actor_inbox", "_create_future", "_start_actor_loop"}
    assert isinstance(inspect.getattr_static(pykka.Actor, "_create_actor_inbox"), staticmethod)
    assert isinstance(inspect.getattr_static(pykka.Actor, "_create_future"), staticmethod)
    assert parameters(pykka.Actor._create_actor_inbox) == []
    assert parameters(pykka.Actor._create_future) == []
    assert parameters(pykka.Actor._start_actor_loop) == ["self"]


def test_the_hooks_of_a_life_have_the_signatures_we_override() -> None:
    assert parameters(pykka.Actor.on_start) == ["self"]
    assert parameters(pykka.Actor.on_stop) == ["self"]
    assert parameters(pykka.Actor.on_failure) == ["self", "exception_type", "exception_value", "traceback"]
    assert parameters(pykka.Actor.stop) == ["self"]
    assert parameters(pykka.Actor._stop) == ["self"]
    assert parameters(pykka.Actor._handle_receive) == ["self", "message"]


def test_the_methods_of_an_address_have_the_signatures_that_callers_know() -> None:
    assert parameters(ActorRef.tell) == ["self", "message"]
    assert parameters(ActorRef.ask) == ["self", "message", "block", "timeout"]
    assert parameters(ActorRef.stop) == ["self", "block", "timeout"]
    assert parameters(ActorRef.proxy) == ["self"]
    assert (ActorRef.tell, ActorRef.ask, ActorRef.stop, ActorRef.proxy) == (
        pykka.ActorRef.tell,
        pykka.ActorRef.ask,
        pykka.ActorRef.stop,
        pykka.ActorRef.proxy,
    )


def test_stop_is_a_message_of_a_private_type_without_fields() -> None:
    assert messages._ActorStop() == ()
    assert type(messages._ActorStop()) is messages._ActorStop


def test_proxies_send_messages_of_three_public_types() -> None:
    assert messages.ProxyCall._fields == ("attr_path", "args", "kwargs")
    assert messages.ProxyGetAttr._fields == ("attr_path",)
    assert messages.ProxySetAttr._fields == ("attr_path", "value")


def test_an_inbox_is_given_envelopes_with_a_message_and_perhaps_a_future() -> None:
    class Inbox(list[Any]):
        put = list.append

    class Ref(ActorRef):
        inbox = Inbox()
        actor_inbox = inbox  # type: ignore[assignment]

    ref = Ref(Adder, Dispatcher(time.monotonic), None)
    ref.tell("told")
    future = ref.ask("asked", block=False)
    told, asked = ref.inbox
    assert (told.message, told.reply_to) == ("told", None)
    assert (asked.message, asked.reply_to) == ("asked", future)


def test_a_future_is_set_once_to_a_value_or_to_exc_info() -> None:
    future: pykka.ThreadingFuture[int] = pykka.ThreadingFuture()
    future.set_exception((KeyError, KeyError("k"), None))
    with pytest.raises(KeyError):
        future.get(timeout=0)


# What works on our actors as Pykka documents it


@pytest.fixture
def adder() -> Iterator[ActorRef]:
    """The address of an actor whose dispatcher runs in a thread of its own."""
    woken, ended = threading.Event(), threading.Event()
    dispatcher = Dispatcher(time.monotonic, wake=woken.set)
    ref = dispatcher.spawn(Adder())

    def loop() -> None:
        while not ended.is_set():
            woken.wait()
            woken.clear()
            while not dispatcher.run():
                pass
        dispatcher.close()

    thread = threading.Thread(target=loop)
    thread.start()
    yield ref
    ended.set()
    woken.set()
    thread.join()


def test_our_address_is_a_pykka_address_and_our_actor_a_pykka_actor(adder: ActorRef) -> None:
    assert isinstance(adder, pykka.ActorRef)
    assert issubclass(adder.actor_class, pykka.Actor)
    assert adder.is_alive()
    assert not adder.actor_stopped.is_set()
    assert repr(adder) == f"<ActorRef for {adder}>"


def test_tell_returns_at_once_and_the_message_is_handled_in_the_dispatchers_thread(adder: ActorRef) -> None:
    assert adder.tell(Add(2)) is None  # type: ignore[func-returns-value]
    assert adder.ask(Add(3), timeout=10) == 5
    assert adder.proxy().handled_by.get(timeout=10) is not threading.current_thread()


def test_ask_blocks_for_the_answer_or_returns_a_future(adder: ActorRef) -> None:
    assert adder.ask(Add(1), timeout=10) == 1
    future = adder.ask(Add(1), block=False)
    assert isinstance(future, pykka.Future)
    assert future.get(timeout=10) == 2


def test_ask_gives_up_after_its_timeout() -> None:
    nobody_runs_it = Dispatcher(time.monotonic)
    with pytest.raises(pykka.Timeout):
        nobody_runs_it.spawn(Adder()).ask(Add(1), timeout=0.01)


def test_a_proxy_calls_methods_and_reads_and_sets_attributes(adder: ActorRef) -> None:
    proxy = adder.proxy()
    assert proxy.plus(2, times=3).get(timeout=10) == 6
    proxy.total = 40
    assert proxy.total.get(timeout=10) == 40
    proxy.plus.defer(1)
    assert proxy.total.get(timeout=10) == 41
    with pytest.raises(LookupError, match="from a method"):
        proxy.fail().get(timeout=10)
    assert adder.is_alive()
    with pytest.raises(AttributeError):
        _ = proxy.there_is_no_such_thing


def test_a_proxy_of_itself_works_inside_an_actor(adder: ActorRef) -> None:
    assert adder.proxy().actor_ref is adder


def test_stop_is_true_for_a_live_actor_and_false_for_a_dead_one(adder: ActorRef) -> None:
    adder.tell(Add(1))
    assert adder.stop(timeout=10) is True
    assert not adder.is_alive()
    assert adder.actor_stopped.is_set()
    assert adder.stop(timeout=10) is False


def test_two_threads_that_stop_an_actor_at_the_same_time_both_get_true() -> None:
    dispatcher = Dispatcher(time.monotonic)
    ref = dispatcher.spawn(Adder())
    first, second = ref.stop(block=False), ref.stop(block=False)
    late = ref.ask(Add(1), block=False)
    dispatcher.run()
    assert (first.get(timeout=0), second.get(timeout=0)) == (True, True)
    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=0)


def test_a_dead_actor_is_an_error_for_other_threads(adder: ActorRef) -> None:
    adder.stop(timeout=10)
    with pytest.raises(pykka.ActorDeadError):
        adder.tell(Add(1))
    with pytest.raises(pykka.ActorDeadError):
        adder.ask(Add(1), timeout=10)
    with pytest.raises(pykka.ActorDeadError):
        adder.proxy()


def test_our_actors_are_not_in_pykkas_registry(adder: ActorRef) -> None:
    assert pykka.ActorRegistry.get_all() == []
