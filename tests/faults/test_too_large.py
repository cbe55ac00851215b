"""Values that somebody who must hold them whole has no memory for: they fail, and nothing else does."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from scaler import Client
from scaler.errors import MissingObjects, ObjectTooLargeError
from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.processes import Command, command, free_address, scheduler, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.more]

MB = 1_000_000
ANY_SIZE = ("--value-bytes", str(2**40))
"""a scheduler that says so is sent what it has no memory for"""


@pytest.fixture(autouse=True)
def nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARING_VARIABLE, "0")


def limit_memory(pid: int, spare_bytes: int) -> None:
    """Let a process have so much more than it has."""
    process = psutil.Process(pid)
    most = process.memory_info().vms + spare_bytes
    process.rlimit(psutil.RLIMIT_AS, (most, most))


def slow_double(number: int) -> int:
    time.sleep(0.2)
    return 2 * number


def test_what_the_scheduler_has_no_memory_for_is_refused_before_it_is_sent() -> None:
    """It says how large a value may be: four fifths of what its limit of address space leaves."""
    with scheduler() as (address, running), Client(address, timeout_seconds=50) as client:
        client.info()
        limit_memory(running.pid, 60 * MB)
        wait_until(lambda: client._core.link.limit.n_bytes < 60 * MB, "the client has heard it")
        with command("cluster", address, "-n", "1"):
            refuse_what_is_too_large(client, running)


def refuse_what_is_too_large(client: Client, running: Command) -> None:
    assert client.submit(abs, -1).result(60) == 1
    before = psutil.Process(running.pid).memory_info().rss
    with pytest.raises(ObjectTooLargeError, match=r"len: argument 1 .* the scheduler at .* takes at most [345]\d,"):
        client.submit(len, bytes(60 * MB))
    with pytest.raises(ObjectTooLargeError, match=r"the object 'table' is too large"):
        client.send_object(bytes(60 * MB), name="table")
    with pytest.raises(ObjectTooLargeError, match=r"its result is too large") as raised:
        client.submit(bytes, 60 * MB).result(60)
    assert raised.value.budget is not None
    assert psutil.Process(running.pid).memory_info().rss < before + 20 * MB
    assert client.submit(len, bytes(10 * MB)).result(60) == 10 * MB
    assert running.process.poll() is None


def test_values_too_large_for_the_scheduler_fail_only_their_own_tasks() -> None:
    with (
        scheduler(None, *ANY_SIZE) as (address, running),
        command("cluster", address, "-n", "1") as cluster,
        Client(address, timeout_seconds=50) as client,
    ):
        assert client.submit(abs, -1).result(60) == 1
        limit_memory(running.pid, 50 * MB)
        others = [client.submit(slow_double, number) for number in range(10)]
        # One after the other: each is to fill the memory alone.
        with pytest.raises(ObjectTooLargeError, match=r"its result is too large: .* the scheduler has no room for it"):
            client.submit(bytes, 100 * MB).result(60)
        missing = r"is not here: the scheduler has no memory for its 100,000,"
        table = client.send_object(bytes(100 * MB), name="table")
        with pytest.raises(MissingObjects, match=missing):
            client.submit(len, table).result(60)
        with pytest.raises(MissingObjects, match=missing):
            client.submit(len, bytes(100 * MB)).result(60)
        assert [future.result(60) for future in others] == [2 * number for number in range(10)]
        assert client.submit(len, bytes(MB)).result(60) == MB
        assert running.process.poll() is None
        assert cluster.process.poll() is None


class Supervised:
    """A scheduler that is killed when it takes too much memory, and started again."""

    def __init__(self, address: str, most_bytes: int) -> None:
        self.address = address
        self.kills = 0
        self._most_bytes = most_bytes
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextlib.contextmanager
    def running(self) -> Iterator[Supervised]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            with scheduler(self.address, *ANY_SIZE) as (_, running):
                self._watch(running)

    def _watch(self, running: Command) -> None:
        process = psutil.Process(running.pid)
        while not self._is_over.wait(0.01):
            if process.memory_info().rss > self._most_bytes:
                running.process.kill()
                running.process.wait()
                self.kills += 1
                return


def test_values_that_kill_every_scheduler_are_given_up_after_five_and_other_tasks_continue() -> None:
    with (
        Supervised(free_address(), 150 * MB).running() as supervised,
        command("cluster", supervised.address, "-n", "2"),
        Client(supervised.address, timeout_seconds=100) as client,
        Client(supervised.address, timeout_seconds=100) as innocent,
    ):
        assert client.submit(abs, -1).result(60) == 1
        others = [innocent.submit(slow_double, number) for number in range(5)]
        result = client.submit(bytes, 400 * MB)
        with_table = client.submit(len, client.send_object(bytes(400 * MB), name="table"))
        for future, what in ((with_table, "the object 'table'"), (result, "its result")):
            with pytest.raises(
                ObjectTooLargeError, match=rf"^{what} is too large: .*: the scheduler has ended 5 times during"
            ):
                future.result(100)
        kills = supervised.kills
        assert TRIES_MOST <= kills <= 2 * TRIES_MOST
        assert [future.result(60) for future in others] == [2 * number for number in range(5)]
        assert [each.submit(slow_double, 2).result(60) for each in (client, innocent)] == [4, 4]
        assert supervised.kills == kills
