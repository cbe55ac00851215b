"""The worker and the client in JavaScript, which know nothing but the protocol: with real processes, through
cuts, restarts of the scheduler, and garbage.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
import zmq

from scaler import Client, NoWorkerError, ProcessorDiedError, TaskFailedError
from scaler.errors import ProtocolError
from scaler.ids import ID_BYTES
from scaler.wire.codec.codec import decode, encode_message
from scaler.wire.messages.common import PROTOCOL_VERSION, HelloReply
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, SCHEDULER_TO_CLIENT
from tests.support.keys import make
from tests.support.make_vectors import FOLDER
from tests.support.processes import JAVASCRIPT, Command, command, free_address, scheduler, wait_until
from tests.support.proxy import Proxy

pytestmark = [pytest.mark.more, pytest.mark.foreign]

WAIT_SECONDS = 60
LARGE = "größe" * 600_000


def double(number: int) -> int:
    time.sleep(0.01)
    return 2 * number


def complain(text: str) -> None:
    raise LookupError(text)


FUNCTIONS = ",".join(f"{name}={__name__}:{name}" for name in ("double", "complain")) + ",sorted=builtins:sorted"


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[str, Command]]:
    """A scheduler with a worker in JavaScript, and no other."""
    with scheduler() as (address, _), command("worker.js", address) as worker:
        yield address, worker


@pytest.fixture
def client(running: tuple[str, Command]) -> Iterator[Client]:
    with Client(running[0]) as client:
        client.wait_for_workers(2, WAIT_SECONDS)
        yield client


def call(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call a function with the client in JavaScript."""
    program = ["node", str(JAVASCRIPT / "client.js"), address, *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(WAIT_SECONDS) for future in futures]


def test_the_vectors_of_the_protocol_are_read_in_javascript() -> None:
    done = subprocess.run(
        ["node", "--test", "test/vectors.test.js"], capture_output=True, text=True, check=False, cwd=JAVASCRIPT
    )
    assert done.returncode == 0, done.stdout
    assert "fail 0" in done.stdout


def test_python_calls_functions_in_javascript(client: Client) -> None:
    assert client.call("area", 2, 3).result(WAIT_SECONDS) == {"value": 6, "unit": "m²"}
    assert client.call("area", 2, 3, unit="km").result(WAIT_SECONDS) == {"value": 6, "unit": "km²"}
    assert client.call("echo", None, True, 1.5, "ß", [1, {"k": []}]).result(WAIT_SECONDS) == [
        None, True, 1.5, "ß", [1, {"k": []}],
    ]  # fmt: skip
    assert client.call("echo", LARGE, 1, LARGE[:20_000]).result(WAIT_SECONDS) == [LARGE, 1, LARGE[:20_000]]
    assert results([client.call("echo", number) for number in range(500)]) == [[number] for number in range(500)]
    with pytest.raises(TaskFailedError, match=r"raised RangeError: too far\n(.|\n)*functions\.js"):
        client.call("fail", "too far").result(WAIT_SECONDS)


def test_a_cancelled_call_in_javascript_is_killed_and_its_worker_continues(client: Client) -> None:
    with pytest.raises(TimeoutError):
        client.options(timeout=0.2).call("spin", 600_000).result(WAIT_SECONDS)
    with pytest.raises(ProcessorDiedError):
        client.call("exit", 3).result(WAIT_SECONDS)
    endless = [client.call("spin", 600_000) for _ in range(2)]
    behind = client.call("area", 1, 1)
    wait_until(lambda: sum(worker.tasks for worker in client.workers()) >= 2, "they run")
    for future in endless:
        future.cancel()
    assert behind.result(WAIT_SECONDS)["value"] == 1
    for future in endless:
        with pytest.raises(CancelledError):
            future.result(WAIT_SECONDS)


def test_a_worker_in_javascript_never_gets_a_pickled_task(client: Client, running: tuple[str, Command]) -> None:
    plain = [client.submit(pow, 2, number) for number in range(20)]
    with pytest.raises(NoWorkerError):
        client.options(no_worker_timeout=0.2).submit(pow, 2, 2).result(WAIT_SECONDS)
    results([client.call("echo", number) for number in range(100)])
    assert not any(future.done() for future in plain)
    with command("cluster", running[0], "-n", "1"):
        assert results(plain) == [2**number for number in range(20)]
        assert len(client.run_on_all(os.getpid)) == 1
        with pytest.raises(NoWorkerError, match="nothing_of_that_name"):
            client.options(no_worker_timeout=0.2).call("nothing_of_that_name").result(WAIT_SECONDS)


