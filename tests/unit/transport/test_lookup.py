"""Whether a host name can be resolved. A name with a label that is too long never can, and no name server is asked."""

from __future__ import annotations

import socket

import pytest

from scaler.endpoint import Endpoint
from scaler.transport.lookup import Lookup, why_unknown

UNKNOWN = f"{'x' * 64}.invalid"


def looked_up(lookup: Lookup) -> str:
    lookup.begin()
    lookup.wait(60)
    return lookup.problem


def test_the_problem_of_an_unknown_host_names_it_and_a_remedy() -> None:
    problem = looked_up(Lookup(Endpoint.parse(f"tcp://{UNKNOWN}:1")))
    assert problem.startswith(f"this machine cannot resolve the host name {UNKNOWN!r} (")
    assert problem.endswith(f"(getent hosts {UNKNOWN}), or give an IP address")
    assert "no-such-host.invalid" in why_unknown("no-such-host.invalid")


@pytest.mark.parametrize(
    "address", ["tcp://localhost:1", "tcp://127.0.0.1:1", "tcp://[::1]:1", "ipc:///nowhere/socket", "inproc://a", ""]
)
def test_an_address_without_a_host_name_is_not_looked_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "getaddrinfo")
    assert looked_up(Lookup(Endpoint.parse(address))) == ""


def test_a_host_name_that_resolves_later_is_no_longer_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    lookup = Lookup(Endpoint.parse(f"tcp://{UNKNOWN}:1"), reported.append)
    assert looked_up(lookup) == looked_up(lookup) != ""
    assert len(reported) == 1
    with monkeypatch.context() as dns:
        dns.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: [])
        assert looked_up(lookup) == ""
    assert len(reported) == 1
    assert looked_up(lookup) != ""
    assert len(reported) == 2
