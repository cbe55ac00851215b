"""AgentEdge: one flush for a turn, new connections, and undecodable bytes, over a real socket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.agent.edge import AgentEdge
from scaler.agent.messages import LinkHeard, LinkLost, LinkUnreadable
from scaler.endpoint import Endpoint
from scaler.ids import ObjectId, TaskId
from scaler.process.shell import Shell
from scaler.transport.opening import open_transport
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import HelloReply, InstructionKind, ObjectInstruction, ObjectRequest
from scaler.wire.messages.worker import DisconnectResponse, RunResult, WorkerHeartbeat, WorkerHello
from tests.support.fake_scheduler_for_agents import FakeScheduler
from tests.support.recorder import Recorder

HELLO = WorkerHello(1, "0", "3", "3", b"n" * 16, "w", b"")


class Bench:
    def __init__(self, scheduler: FakeScheduler) -> None:
        self.scheduler = scheduler
        self.shell = Shell("builtin")
        self.link = Recorder()
        self.ref = self.shell.dispatcher.spawn(self.link)
        self.edge = AgentEdge(self.shell, open_transport(Endpoint.parse(scheduler.address)))

    def greet(self) -> None:
        """Open a connection, send the hello, and wait for the reply."""
        self.edge.connect(self.ref)
        self.edge.send_hello(HELLO)
        assert self.edge.flush()
        hellos = len(self.scheduler.hellos)
        self.scheduler.until(lambda: len(self.scheduler.hellos) > hellos)
        self.until_received()
        self.edge.begin()

    def until_received(self) -> bool:
        """Receive until a message has arrived. Return whether the last call of `receive` reported more to do."""
        deadline = time.monotonic() + 20
        before = (len(self.link.messages), self.edge.undecodable)
        is_more = False
        while (len(self.link.messages), self.edge.undecodable) == before:
            assert time.monotonic() < deadline
            self.scheduler.poll(0.001)
            self.look_at_descriptors()
            is_more = self.edge.receive()
            self.shell.dispatcher.run()
        return is_more

    def look_at_descriptors(self) -> None:
        """Run one round of the loop: the edge reads only sockets whose descriptors are ready."""
        self.shell.loop.call_soon(self.shell.loop.stop)
        self.shell.loop.run_forever()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path))  # another test may have created keys for the same port
    with FakeScheduler("tcp://127.0.0.1:*") as scheduler:
        bench = Bench(scheduler)
        yield bench
        bench.edge.close()
        bench.shell.dispatcher.close()
        bench.shell.loop.close()


def test_messages_and_bytes_that_cross_the_socket_are_counted(bench: Bench) -> None:
    bench.greet()
    bench.edge.send([WorkerHeartbeat(1), WorkerHeartbeat(2)])
    assert bench.edge.flush()
    assert bench.edge.sent.by_name() == {"WorkerHeartbeat": 2, "WorkerHello": 1}
    assert bench.edge.received.by_name() == {"HelloReply": 1}
    assert (bench.edge.sent.n_messages, bench.edge.received.n_messages) == (2, 1)
    assert bench.edge.sent.n_bytes > bench.edge.received.n_bytes > 0


def test_received_messages_go_to_the_link(bench: Bench) -> None:
    bench.greet()
    assert [type(message) for message in bench.link.messages] == [Batch[HelloReply]]


def test_flush_without_items_sends_no_message(bench: Bench) -> None:
    bench.greet()
    assert not bench.edge.flush()
    bench.edge.send([])
    assert not bench.edge.flush()


def test_submitted_items_are_sent_in_their_order(bench: Bench) -> None:
    bench.greet()
    bench.edge.send([WorkerHeartbeat(1)])
    bench.edge.send([ObjectRequest(b"o" * 16), WorkerHeartbeat(2)])
    assert bench.edge.flush()
    bench.scheduler.until(lambda: len(bench.scheduler.heartbeats) == 2)
    assert [beat.sent_ns for beat in bench.scheduler.heartbeats] == [1, 2]
    assert bench.scheduler.requests == [b"o" * 16]


def test_new_session_has_a_new_identity_and_drops_items_of_the_last_session(bench: Bench) -> None:
    bench.greet()
    before = bench.scheduler.connection
    bench.edge.send([ObjectRequest(b"o" * 16)])
    bench.greet()
    assert bench.scheduler.connection != before
    bench.edge.send([ObjectRequest(b"p" * 16)])
    assert bench.edge.flush()
    bench.scheduler.until(lambda: bench.scheduler.requests)
    assert bench.scheduler.requests == [b"p" * 16]


def test_a_connection_set_aside_ends_when_the_next_connection_is_up(bench: Bench) -> None:
    bench.greet()
    bench.edge.set_aside()
    router = bench.scheduler._router
    time.sleep(0.1)
    assert router.lost() == []
    assert not bench.edge.receive()
    bench.greet()
    bench.scheduler.until(router.lost)


def test_setting_aside_a_second_connection_ends_the_first(bench: Bench) -> None:
    bench.greet()
    bench.edge.set_aside()
    bench.edge.connect(bench.ref)
    bench.edge.set_aside()
    bench.scheduler.until(bench.scheduler._router.lost)


def test_resumed_session_resends_unacknowledged_items_and_sends_pending_ones(bench: Bench) -> None:
    bench.greet()
    bench.scheduler.acknowledges = False
    bench.edge.send([ObjectRequest(b"o" * 16)])
    assert bench.edge.flush()
    bench.edge.hang_up()
    bench.edge.send([ObjectRequest(b"p" * 16)])
    assert not bench.edge.flush(), "the item is pending"
    bench.edge.connect(bench.ref)
    bench.edge.send_hello(HELLO)
    assert bench.edge.flush()
    bench.scheduler.until(lambda: len(bench.scheduler.hellos) == 2)
    assert bench.scheduler.hellos[1].resumes == 1
    before = list(bench.scheduler.requests)
    bench.edge.resume(0)
    assert bench.edge.flush()
    bench.scheduler.until(lambda: len(bench.scheduler.requests) == len(before) + 2)
    assert bench.scheduler.requests[len(before) :] == [b"o" * 16, b"p" * 16]


def test_messages_behind_a_hello_reply_wait_until_the_link_has_chosen_the_session(bench: Bench) -> None:
    bench.greet()
    bench.scheduler.send([ObjectInstruction(InstructionKind.DELETE, ObjectId(b"o" * 16), "", ())])
    bench.until_received()
    bench.edge.connect(bench.ref)
    bench.edge.send_hello(HELLO)
    assert bench.edge.flush()
    bench.scheduler.until(lambda: len(bench.scheduler.hellos) == 2)
    bench.scheduler.send([ObjectInstruction(InstructionKind.DELETE, ObjectId(b"p" * 16), "", ())])
    bench.link.messages.clear()
    bench.until_received()
    assert [type(message) for message in bench.link.messages] == [Batch[HelloReply]]
    bench.edge.begin()
    bench.until_received()
    assert [type(message) for message in bench.link.messages[1:]] == [Batch[ObjectInstruction]]


def test_link_is_notified_of_acknowledged_items(bench: Bench) -> None:
    bench.greet()
    bench.link.messages.clear()
    result = RunResult(TaskId(b"t" * 16), 0, 1, 0, b"", 0, ())
    bench.edge.send([result])
    assert bench.edge.flush()
    bench.until_received()
    assert {type(message) for message in bench.link.messages} == {LinkHeard}
    assert [item for message in bench.link.messages for item in message.items] == [result]


def receive_acknowledgement(bench: Bench) -> RunResult:
    """Receive a message that acknowledges a result. Return the result; the link does not know of the acknowledgement
    yet.
    """
    bench.scheduler.acknowledges = False
    result = RunResult(TaskId(b"t" * 16), 0, 1, 0, b"", 0, ())
    bench.edge.send([result])
    assert bench.edge.flush()
    bench.scheduler.until(lambda: bench.scheduler.results)
    bench.scheduler.acknowledges = True
    bench.scheduler.send([ObjectInstruction(InstructionKind.DELETE, ObjectId(b"o" * 16), "", ())])
    bench.link.messages.clear()
    assert bench.until_received(), "the turn continues"
    assert [type(message) for message in bench.link.take()] == [Batch[ObjectInstruction]]
    return result


def test_received_messages_reach_the_link_before_the_notice_of_acknowledged_items(bench: Bench) -> None:
    bench.greet()
    result = receive_acknowledgement(bench)
    bench.edge.receive()
    bench.shell.dispatcher.run()
    assert bench.link.messages == [LinkHeard([result])]


def test_a_closed_connection_still_reports_its_acknowledged_items_to_the_link(bench: Bench) -> None:
    bench.greet()
    result = receive_acknowledgement(bench)
    bench.edge.hang_up()
    bench.shell.dispatcher.run()
    assert bench.link.messages == [LinkHeard([result])]


def test_a_single_message_is_answered_before_the_socket_is_read_again(bench: Bench) -> None:
    bench.greet()
    assert not bench.edge.receive()
    connection = bench.edge._open
    assert connection is not None
    receive, arrived = connection.socket.receive, []

    def counted() -> Any:
        message = receive()
        arrived.append(message is not None)
        return message

    connection.socket.receive = counted  # type: ignore[method-assign]
    for _ in range(2):
        bench.scheduler.send([ObjectInstruction(InstructionKind.DELETE, ObjectId(b"o" * 16), "", ())])
        bench.until_received()
        assert arrived[-1], "the socket was not read again"
        bench.edge.receive()
        assert not arrived[-1]


def test_undecodable_bytes_are_counted_and_end_the_connection(bench: Bench) -> None:
    bench.greet()
    bench.link.messages.clear()
    bench.scheduler.send_bytes(b"garbage")
    bench.scheduler.send([DisconnectResponse("heard by nobody")])
    bench.edge.send([WorkerHeartbeat(1)])
    bench.until_received()
    assert bench.edge.undecodable == 1
    assert [type(message) for message in bench.link.messages] == [LinkUnreadable]
    assert not bench.edge.receive()
    assert not bench.edge.flush()
    assert not bench.edge.session.may_resume(resumed=1)
    bench.link.messages.clear()
    bench.greet()
    assert [type(message) for message in bench.link.messages] == [Batch[HelloReply]]


def test_edge_without_a_connection_neither_sends_nor_receives(bench: Bench) -> None:
    assert not bench.edge.receive()
    bench.edge.send([WorkerHeartbeat(1)])
    assert not bench.edge.flush()
    bench.edge.hang_up()
    bench.edge.hang_up()


def test_sending_to_a_closed_scheduler_of_the_same_process_reports_the_lost_link() -> None:
    transport = open_transport(Endpoint.parse("inproc://scheduler"))
    router = transport.listen(60)
    shell, link = Shell("builtin"), Recorder()
    edge, ref = AgentEdge(shell, open_transport(Endpoint.parse("inproc://scheduler"))), shell.dispatcher.spawn(link)
    edge.connect(ref)
    edge.send_hello(HELLO)
    assert edge.flush()
    edge.begin()
    assert link.messages == []
    router.close()
    deadline = time.monotonic() + 20
    while not link.messages:
        assert time.monotonic() < deadline
        edge.send([WorkerHeartbeat(1)])
        assert edge.flush()
        shell.dispatcher.run()
    assert link.messages == [LinkLost("the scheduler is unreachable")]
    assert not edge.receive()
    edge.close()
    transport.close()
    shell.dispatcher.close()
    shell.loop.close()


def test_any_error_while_reading_a_message_ends_the_connection_and_not_the_agent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_message: object) -> None:
        raise RuntimeError("a mistake of the codec")

    bench.greet()
    bench.link.messages.clear()
    with monkeypatch.context() as patch:
        patch.setattr(bench.edge.session.pipe, "receive", fails)
        bench.scheduler.send([DisconnectResponse("heard by nobody")])
        bench.until_received()
    assert [type(message) for message in bench.link.messages] == [LinkUnreadable]
    assert "a mistake of the codec" in bench.link.messages[0].reason
    assert "a mistake of the codec" in caplog.text
    assert not bench.edge.session.may_resume(resumed=1)
    bench.greet()
    assert type(bench.link.messages[-1]) is Batch[HelloReply]
