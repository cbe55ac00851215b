from __future__ import annotations

from pathlib import Path

import pytest

from scaler.endpoint import ANYWHERE, Endpoint, in_process_address, ipc_address


@pytest.mark.parametrize(
    ("address", "scheme", "host", "port", "place"),
    [
        ("tcp://127.0.0.1:2345", "tcp", "127.0.0.1", "2345", ""),
        ("tcp://[::1]:*", "tcp", "[::1]", "*", ""),
        ("ipc:///tmp/a b", "ipc", "", "", "/tmp/a b"),
        ("inproc://here", "inproc", "", "", "here"),
        ("http://here:1", "", "", "", ""),
        ("nonsense", "", "", "", ""),
    ],
)
def test_an_address_is_parsed_into_its_parts(address: str, scheme: str, host: str, port: str, place: str) -> None:
    assert Endpoint.parse(address) == Endpoint(address, scheme, host, port, place)


@pytest.mark.parametrize(
    ("address", "is_near", "others"),
    [
        ("tcp://127.0.0.1:1", True, "every user of this machine"),
        ("tcp://127.9.9.9:1", True, "every user of this machine"),
        ("tcp://localhost:1", True, "every user of this machine"),
        ("tcp://[::1]:1", True, "every user of this machine"),
        ("tcp://localhost.example.org:1", False, "every machine that reaches it"),
        ("tcp://0.0.0.0:1", False, "every machine that reaches it"),
        ("tcp://*:1", False, "every machine that reaches it"),
        ("ipc:///tmp/s", True, ""),
        ("inproc://a", False, ""),
    ],
)
def test_an_endpoint_describes_who_can_connect(address: str, is_near: bool, others: str) -> None:
    endpoint = Endpoint.parse(address)
    assert (endpoint.is_near, endpoint.who_can_connect()) == (is_near, others)


def test_only_an_ipc_address_has_a_file() -> None:
    assert Endpoint.parse(ipc_address("/tmp/s")).file == Path("/tmp/s")
    assert [Endpoint.parse(address).file for address in (ANYWHERE, "tcp://a:1", in_process_address("a"))] == [None] * 3


def test_the_monitor_endpoint_keeps_the_trusted_users() -> None:
    for address in ("ipc:///tmp/s", "tcp://a:1"):
        endpoint = Endpoint.parse(address)
        assert endpoint.trusting(()) is endpoint
        monitor = endpoint.trusting((4711,)).monitor
        assert monitor is not None
        assert (monitor.trust_users, endpoint.trust_users) == ((4711,), ())


def test_only_inproc_stays_in_the_process() -> None:
    assert Endpoint.parse(in_process_address("a")).is_in_process
    assert not Endpoint.parse("ipc:///a").is_in_process


def test_a_host_that_is_a_name_has_to_be_looked_up() -> None:
    addresses = [
        "tcp://rome07:1",
        "tcp://localhost:1",
        "tcp://10.0.0.1:1",
        "tcp://[::1]:1",
        "tcp://*:1",
        "ipc:///tmp/s",
    ]
    assert [Endpoint.parse(address).has_name for address in addresses] == [True, True, False, False, False, False]


def test_the_path_of_an_address_keeps_its_bytes_even_if_they_are_not_text() -> None:
    for path in (b"/tmp/plain", "/tmp/größe".encode(), b"/tmp/gr\xf6\xdfe"):
        for text in (path.decode("utf-8", "surrogateescape"), path.decode("ascii", "surrogateescape")):
            assert Endpoint.parse(ipc_address(text)).encoded == b"ipc://" + path