def test_javascript_calls_functions_in_python_and_in_javascript(running: tuple[str, Command]) -> None:
    address, _ = running
    with command("cluster", address, "-n", "1", "--functions", FUNCTIONS):
        done = call(address, "sorted", "[3, 1, 2]", "reverse=true")
        assert (done.stdout, done.stderr) == ("[3,2,1]\n", "")
        assert json.loads(call(address, "area", "2", "3").stdout) == {"value": 6, "unit": "m²"}
        many = list(range(12_000))
        assert json.loads(call(address, "sorted", json.dumps(many), "reverse=true").stdout) == many[::-1]
        failed = call(address, "complain", '"not there"')
        assert (failed.returncode, failed.stderr) == (1, "complain raised LookupError: not there\n")


def test_a_worker_in_javascript_leaves_in_good_order() -> None:
    with scheduler() as (address, _), Client(address) as client, command("worker.js", address) as first:
        client.wait_for_workers(2, WAIT_SECONDS)
        calls = [client.call("pause", 100, number) for number in range(8)]
        with command("worker.js", address) as second:
            client.wait_for_workers(4, WAIT_SECONDS)
            first.signal(signal.SIGTERM)
            assert first.end() == 0
            assert results(calls) == list(range(8))
            second.signal(signal.SIGTERM)
            assert second.end() == 0


def test_javascript_client_and_worker_survive_disconnects_and_scheduler_restarts() -> None:
    address = free_address()
    make(address)
    with (
        Proxy(address) as to_worker,
        Proxy(address) as to_client,
        command("cluster", address, "-n", "2", "--functions", FUNCTIONS),
        command("worker.js", to_worker.address) as worker,
        Client(address) as client,
        scheduler(address) as (_, first),
    ):
        client.wait_for_workers(4, WAIT_SECONDS)
        storm = Command("storm.js", to_client.address, "double", "400")
        try:
            calls = [client.call("pause", 20, number) for number in range(200)]
            large = client.call("echo", LARGE)
            for enough in (20, 60):
                wait_until(lambda enough=enough: len(storm.lines) >= enough, "results come")
                wait_until(lambda enough=enough: sum(each.done() for each in calls) >= enough, "results come")
                to_worker.reset()
                to_client.reset()
            wait_until(lambda: len(storm.lines) >= 100, "results come")
            assert "is lost: it was silent" not in first.output
            first.signal(signal.SIGKILL)
            first.end()
            with scheduler(address):
                wait_until(lambda: len(storm.lines) >= 200, "results come")
                to_client.reset()
                to_worker.reset()
                assert storm.end() == 0, storm.output
                assert results(calls) == list(range(200))
                assert large.result(WAIT_SECONDS) == [LARGE]
                worker.signal(signal.SIGTERM)
                assert worker.end() == 0
        finally:
            storm.kill_all()


@pytest.mark.parametrize("program", ["worker.js", "storm.js"])
def test_garbage_costs_javascript_peers_only_a_connection(program: str) -> None:
    address = free_address()
    arguments = ["double", "20"] if program == "storm.js" else []
    with command(program, address, *arguments) as running:
        speak_garbage(address)
        assert running.process.poll() is None
        with (
            scheduler(address),
            command("cluster", address, "-n", "1", "--functions", FUNCTIONS),
            Client(address) as client,
        ):
            if not arguments:
                assert client.call("area", 2, 3).result(WAIT_SECONDS)["value"] == 6
                running.signal(signal.SIGTERM)
            assert running.end() == 0, running.output


def speak_garbage(address: str) -> None:
    """Be a scheduler that answers each hello with something else, or says it after the welcome, until all is said."""
    hello_of_a_client = bytes.fromhex(
        json.loads((FOLDER / "ClientToScheduler.json").read_text())["messages"][0]["header"]
    )
    garbage = [b"", b"GET / HTTP/1.1\r\n\r\n", hello_of_a_client, hello_of_a_client[:40]]
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.bind(address)
        peers = set()
        while True:
            assert router.poll(1000 * WAIT_SECONDS), "a hello comes after each, too"
            peer, header, *_ = router.recv_multipart()
            if peer in peers:
                continue  # what it says after the welcome
            peers.add(peer)
            if not garbage:
                return
            if len(garbage) % 2:
                router.send_multipart([peer, welcome(header)])
            router.send_multipart([peer, garbage.pop()])


def welcome(hello: bytes) -> bytes:
    """The answer to the hello of a client or an agent."""
    try:
        decode(CLIENT_TO_SCHEDULER, hello, [])
    except ProtocolError:
        direction = SCHEDULER_TO_AGENT
    else:
        direction = SCHEDULER_TO_CLIENT
    return encode_message(direction, [HelloReply(1, "", b"s" * ID_BYTES, PROTOCOL_VERSION, "0")])[0]
