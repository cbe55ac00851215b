"""Blocks of `multiprocessing.shared_memory` outlive worker processes that attach to them, and go with their makers."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing import managers, resource_tracker
from multiprocessing.shared_memory import ShareableList, SharedMemory
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import alive, command, scheduler, wait_until

pytestmark = pytest.mark.processes

TEXT = b"of the program"


@pytest.fixture
def block() -> Iterator[SharedMemory]:
    """A block of the program."""
    made = SharedMemory(create=True, size=4096)
    made.buf[: len(TEXT)] = TEXT
    yield made
    made.close()
    made.unlink()  # fails if anything has unlinked it


def exists(name: str) -> bool:
    return Path("/dev/shm", name.lstrip("/")).exists()


def read(name: str) -> bytes:
    shared = SharedMemory(name=name)
    try:
        return bytes(shared.buf[: len(TEXT)])
    finally:
        shared.close()


def read_and_find_processes(name: str) -> tuple[int, int | None]:
    """Return the ids of this process, and of the resource tracker that it has started, if any."""
    assert read(name) == TEXT
    return os.getpid(), resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]


def read_twice(name: str) -> bytes:
    return max(read(name), read(name))


def read_and_take_out_of_the_tracker(name: str) -> bytes:
    """Do what programs do that know the fault of `multiprocessing`."""
    shared = SharedMemory(name=name)
    resource_tracker.unregister(shared._name, "shared_memory")  # type: ignore[attr-defined]
    text = bytes(shared.buf[: len(TEXT)])
    shared.close()
    return text


def read_in_a_child(method: str, name: str) -> bytes:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(read, (name,))


def read_in_a_fork(name: str) -> bytes:
    return read_in_a_child("fork", name)


def read_in_a_spawned_process(name: str) -> bytes:
    return read_in_a_child("spawn", name)


def read_in_a_process_of_a_fork_server(name: str) -> bytes:
    return read_in_a_child("forkserver", name)


def make() -> str:
    shared = SharedMemory(create=True, size=100)
    shared.close()
    return shared.name


def unlink(name: str) -> None:
    shared = SharedMemory(name=name)
    shared.close()
    shared.unlink()


def make_and_unlink() -> str:
    name = make()
    unlink(name)
    return name


def make_in_a_child_and_unlink() -> str:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        name = pool.apply(make)
        assert read(name)
        unlink(name)
    return name


def use_a_manager() -> str:
    with managers.SharedMemoryManager() as manager:
        return manager.SharedMemory(100).name


READERS = (
    read,
    read_twice,
    read_and_take_out_of_the_tracker,
    read_in_a_fork,
    read_in_a_spawned_process,
    read_in_a_process_of_a_fork_server,
)


def test_blocks_of_the_program_outlive_worker_processes_that_read_them(
    block: SharedMemory, capfd: pytest.CaptureFixture[str]
) -> None:
    numbers = ShareableList([1, 2, 3])
    with SchedulerClusterCombo(1, max_tasks_per_processor=1) as combo, Client(combo.get_address()) as client:
        for reader in READERS:
            assert client.submit(reader, block.name).result(60) == TEXT, reader
        assert client.submit(lambda shared: bytes(shared.buf[: len(TEXT)]), block).result(60) == TEXT
        assert client.submit(lambda name: list(ShareableList(name=name)), numbers.shm.name).result(60) == [1, 2, 3]
    assert read(block.name) == TEXT
    numbers.shm.close()
    numbers.shm.unlink()
    assert "resource_tracker" not in capfd.readouterr().err


def test_blocks_of_tasks_go_with_their_processes_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    with SchedulerClusterCombo(1, max_tasks_per_processor=1) as combo, Client(combo.get_address()) as client:
        for maker in (make_and_unlink, make_in_a_child_and_unlink, use_a_manager):
            name = client.submit(maker).result(60)
            client.submit(abs, -1).result(60)  # in the next process
            assert not exists(name), maker
    assert "resource_tracker" not in capfd.readouterr().err


def test_another_worker_may_read_and_unlink_what_a_task_has_made() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        kept, unlinked = (client.submit(make).result(60) for _ in range(2))
        assert len(client.run_on_all(read, kept)) == 2
        client.run_on_all(read, unlinked)
        client.submit(unlink, unlinked).result(60)
        assert exists(kept)
        assert not exists(unlinked)
    wait_until(lambda: not exists(kept), "what a task has left goes with its process")


@pytest.mark.parametrize("engine", ["processes", "inline", "futures://concurrent.futures:ProcessPoolExecutor"])
def test_blocks_of_the_program_outlive_killed_processes_of_each_engine(block: SharedMemory, engine: str) -> None:
    with scheduler() as (address, _), Client(address) as client:
        with command("cluster", address, "-n", "1", "--engine", engine):
            reader, tracker = client.submit(read_and_find_processes, block.name).result(60)
            os.kill(reader, signal.SIGKILL)
            wait_until(lambda: tracker is None or not alive(tracker), "the tracker has done its work")
        assert read(block.name) == TEXT


def test_the_program_owns_what_it_attaches_to_as_without_scaler(block: SharedMemory) -> None:
    opens = SharedMemory.__init__
    with Client(processes=False) as client:
        assert client.submit(read, block.name).result(60) == TEXT
    assert SharedMemory.__init__ is opens
