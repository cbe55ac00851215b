from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.endpoint import Endpoint
from scaler.transport import trust
from scaler.transport.streams import ARE_SUPPORTED, Streams
from scaler.transport.trust import ListenerCheck, is_private, why_not_trusted
from scaler.transport.zeromq import ZeroMQ
from tests.support.another_user import NOBODY, Stranger, needs_root
from tests.support.processes import wait_until


@pytest.fixture
def stranger(shared: Path) -> Iterator[Stranger]:
    listens = Stranger(shared / "s")
    yield listens
    listens.close()


def endpoint_in(folder: Path) -> Endpoint:
    return Endpoint.parse(f"ipc://{folder}/s")


def asked(endpoint: Endpoint) -> str:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(endpoint.file))
        return why_not_trusted(endpoint, peer)


def test_a_listener_of_this_user_or_of_root_is_trusted(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(shared / "s"))
        listener.listen()
        assert asked(endpoint_in(shared)) == ""
        if os.geteuid() == 0:
            monkeypatch.setattr(os, "geteuid", lambda: 4711)
            assert asked(endpoint_in(shared)) == "", "root is trusted by all users"


@needs_root
@pytest.mark.usefixtures("stranger")
def test_another_user_is_trusted_only_if_named(shared: Path) -> None:
    endpoint = endpoint_in(shared)
    assert asked(endpoint) == (
        f"another user, uid 65534 (nobody), listens at {endpoint}; nothing was sent there. If you trust that user, "
        "add it to trust_users (--trust-users 65534, SCALER_TRUST_USERS=65534): its answers can run code here, as "
        "uid 0 (root); in a container that uid may stand for any user of the host"
    )
    assert asked(endpoint.trusting((4711, NOBODY))) == ""
    assert asked(endpoint.trusting((4711,))) != ""


def test_only_a_private_folder_is_trusted_if_the_system_does_not_report_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "KNOWS_PEER_USERS", False)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        assert asked(endpoint_in(tmp_path)) == ""
        tmp_path.chmod(0o1777)
        assert "this system does not report which user listens at" in asked(endpoint_in(tmp_path).trusting((NOBODY,)))


def test_a_folder_is_private_if_no_other_user_can_write_or_replace_it(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    assert is_private(inner)
    for folder in (inner, inner.parent):
        for mode in (0o777, 0o757):
            folder.chmod(mode)
            assert not is_private(inner), f"{folder} {mode:o}"
        folder.chmod(0o755)
    inner.parent.chmod(0o1777)
    assert is_private(inner), "in a folder such as /tmp, users can replace only their own files"
    inner.chmod(0o1777)
    assert not is_private(inner)
    inner.chmod(0o700)
    (tmp_path / "link").symlink_to(inner)
    assert is_private(tmp_path / "link")
    assert not is_private(tmp_path / "none")
    if os.geteuid() == 0:
        os.chown(inner.parent, NOBODY, NOBODY)
        assert not is_private(inner)


def test_the_check_of_a_connection_ends_with_it(shared: Path) -> None:
    check = ListenerCheck(endpoint_in(shared))
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as peer:
        listener.bind(str(shared / "s"))
        listener.listen()
        peer.connect(str(shared / "s"))
        assert not check.is_passed
        check.open(peer.fileno())
        assert check.is_passed
        check.close(peer.fileno())
        assert not check.is_passed
        descriptor = peer.detach()
        os.close(descriptor)
        check.open(descriptor)
        assert not check.is_passed


@needs_root
def test_over_zeromq_no_message_goes_to_another_users_listener_in_a_shared_folder(
    shared: Path, stranger: Stranger
) -> None:
    transport = ZeroMQ(endpoint_in(shared))
    dialer = transport.dial()
    try:
        dialer.send(b"hello" * 1000, [])
        wait_until(dialer.was_cut, "it has hung up")
        assert "another user, uid 65534" in transport.refusal
        assert dialer.receive() is None
    finally:
        dialer.close()
        transport.close()
    (received,) = stranger.received()
    assert int(received.split()[1]) <= 64, "the greeting of ZeroMQ"


def test_over_zeromq_messages_wait_for_the_check_in_a_shared_folder(shared: Path) -> None:
    transport = ZeroMQ(endpoint_in(shared))
    first = transport.dial()
    wait_until(first.was_cut, "nobody listens")
    first.close()
    listener = transport.listen(20)
    dialer = transport.dial()
    try:
        dialer.send(b"hello", [b"frame"])
        dialer.was_cut()
        received = wait_until(lambda: dialer.was_cut() or listener.receive(), "the message has arrived")
        assert received[1:] == (b"hello", [b"frame"])
        listener.send(received[0], b"answer", [])
        assert wait_until(dialer.receive, "the answer has arrived") == (b"answer", [])
        assert transport.refusal == ""
        if os.geteuid() == 0:
            assert listener.user_of(received[0]) == "root"
    finally:
        dialer.close()
        listener.close()
        transport.close()


@needs_root
@pytest.mark.skipif(not ARE_SUPPORTED, reason="there are no streams here")
def test_a_dialer_that_waits_sends_no_message_to_a_listener_of_another_user(shared: Path) -> None:
    transport = Streams(endpoint_in(shared))
    dialer = transport.dial()
    stranger = None
    try:
        dialer.send(b"hello", [])
        assert (dialer.was_cut(), transport.refusal) == (False, "")
        stranger = Stranger(shared / "s")
        wait_until(dialer.was_cut, "it has hung up")
        assert "another user, uid 65534" in transport.refusal
        assert not transport.is_refused_by_scheduler
        dialer.send(b"hello", [])
        assert dialer.receive() is None
        assert stranger.received() == {"received 0 bytes"}
    finally:
        dialer.close(linger_seconds=1)
        if stranger is not None:
            stranger.close()
