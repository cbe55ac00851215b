"""ConnectionManager: hello, heartbeats, silence and goodbye; a link on a virtual clock."""

from __future__ import annotations

import pytest

from scaler.agent.messages import FetchForWorker, Leave, LinkLost, LinkUnreadable
from scaler.peer.conversation_state import TRIES_MOST
from scaler.peer.times import GOODBYE_SECONDS, PAUSE_MOST_SECONDS, SILENCE_LEAST_SECONDS
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    HelloReply,
    HelloRequest,
)
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
)
from tests.support.link_bench import FUNCTION, SCHEDULER, Bench
from tests.unit.transport.test_lookup import UNKNOWN


def test_only_the_hello_is_sent_before_the_welcome(bench: Bench) -> None:
    [hello] = bench.door.take()
    assert (hello.worker_names, hello.held) == ("a,b", b"")
    bench.tell(FetchForWorker(FUNCTION))
    bench.finish(bench.task())
    bench.wait(4)
    assert bench.door.take() == []


def refuse(bench: Bench, times: int = 1) -> None:
    for _ in range(times):
        bench.wait(PAUSE_MOST_SECONDS)
        bench.tell(Batch[HelloReply]([HelloReply(0, "another Python is there", SCHEDULER, 2, "9")]))


def test_a_refused_agent_keeps_trying_and_logs_the_refusal_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    refuse(bench)
    refuse(bench)
    assert caplog.text.count("refuses this cluster, which keeps trying: another Python is there") == 1
    refuse(bench, 10)
    assert "no scheduler has accepted this cluster at" in caplog.text
    assert "has answered" not in caplog.text
    assert bench.ends == []
    bench.wait(PAUSE_MOST_SECONDS)
    bench.up()
    bench.wait(4)
    assert WorkerHeartbeat in map(type, bench.door.take())


def test_an_agent_that_is_refused_until_its_timeout_ends_with_an_error(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    while not bench.ends:
        refuse(bench)
    assert bench.ends == [1]
    assert "without a scheduler: the cluster ends. " in caplog.text
    assert caplog.records[-1].getMessage().endswith("refuses this cluster: another Python is there")


def test_agent_keeps_trying_an_address_that_accepted_it_before_and_refuses_it_now(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.up()
    bench.tell(LinkLost("restarted"))
    refuse(bench, 3)
    assert bench.ends == []
    assert caplog.text.count("keeps trying: another Python is there") == 1
    connections = bench.door.connections
    bench.wait(PAUSE_MOST_SECONDS)
    assert bench.door.connections == connections + 1
    bench.up()
    bench.wait(4)
    assert WorkerHeartbeat in map(type, bench.door.take())


def test_heartbeats_are_sent_while_the_link_is_up(bench: Bench) -> None:
    bench.up()
    bench.wait(4.1)
    assert [type(item) for item in bench.door.take()] == [WorkerHeartbeat, WorkerHeartbeat]


def test_agent_reconnects_after_silence_and_echoes_prevent_that(bench: Bench) -> None:
    bench.up()
    for _ in range(5):
        bench.wait(4)
        bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(0)]))
    assert bench.door.connections == 1
    bench.wait(max(SILENCE_LEAST_SECONDS, 6) + 4)
    assert (bench.door.connections, bench.door.set_aside_count) == (2, 1)


