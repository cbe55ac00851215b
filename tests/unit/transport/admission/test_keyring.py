"""Which key is tried, and how refusals are interpreted, mostly without a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import zmq

from scaler.endpoint import Endpoint
from scaler.keys.folder import KeyPair
from scaler.keys.key_file import KeyFile
from scaler.transport.admission import listener_probe
from scaler.transport.admission.keyring import NO_LONGER_LISTED, NOT_LISTED, SILENT_REFUSALS, Keyring

AT = Endpoint.parse("tcp://10.0.0.5:2345")
AUTH, PROTOCOL = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH), int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
SILENT = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
MISMATCH = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_listener_probe.py` tests what real listeners answer."""
    listens_with(monkeypatch, "")


def listens_with(monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    """Have the listener at the address report its mechanism at once."""

    def ask(question: listener_probe.ListenerProbe) -> None:
        question.mechanism = mechanism

    monkeypatch.setattr(listener_probe.ListenerProbe, "ask", ask)


def key(name: str, n_servers: int = 1) -> KeyFile:
    own, servers = KeyPair.new(), tuple(KeyPair.new().public for _ in range(n_servers))
    return KeyFile("client", name, (), servers, own.public, own.secret, Path(f"/keys/{name}.json"))


def ring(*keys: KeyFile) -> Keyring:
    return Keyring(AT, lambda: keys)


class Recorder:
    """Notes what a socket would show; that real ones do is in `test_gate.py`."""

    def __init__(self) -> None:
        self.options: dict[int, str] = {}

    def setsockopt_string(self, option: int, value: str) -> None:
        self.options[option] = value


def lent(keyring: Keyring) -> tuple[str, str]:
    """Return the keys that a socket presents now: that of the scheduler, and its own."""
    socket = Recorder()
    keyring.apply_to(cast("Any", socket))
    return socket.options.get(zmq.CURVE_SERVERKEY, ""), socket.options.get(zmq.CURVE_PUBLICKEY, "")


def test_a_socket_without_keys_presents_none() -> None:
    assert lent(ring()) == ("", "")


def test_a_socket_presents_the_likeliest_key_and_after_a_refusal_the_next() -> None:
    first, second = key("first"), key("second", n_servers=2)
    keyring = ring(first, second)
    seen = []
    for _ in range(3):
        seen.append(lent(keyring))
        assert not keyring.refusal
        keyring.failed(AUTH, NOT_LISTED)
    tries = (first, first.servers[0]), (second, second.servers[0]), (second, second.servers[1])
    assert seen == [(server, each.public) for each, server in tries]
    assert "not on the list" in keyring.refusal


@pytest.mark.parametrize(
    ("event", "value", "text"),
    [
        (AUTH, NOT_LISTED, "is not on the list of the scheduler at tcp://10.0.0.5:2345"),
        (AUTH, NO_LONGER_LISTED, "it was revoked or has expired"),
        (PROTOCOL, MISMATCH, "has no keys, though /keys/a.json"),
    ],
)
def test_each_refusal_has_its_own_text(event: int, value: int, text: str) -> None:
    keyring = ring(key("a"))
    keyring.failed(event, value)
    assert text in keyring.refusal
    assert "/keys/a.json" in keyring.refusal


def test_silence_of_a_listener_that_does_not_greet_is_not_a_refusal() -> None:
    """Such as a tunnel whose scheduler is restarted."""
    keyring = ring(key("a"))
    for _ in range(10 * SILENT_REFUSALS):
        keyring.failed(SILENT, 32)
    assert not keyring.refusal


def test_keys_that_the_scheduler_created_later_are_found() -> None:
    found: list[KeyFile] = []
    keyring = Keyring(AT, lambda: found)
    found.append(key("new"))
    keyring.failed(PROTOCOL, MISMATCH)
    assert not keyring.refusal
    assert lent(keyring) == (found[0].servers[0], found[0].public)


def test_repeated_silence_counts_as_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    listens_with(monkeypatch, "CURVE")
    keyring = ring(key("a"))
    for _ in range(SILENT_REFUSALS - 1):
        keyring.failed(SILENT, 32)
        assert not keyring.refusal
    keyring.reset()
    for _ in range(SILENT_REFUSALS):
        assert not keyring.refusal
        keyring.failed(SILENT, 32)
    assert "is not the scheduler that the key in /keys/a.json" in keyring.refusal


def test_of_several_refusals_the_most_specific_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    listens_with(monkeypatch, "CURVE")
    keyring = ring(key("a"), key("b"), key("c"))
    keyring.failed(AUTH, NOT_LISTED)
    keyring.failed(AUTH, NO_LONGER_LISTED)
    for _ in range(SILENT_REFUSALS):
        keyring.failed(SILENT, 32)
    assert "/keys/b.json" in keyring.refusal
    assert "revoked" in keyring.refusal


@pytest.mark.parametrize(
    ("event", "value", "is_certain"),
    [(AUTH, NO_LONGER_LISTED, True), (AUTH, NOT_LISTED, True), (PROTOCOL, MISMATCH, False)],
)
def test_only_a_refusal_of_the_key_by_the_scheduler_is_certain_and_retry_tries_all_keys_again(
    event: int, value: int, is_certain: bool
) -> None:
    keyring = ring(key("a"), key("b"))
    first = lent(keyring)
    for _ in range(2):
        keyring.failed(event, value)
    assert keyring.refusal
    assert keyring.is_refused_by_scheduler == is_certain
    keyring.retry()
    assert (keyring.refusal, keyring.is_refused_by_scheduler) == ("", False)
    assert lent(keyring) == first


def test_without_a_key_silence_is_not_a_refusal_and_a_mismatch_is() -> None:
    keyring = ring()
    for _ in range(10):
        keyring.failed(SILENT, 32)
    assert not keyring.refusal
    keyring.failed(PROTOCOL, MISMATCH)
    assert "accepts only peers with a key" in keyring.refusal
    assert "SCALER_KEY_FILE" in keyring.refusal


def test_the_key_files_are_read_again_when_no_key_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    listens_with(monkeypatch, "CURVE")
    old, new = key("a"), key("a")
    files = [old]
    keyring = Keyring(AT, lambda: files)
    files = [new, old]
    for _ in range(SILENT_REFUSALS):
        keyring.failed(SILENT, 32)
    assert not keyring.refusal
    assert lent(keyring)[0] == new.servers[0]
    for _ in range(4 * SILENT_REFUSALS):  # each is tried twice
        assert not keyring.refusal
        keyring.failed(SILENT, 32)
    assert "has a new key" in keyring.refusal


def test_keys_tried_at_another_scheduler_of_the_address_are_tried_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listens_with(monkeypatch, "CURVE")
    both = key("a", n_servers=2)
    keyring = ring(both)
    for server in (*both.servers, *both.servers):
        assert not keyring.refusal
        assert lent(keyring)[0] == server
        for _ in range(SILENT_REFUSALS):
            keyring.failed(SILENT, 32)
    assert "is not the scheduler that the key in /keys/a.json (client a) is for" in keyring.refusal
