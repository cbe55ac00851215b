from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any

import pytest

from scaler.endpoint import Endpoint
from scaler.transport.interface import AddressInUseError
from scaler.transport.opening import open_transport
from scaler.transport.zeromq import ZeroMQ

SECONDS = 10.0


def context_of(transport: object) -> Any:
    assert isinstance(transport, ZeroMQ)
    return transport._context


def soon(look: Callable[[], Any], descriptor: int) -> Any:
    deadline = time.monotonic() + SECONDS
    while (seen := look()) is None:
        assert time.monotonic() < deadline
        select.select([descriptor], [], [], 0.02)
    return seen


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "inproc://here"])
def test_transports_send_messages_both_ways_and_release_their_contexts(address: str) -> None:
    scheduler = open_transport(Endpoint.parse(address))
    listener = scheduler.listen(60)
    peer = open_transport(listener.endpoint)
    dialer = peer.dial()
    dialer.send(b"question", [b"frame"])
    connection, header, frames = soon(listener.receive, listener.descriptor)
    assert (header, [bytes(frame) for frame in frames]) == (b"question", [b"frame"])
    listener.send(connection, b"answer", [])
    assert soon(dialer.receive, dialer.descriptor) == (b"answer", [])
    dialer.close()
    listener.close()
    contexts = context_of(scheduler), context_of(peer)
    peer.close()
    scheduler.close()
    assert all(context.closed for context in contexts)


def test_listening_at_an_address_in_use_raises() -> None:
    first, second = open_transport(Endpoint.parse("ipc://*")), None
    listener = first.listen(60)
    second = open_transport(listener.endpoint)
    with pytest.raises(AddressInUseError):
        second.listen(60)
    second.close()
    listener.close()
    first.close()


def test_a_malformed_address_cannot_be_dialled() -> None:
    transport = open_transport(Endpoint.parse("nonsense"))
    with pytest.raises(OSError):
        transport.dial()
    transport.close()


def test_inproc_transports_share_a_context_while_any_of_them_is_open() -> None:
    first, second, other = (
        open_transport(Endpoint.parse("inproc://a")),
        open_transport(Endpoint.parse("inproc://b")),
        open_transport(Endpoint.parse("tcp://127.0.0.1:1")),
    )
    assert context_of(first) is context_of(second)
    assert context_of(other) is not context_of(first)
    second.close()
    other.close()
    assert context_of(other).closed
    assert not context_of(first).closed
    third = open_transport(Endpoint.parse("inproc://c"))
    assert context_of(third) is context_of(first)
    third.close()
    first.close()
    assert context_of(first).closed


def test_an_inproc_transport_gets_a_new_context_after_the_last_was_closed() -> None:
    first = open_transport(Endpoint.parse("inproc://a"))
    first.close()
    second = open_transport(Endpoint.parse("inproc://a"))
    assert context_of(second) is not context_of(first)
    second.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_its_own_context() -> None:
    transport = open_transport(Endpoint.parse("inproc://a"))
    pid = os.fork()
    if pid == 0:
        os._exit(context_of(open_transport(Endpoint.parse("inproc://a"))) is context_of(transport))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    transport.close()