def test_agent_logs_that_no_scheduler_answers_until_one_does(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def logged() -> int:
        return caplog.text.count("no scheduler has answered at tcp://127.0.0.1:1")

    bench.wait(4)
    assert logged() == 1
    bench.up()
    bench.tell(LinkLost("gone"))
    bench.wait(2)
    assert logged() == 1
    bench.wait(2)
    assert logged() == 2
    bench.wait(28)
    assert bench.ends[0] == 0


def test_request_for_a_hello_opens_a_new_connection(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[HelloRequest]([HelloRequest("who are you?")]))
    assert not bench.door.is_up
    bench.wait(PAUSE_MOST_SECONDS)
    assert bench.door.connections == 2
    assert len(bench.door.take()) == 1


def test_repeated_requests_for_a_hello_open_few_connections(bench: Bench) -> None:
    for _ in range(400):
        bench.tell(Batch[HelloRequest]([HelloRequest("who are you?")]))
        bench.wait(0.05)
    assert bench.door.connections < 20


def test_a_cluster_that_can_read_no_message_ends_and_logs_the_reason(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(TRIES_MOST):
        assert bench.ends == []
        bench.up()
        bench.tell(LinkUnreadable("no message"))
        bench.wait(PAUSE_MOST_SECONDS)
    assert bench.ends == [1]
    assert "5 messages in a row from tcp://127.0.0.1:1 could not be read" in caplog.text


@pytest.mark.parametrize(
    "stranger", [LinkLost("it has another key", is_locked_out=True), LinkUnreadable("it sends no message")], ids=str
)
def test_a_cluster_that_was_up_outlives_another_program_at_its_schedulers_address(
    bench: Bench, caplog: pytest.LogCaptureFixture, stranger: LinkLost | LinkUnreadable
) -> None:
    bench.up()
    bench.tell(LinkLost("restarted"))
    for _ in range(2 * TRIES_MOST):
        bench.tell(stranger)
        bench.wait(PAUSE_MOST_SECONDS)
    assert bench.ends == []
    assert caplog.text.count(f"or its scheduler has changed: {stranger.reason}") == 1
    bench.up()
    bench.tell(LinkLost("restarted"))
    bench.wait(PAUSE_MOST_SECONDS)
    bench.tell(LinkLost("it was revoked", is_locked_out=True, by_scheduler=True))
    assert bench.ends == [1]


@pytest.mark.parametrize("was_up", [False, True])
def test_agent_ends_with_exit_code_0_after_its_timeout_without_a_scheduler(bench: Bench, was_up: bool) -> None:
    if was_up:
        bench.up()
        bench.tell(LinkLost("cut"))
    bench.wait(29)
    assert bench.ends == []
    bench.wait(1.1)
    assert bench.ends == [0]


def test_agent_continues_if_the_scheduler_returns_before_the_timeout(bench: Bench) -> None:
    bench.up()
    bench.tell(LinkLost("cut"))
    bench.wait(20)
    bench.welcome()
    for _ in range(10):
        bench.wait(4)
        bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(0)]))
    assert bench.ends == []


def test_leaving_agent_sends_a_disconnect_request_and_waits_for_the_response(bench: Bench) -> None:
    bench.up()
    bench.tell(Leave("SIGTERM"))
    assert bench.door.take() == [DisconnectRequest("SIGTERM")]
    assert bench.ends == []
    bench.tell(Batch[DisconnectResponse]([DisconnectResponse("go")]))
    assert bench.ends == [0]


def test_leaving_agent_waits_for_the_response_only_for_a_limited_time(bench: Bench) -> None:
    bench.up()
    bench.tell(Leave("SIGTERM"))
    bench.wait(GOODBYE_SECONDS + 0.1)
    assert bench.ends == [0]


def test_agent_without_a_scheduler_leaves_at_once(bench: Bench) -> None:
    bench.tell(Leave("SIGTERM"))
    assert bench.ends == [0]


def test_the_scheduler_may_end_the_agent(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[DisconnectResponse]([DisconnectResponse("shutdown")]))
    assert bench.ends == [0]


def test_missing_scheduler_is_logged_after_three_seconds_and_then_every_thirty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench, logged = Bench("tcp://10.0.0.1:2345", 100), []
    for _ in range(96):
        bench.wait(1)
        logged.append(caplog.text.count("no scheduler has answered at tcp://10.0.0.1:2345"))
    assert [logged.index(count) + 1 for count in range(1, 5)] == [3, 33, 63, 93]
    assert "for 33 s. Is that its address" in caplog.text
    assert "ends after 100 s without one" in caplog.text


def test_the_log_names_a_host_name_that_cannot_be_resolved(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(f"tcp://{UNKNOWN}:1")
    bench.wait(1)
    bench.actor._connection._lookup.wait(60)
    bench.wait(3)
    assert f"The reason: this machine cannot resolve the host name {UNKNOWN!r}" in caplog.text
    assert "or give an IP address. The cluster keeps trying, and ends" in caplog.text
