from __future__ import annotations

from dataclasses import replace
from typing import Any

from scaler.ids import TaskId
from scaler.wire.codec.codec import decode, numbers
from scaler.wire.messages.client import ClientHello, TaskCancel, TaskResult
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.session.dialling import DialledSession
from scaler.wire.session.pipe import Pipe

HELLO = ClientHello(1, "0", "3", "3", b"c" * 16)


def cancel(number: int) -> TaskCancel:
    return TaskCancel(TaskId(number.to_bytes(16, "big")))


def hello_of(session: DialledSession) -> Any:
    header, frames = session.hello(HELLO)
    assert numbers(CLIENT_TO_SCHEDULER, header) == (0, 0), "it belongs to no session yet"
    ((hello,),) = decode(CLIENT_TO_SCHEDULER, header, frames)
    return hello


def new_session() -> DialledSession:
    return DialledSession(SCHEDULER_TO_CLIENT, CLIENT_TO_SCHEDULER)


def started_session() -> DialledSession:
    session = new_session()
    session.begin()
    return session


def test_the_first_hello_starts_a_new_session() -> None:
    session = new_session()
    assert hello_of(session) == replace(HELLO, dial=1)
    assert not session.may_resume(resumed=1)


def test_a_later_hello_offers_to_resume_and_acknowledges_received_messages() -> None:
    session, scheduler = started_session(), Pipe(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
    scheduler.put(TaskResult(TaskId(b"t" * 16), 0, b"", 0))
    session.pipe.receive(*scheduler.take()[0])
    hello = hello_of(session)
    assert (hello.resumes, hello.heard) == (1, 1)
    assert session.may_resume(resumed=1)
    assert not session.may_resume(resumed=0)


def test_a_spoiled_session_starts_anew_on_the_next_connection() -> None:
    session = started_session()
    session.spoil()
    assert hello_of(session) == replace(HELLO, dial=1)
    assert not session.may_resume(resumed=1)
    session.begin()
    assert hello_of(session).resumes == 1


def test_each_hello_has_the_number_of_its_connection() -> None:
    session = new_session()
    dials = [hello_of(session).dial]
    session.begin()
    dials += [hello_of(session).dial, hello_of(session).dial]
    assert dials == [1, 2, 3]


def test_starting_a_new_session_returns_unacknowledged_items() -> None:
    session = started_session()
    session.pipe.put(cancel(1))
    session.pipe.take()
    session.pipe.put(cancel(2))
    assert session.begin() == [cancel(1), cancel(2)]
    assert session.pipe.last_sent == 0
    assert session.pipe.is_idle
