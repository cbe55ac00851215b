"""Objects that are too much for the memory of their host go to its disk: real clusters, a kill, and a full disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import wait
from pathlib import Path

import pytest

from scaler import Client
from scaler.client.object_reference import ObjectReference
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.processes import Command, command, open_descriptors, scheduler, wait_until

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def own_budget(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is one for all clusters of a user on a host."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))


OBJECT_BYTES = 9_000_000
MEMORY_BYTES = 20_000_000
SENT = {SHARING_VARIABLE: "0"}
"""The cluster is as on another host than the client: objects are sent to it, and lie in its own memory."""


def ends(table: bytes) -> tuple[int, int, int]:
    return len(table), table[0], table[-1]


def options(folder: Path) -> Sequence[str]:
    return (
        "-n", "1",
        "--object-memory-bytes", str(MEMORY_BYTES), "--spill-folder", str(folder), "--spill-bytes", "1000000000",
    )  # fmt: skip


def files(folder: Path) -> list[Path]:
    return [file for file in folder.glob("scaler-values-*/*") if file.name != "lock"]


def send(client: Client, count: int) -> list[ObjectReference]:
    return [client.send_object(bytes([number]) * OBJECT_BYTES) for number in range(count)]


def use(client: Client, tables: Sequence[ObjectReference]) -> None:
    for number, table in enumerate(tables):
        assert client.submit(ends, table).result(60) == (OBJECT_BYTES, number, number)


def shared_memory_of(pid: int) -> int:
    """The bytes of shared memory that a process has open, as the system counts them."""
    found = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            if "memfd:scaler" in str(file.readlink()):
                found.append(file.stat())
    return sum({each.st_ino: each.st_blocks * 512 for each in found}.values())


def test_objects_beyond_the_memory_are_on_disk_and_are_right(tmp_path: Path) -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, *options(tmp_path), env=SENT) as cluster,
        Client(address) as client,
    ):
        cluster.wait_for(f"at most {MEMORY_BYTES:,} bytes in memory, 1,000,000,000 on disk in {tmp_path}")
        tables = send(client, 8)
        use(client, tables)
        wait_until(lambda: len(files(tmp_path)) >= 6, "most of them on disk")
        wait_until(lambda: shared_memory_of(cluster.pid) <= MEMORY_BYTES, "the rest in memory")
        use(client, tables)
        tables.clear()
        wait_until(lambda: not files(tmp_path), "nobody needs them")
        cluster.signal(signal.SIGTERM)
        assert cluster.end() == 0
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_killed_cluster_are_removed_by_the_next_one_and_its_tasks_run_there(tmp_path: Path) -> None:
    with scheduler() as (address, _), Client(address) as client:
        tables = send(client, 6)
        with command("cluster", address, *options(tmp_path), env=SENT) as first:
            use(client, tables)
            left = wait_until(lambda: files(tmp_path) if len(files(tmp_path)) >= 4 else None, "on disk")
            first.signal(signal.SIGKILL)
            first.end()
            assert all(file.exists() for file in left[:1])
        with command("cluster", address, *options(tmp_path), env=SENT) as second:
            second.wait_for("its cluster was killed")
            assert not any(file.exists() for file in left)
            use(client, tables)
            second.signal(signal.SIGTERM)
            assert second.end() == 0
    assert list(tmp_path.iterdir()) == []


def _small_disk(tmp_path: Path) -> Sequence[str]:
    """Return what to put before a command so that the folder `disk` is a disk of its own, with room for two objects."""
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    with image.open("wb") as stream:
        stream.truncate(24 << 20)
    if os.getuid() or not shutil.which("mkfs.ext4") or not shutil.which("unshare"):
        pytest.skip("only root can mount a disk")
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mount = 'mount -o loop "$1" "$2" && shift 2 && exec "$@"'
    prefix = ["unshare", "-m", "sh", "-c", mount, "sh", str(image), str(disk)]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system mounts no image")
    return prefix


def _on_disk(cluster: Command, disk: Path) -> int:
    """The objects on a disk that only the cluster sees."""
    return len(files(Path(f"/proc/{cluster.pid}/root{disk}")))


def test_on_a_full_disk_the_other_objects_stay_in_memory_and_nothing_is_lost(tmp_path: Path) -> None:
    prefix = _small_disk(tmp_path)
    with (
        scheduler() as (address, _),
        command("cluster", address, *options(tmp_path / "disk"), env=SENT, prefix=prefix) as cluster,
        Client(address) as client,
    ):
        tables = send(client, 8)
        use(client, tables)
        cluster.wait_for("values stay in memory, because")
        assert "No space left on device" in cluster.output
        assert _on_disk(cluster, tmp_path / "disk") == 2
        use(client, tables)
        del tables[:4]
        use(client, tables[:0])
        assert [client.submit(ends, table).result(60)[1] for table in tables] == [4, 5, 6, 7]
        cluster.signal(signal.SIGTERM)
        assert cluster.end() == 0


def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with command("cluster", "tcp://127.0.0.1:1", "--spill-folder", str(tmp_path / "missing")) as cluster:
        assert cluster.end() != 0
        assert f"spill_folder: the folder {tmp_path / 'missing'} does not exist" in cluster.output
        assert "Traceback" not in cluster.output


def make_table(number: int) -> bytes:
    return bytes([number]) * OBJECT_BYTES


def test_unread_results_beyond_the_memory_are_on_disk_and_are_right(tmp_path: Path) -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, *options(tmp_path)) as cluster,
        Client(address) as client,
    ):
        futures = [client.submit(make_table, number) for number in range(8)]
        wait(futures, 60)
        wait_until(lambda: len(files(tmp_path)) >= 6, "most of them on disk")
        wait_until(lambda: shared_memory_of(cluster.pid) <= MEMORY_BYTES, "the rest in memory")
        for number, future in enumerate(futures):
            assert future.result(60) == make_table(number)
        futures.clear()
        wait_until(lambda: not files(tmp_path), "nobody needs them")
        cluster.signal(signal.SIGTERM)
        assert cluster.end() == 0
    assert list(tmp_path.iterdir()) == []


def make_small(number: int) -> bytes:
    return bytes([number % 251]) * 65_600


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
@pytest.mark.timeout(300)
def test_unread_results_share_their_files(count: int) -> None:
    """An agent that may open 128 files has a thousand of them, or twenty: 1.3 GB."""
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "2", prefix=["prlimit", "--nofile=128:128"]) as cluster,
        Client(address) as client,
    ):
        before = open_descriptors()
        futures = [client.submit(make_small, number) for number in range(count)]
        wait(futures, 120)
        assert len(list(Path(f"/proc/{cluster.pid}/fd").iterdir())) < 64
        for number, future in enumerate(futures):
            assert future.result(60) == make_small(number)
        assert open_descriptors() < before + 32


def test_a_result_whose_file_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, *options(tmp_path)),
        Client(address) as client,
    ):
        futures = [client.submit(make_table, number) for number in range(5)]
        wait(futures, 60)
        spoiled = wait_until(lambda: files(tmp_path) if len(files(tmp_path)) >= 3 else None, "on disk")
        for file in spoiled:
            os.truncate(file, 100)
        for number, future in enumerate(futures):
            assert future.result(60) == make_table(number)


@pytest.mark.more
def test_a_spill_folder_that_was_removed_is_made_again_and_no_result_is_lost(tmp_path: Path) -> None:
    base = tmp_path / "scratch"
    base.mkdir()
    with (
        scheduler() as (address, _),
        command("cluster", address, *options(base)) as cluster,
        Client(address) as client,
    ):
        futures = [client.submit(make_table, number) for number in range(5)]
        wait(futures, 60)
        wait_until(lambda: len(files(base)) >= 3, "on disk")
        shutil.rmtree(base)
        futures += [client.submit(make_table, number) for number in range(5, 9)]
        wait(futures, 60)
        cluster.wait_for("was removed by another program")
        wait_until(lambda: len(files(base)) >= 2, "on disk again")
        for number, future in enumerate(futures):
            assert future.result(60) == make_table(number)
        futures.clear()
        wait_until(lambda: not files(base), "nobody needs them")
        cluster.signal(signal.SIGTERM)
        assert cluster.end() == 0
        assert cluster.output.count("was removed by another program") == 1
    assert list(base.iterdir()) == []
