"""What a listener reveals before any key is presented, with real sockets."""

from __future__ import annotations

import socket

import zmq

from scaler.endpoint import Endpoint
from scaler.transport.admission.listener_probe import ListenerProbe, mechanism_at
from tests.support.processes import free_address, wait_until


def listening(context: zmq.Context[zmq.Socket[bytes]], *, has_keys: bool) -> tuple[zmq.Socket[bytes], Endpoint]:
    listener = context.socket(zmq.ROUTER)
    listener.setsockopt(zmq.LINGER, 0)
    if has_keys:
        listener.setsockopt(zmq.CURVE_SERVER, 1)
        listener.setsockopt(zmq.CURVE_SECRETKEY, zmq.curve_keypair()[1])
    listener.bind(free_address())
    return listener, Endpoint.parse(listener.getsockopt_string(zmq.LAST_ENDPOINT))


def test_a_probe_finds_whether_a_listener_has_keys() -> None:
    with zmq.Context() as context:
        with_keys, keyed = listening(context, has_keys=True)
        without, bare = listening(context, has_keys=False)
        assert [mechanism_at(keyed), mechanism_at(bare)] == ["CURVE", "NULL"]
        with_keys.close()
        without.close()


def test_a_probe_finds_no_mechanism_without_a_zeromq_listener() -> None:
    assert mechanism_at(Endpoint.parse(free_address())) == ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        question = ListenerProbe(Endpoint.parse(f"tcp://127.0.0.1:{server.getsockname()[1]}"))
        question.ask()
        question.ask()  # a probe is already running
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()
        wait_until(lambda: not question._thread.is_alive(), "its thread to end")  # type: ignore[union-attr]
        assert question.mechanism == ""
        server.setblocking(False)
        try:
            server.accept()
        except BlockingIOError:
            pass
        else:
            raise AssertionError("it asked twice at a time")
