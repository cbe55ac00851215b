"""ValueStore: spilling and reading back, accounting, and errors of the disk."""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId
from scaler.shared_memory import SLAB_BYTES, SharedBlock
from scaler.store import store as store_module
from scaler.store.host_share import HostShare
from scaler.store.spill_folder import RETRY_SECONDS, SpillFolder
from scaler.store.store import DISK_PAUSE_SECONDS, ValueStore
from tests.support.processes import open_files

MIB = 1 << 20
OWN = SLAB_BYTES // 8 + MIB
"""the size of a value that has memory of its own"""


def name(number: int) -> ObjectId:
    return ObjectId(number.to_bytes(16, "big"))


def value(number: int, size: int) -> list[bytes]:
    return [b"head", bytes([number]) * size]


class Bench:
    def __init__(self, base: Path, hot: int, cold: int = 1 << 40) -> None:
        self.base, self.time, self.seconds_per_look = base, 0.0, 0.0
        self.store = ValueStore(HostShare(None), hot, SpillFolder(base, keeps_free=False), cold, self.now)

    def now(self) -> float:
        self.time += self.seconds_per_look
        return self.time

    def take(self, number: int, size: int) -> None:
        self.store.take(name(number), value(number, size))

    def settle(self) -> None:
        while self.store.make_room():
            pass

    def files(self) -> list[int]:
        """Return the numbers of the values that are on disk."""
        return sorted(int(file.name, 16) for file in self.base.glob("*/*") if file.name != "lock")

    def check(self, number: int, size: int) -> None:
        frames = self.store.frames(name(number))
        assert [bytes(frame) for frame in frames] == value(number, size)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    gc.collect()
    made: list[Bench] = []

    def make(hot: int, cold: int = 1 << 40) -> Bench:
        made.append(Bench(tmp_path, hot, cold))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


def memory_of(store: ValueStore) -> int:
    """Return the bytes of memory that the system has given to a store."""
    return sum(os.fstat(memory.descriptor).st_blocks * 512 for memory in store._memories)


def test_the_least_recently_used_value_is_spilled_and_read_again(bench: Callable[..., Bench]) -> None:
    b = bench(hot=3 * OWN)
    for number in range(3):
        b.take(number, OWN - 64)
    b.check(0, OWN - 64)
    b.take(3, OWN - 64)
    b.settle()
    assert b.files() == [1]
    assert not b.store.is_over()
    assert b.store.hot_bytes == 3 * OWN
    b.check(1, OWN - 64)
    b.settle()
    assert b.files() == [2]
    assert b.store.gauges() == (3 * OWN, 3 * OWN, OWN, 1 << 40, 2 * OWN, OWN)
    for number in range(4):
        b.check(number, OWN - 64)


def test_accounted_bytes_are_those_that_the_system_has_given(bench: Callable[..., Bench]) -> None:
    b = bench(hot=1 << 40)
    for number in range(100):
        b.take(number, 70_000 + 997 * number)
    b.take(100, OWN)
    assert b.store.hot_bytes <= memory_of(b.store) <= b.store.hot_bytes + 3 * 4096


def test_slab_counts_until_its_last_value_is_dropped(bench: Callable[..., Bench]) -> None:
    b = bench(hot=1 << 40)
    for number in range(10):
        b.take(number, MIB)
    full = b.store.hot_bytes
    for number in range(9):
        assert b.store.drop(name(number))
    assert b.store.hot_bytes == full
    b.store.drop(name(9))
    b.settle()
    assert b.store.hot_bytes == 0


def test_all_values_of_a_slab_are_spilled_before_those_of_the_next(bench: Callable[..., Bench]) -> None:
    b = bench(hot=SLAB_BYTES + 4 * MIB)
    for number in range(32):
        b.take(number, 4 * MIB - 64)
    b.settle()
    assert b.files() == list(range(16))
    assert b.store.hot_bytes == SLAB_BYTES


@pytest.mark.parametrize("cold", [0, 1 << 40], ids=["no disk", "disk"])
def test_slab_with_few_values_left_is_emptied(bench: Callable[..., Bench], cold: int) -> None:
    b = bench(2 * SLAB_BYTES, cold)
    for number in range(3 * 16):
        b.take(number, 4 * MIB - 64)
        if number % 16:
            b.store.drop(name(number))
    _, block = b.store.find(name(16))
    assert b.store.hot_bytes == 3 * SLAB_BYTES
    b.settle()
    assert b.store.hot_bytes <= 2 * SLAB_BYTES
    assert b.files() == ([0] if cold else []), "on disk at most what is left of the slab that was used least recently"
    assert block is not None
    for number in (0, 16, 32):
        b.check(number, 4 * MIB - 64)


def test_value_stays_in_memory_while_it_is_read_and_is_spilled_later(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    _, block = b.store.find(name(0))
    b.take(1, OWN - 64)
    b.settle()
    assert b.files() == [1]
    _, other = b.store.find(name(1))
    b.settle()
    assert b.store.is_over(), "reading goes on over the budget"
    assert b.store.waits_for_readers()
    assert b.files() == []
    del block
    b.settle()
    assert b.files() == [0]
    assert not b.store.is_over()
    del other


def test_frames_of_a_large_value_keep_it_hot(bench: Callable[..., Bench]) -> None:
    b = bench(hot=2 * MIB)
    b.take(0, 2 * MIB - 64)
    frames = b.store.frames(name(0))
    b.take(1, 2 * MIB - 64)
    b.settle()
    assert b.files() == []
    del frames
    b.settle()
    assert b.files() == [0, 1], "a slab goes as a whole"


def test_dropped_value_that_is_read_counts_until_its_reader_is_done(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    _, block = b.store.find(name(0))
    b.store.drop(name(0))
    b.settle()
    assert b.store.hot_bytes == OWN
    assert block is not None
    assert bytes(block.map()[1][:3]) == b"\0\0\0"
    del block
    assert b.store.hot_bytes == 0


def test_newer_value_with_the_id_of_one_that_is_still_read_is_found(bench: Callable[..., Bench]) -> None:
    b = bench(hot=3 * OWN)
    b.store.take(name(0), value(1, OWN - 64))
    _, reader = b.store.find(name(0))
    assert reader is not None
    old = b.store.location(name(0))
    b.store.drop(name(0))
    b.store.take(name(0), value(2, OWN - 64))
    assert b.store.location(name(0)) != old
    assert [bytes(frame) for frame in b.store.frames(name(0))] == value(2, OWN - 64)
    assert [bytes(frame) for frame in reader.map()] == value(1, OWN - 64)


def test_value_that_can_never_fit_is_refused_with_sizes_and_a_remedy(bench: Callable[..., Bench]) -> None:
    b = bench(hot=MIB)
    with pytest.raises(ObjectTooLargeError, match=r"1,048,580 bytes.*at most 1,048,576 bytes.*object_memory_bytes"):
        b.take(0, MIB)
    assert b.store.ids() == []


def test_without_room_on_disk_values_stay_in_memory(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN, cold=OWN)
    for number in range(4):
        b.take(number, OWN - 64)
    b.settle()
    assert b.files() == [0]
    assert b.store.is_over()
    _, block = b.store.find(name(3))
    assert block is not None
    assert not b.store.waits_for_readers(), "they would not go to the disk"
    for number in range(4):
        b.check(number, OWN - 64)


def test_values_dropped_in_any_state_leave_nothing(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    before = open_files()
    for number in range(3):
        b.take(number, OWN - 64)
    b.settle()
    b.take(3, OWN - 64)
    assert b.store.make_room(), "one is being written"
    b.take(4, 10)
    for number in range(5):
        assert b.store.drop(name(number))
        assert not b.store.drop(name(number))
    b.settle()
    assert (b.files(), b.store.hot_bytes, b.store.cold_bytes, b.store.ids()) == ([], 0, 0, [])
    assert open_files() == before + 2, "the folder and its lock"
    b.store.close()
    assert list(b.base.iterdir()) == []
    assert open_files() == before


def test_value_replaced_while_it_is_written_to_disk_is_the_new_one(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    b.take(1, OWN - 64)
    assert b.store.make_room()
    b.store.drop(name(0))
    b.store.take(name(0), value(9, OWN - 64))
    b.settle()
    assert [bytes(frame) for frame in b.store.frames(name(0))] == value(9, OWN - 64)


def test_value_that_is_read_while_it_is_written_stays_hot(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    b.take(1, OWN - 64)
    assert b.store.make_room()
    _, block = b.store.find(name(0))
    b.settle()
    assert b.files() == [1]
    assert block is not None


def test_a_value_is_spilled_in_small_steps(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    b.take(1, OWN - 64)
    steps = 0
    while b.store.make_room():
        steps += 1
    assert steps >= OWN // (4 * MIB)


@pytest.mark.parametrize("where", ["on disk", "in memory"])
def test_many_dropped_values_are_forgotten_at_once_and_freed_in_small_steps(
    bench: Callable[..., Bench], where: str
) -> None:
    b = bench(hot=OWN if where == "on disk" else 20 * OWN)
    for number in range(10):
        b.take(number, OWN - 64)
    b.settle()
    for number in range(9):
        assert b.store.drop(name(number))
    assert b.store.ids() == [name(9)]
    b.seconds_per_look = store_module.FREE_SECONDS
    steps = 0
    while b.store.make_room():
        steps += 1
        on_disk = 0 if where == "in memory" else 9 - steps
        assert (len(b.files()), b.store.cold_bytes) == (on_disk, on_disk * OWN)
        assert b.store.hot_bytes == (OWN if where == "on disk" else (10 - steps) * OWN)
    assert steps >= 8
    assert (b.files(), b.store.cold_bytes, b.store.hot_bytes) == ([], 0, OWN)


def test_replaced_value_that_is_spilled_before_the_old_file_is_unlinked_is_the_new_one(
    bench: Callable[..., Bench],
) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    b.take(1, OWN - 64)
    b.settle()
    b.store.drop(name(0))
    b.store.take(name(0), value(9, OWN - 64))
    b.settle()
    b.take(2, OWN - 64)
    b.settle()
    assert b.files() == [0, 1]
    assert b.store.cold_bytes == 2 * OWN
    assert [bytes(frame) for frame in b.store.frames(name(0))] == value(9, OWN - 64)


# Errors of the disk


def with_three_on_disk(bench: Callable[..., Bench]) -> Bench:
    """Return a store with values 0 to 2 on disk and value 3 in memory."""
    b = bench(hot=OWN)
    for number in range(4):
        b.take(number, OWN - 64)
    b.settle()
    return b


def test_file_that_cannot_be_unlinked_counts_is_logged_once_and_unlinked_later(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    """A folder replaces the file, since root may write to any folder."""
    b = with_three_on_disk(bench)
    (file,) = b.base.glob(f"*/{name(0).hex()}")
    file.unlink()
    file.mkdir()
    for number in range(3):
        b.store.drop(name(number))
        b.settle()
        b.time += RETRY_SECONDS
    assert (b.files(), b.store.cold_bytes) == ([0], OWN)
    assert caplog.text.count("cannot be removed") == 1
    file.rmdir()
    b.settle()
    assert b.store.cold_bytes == 0


def test_removed_spill_folder_is_made_again_and_its_lost_values_do_not_count(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    b = with_three_on_disk(bench)
    assert b.files() == [0, 1, 2]
    shutil.rmtree(b.base)
    b.take(4, OWN - 64)
    b.settle()
    assert (b.files(), b.store.cold_bytes) == ([3], OWN)
    assert {each.stat().st_mode & 0o777 for each in (b.base, *b.base.iterdir())} == {0o700}
    assert caplog.text.count("was removed by another program") == 1
    with pytest.raises(FileNotFoundError):
        b.store.find(name(0))
    assert b.store.drop(name(1))
    b.settle()
    b.check(3, OWN - 64)
    b.check(4, OWN - 64)
    b.store.close()
    assert list(b.base.iterdir()) == []


def test_value_whose_file_is_removed_while_it_is_written_stays_in_memory(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    b.take(0, OWN - 64)
    b.take(1, OWN - 64)
    assert b.store.make_room()
    for folder in b.base.iterdir():
        shutil.rmtree(folder)
    b.settle()
    assert (b.files(), b.store.cold_bytes) == ([], 0)
    b.time += DISK_PAUSE_SECONDS
    b.settle()
    assert b.files() == [0]
    for number in range(2):
        b.check(number, OWN - 64)


def test_after_an_error_of_the_disk_values_stay_in_memory_and_are_spilled_later(bench: Callable[..., Bench]) -> None:
    """A limit of the size of files stands for a full disk."""
    b = bench(hot=OWN)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    b.take(0, OWN - 64)
    b.take(1, OWN - 64)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, old[1]))
    try:
        b.settle()
        assert b.files() == []
        assert b.store.is_over()
        b.check(0, OWN - 64)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    b.settle()
    assert b.files() == [], "not yet"
    b.time += DISK_PAUSE_SECONDS
    b.settle()
    assert b.files() == [1]


def test_file_with_a_wrong_checksum_is_an_error_and_other_values_are_read(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    for number in range(3):
        b.take(number, OWN - 64)
    b.settle()
    assert b.files() == [0, 1]
    (file,) = b.base.glob(f"*/{name(0).hex()}")
    with file.open("r+b") as stream:
        stream.seek(1000)
        stream.write(b"x")
    with pytest.raises(OSError, match="differs from what was written") as caught:
        b.store.find(name(0))
    assert caught.value.errno == errno.EIO
    assert name(0) not in b.store
    b.check(1, OWN - 64)
    b.store.drop(name(2))
    b.settle()
    assert b.store.cold_bytes == 0


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: os.truncate(file, 100)], ids=["gone", "short"])
def test_missing_or_short_file_of_a_spilled_value_is_an_error(
    bench: Callable[..., Bench], spoil: Callable[[Path], None]
) -> None:
    b = bench(hot=OWN)
    for number in range(2):
        b.take(number, OWN - 64)
    b.settle()
    (file,) = b.base.glob(f"*/{name(0).hex()}")
    spoil(file)
    with pytest.raises(OSError):
        b.store.find(name(0))
    assert b.store.ids() == [name(1)]


# Values of other processes


def test_memory_of_a_client_does_not_count_and_is_never_spilled(bench: Callable[..., Bench]) -> None:
    b = bench(hot=MIB)
    theirs = SharedBlock.of(value(1, OWN))
    b.store.take_foreign(name(1), SharedBlock.open(theirs.location()))
    b.settle()
    assert (b.store.hot_bytes, b.files()) == (0, [])
    b.check(1, OWN)
    assert b.store.drop(name(1))


def test_block_of_a_processor_is_taken_without_a_copy(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    block = SharedBlock.of(value(1, OWN - 64))
    b.store.take_block(name(1), block)
    _, found = b.store.find(name(1))
    assert found is not None
    assert found.memory is block.memory
    with pytest.raises(ObjectTooLargeError):
        b.store.take_block(name(2), SharedBlock.of([bytes(OWN + 1)]))


def test_location_of_a_spilled_value_brings_it_back_to_memory(bench: Callable[..., Bench]) -> None:
    b = bench(hot=OWN)
    for number in range(2):
        b.take(number, OWN - 64)
    b.settle()
    opened = SharedBlock.open(b.store.location(name(0)))
    b.settle()
    assert [bytes(frame) for frame in opened.map()] == value(0, OWN - 64), "it was opened while it was hot"
    b.take(5, 10)
    assert b.store.location(name(5)) == b""


def test_stores_of_one_user_share_the_budget(tmp_path: Path) -> None:
    (tmp_path / "shares").mkdir()
    first, second = (
        ValueStore(HostShare(tmp_path / "shares"), 2 * OWN, SpillFolder(tmp_path, keeps_free=False), 1 << 40)
        for _ in range(2)
    )
    for number in range(2):
        first.take(name(number), value(number, OWN - 64))
    assert not first.is_over()
    second.take(name(5), value(5, OWN - 64))
    assert second.is_over()
    while second.make_room():
        pass
    assert (second.hot_bytes, second.cold_bytes) == (0, OWN)
    first.close()
    second.take(name(6), value(6, OWN - 64))
    assert not second.make_room(), "it looks before it writes"
    assert not second.is_over()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_store_without_a_disk_has_room_again_when_another_store_closes(tmp_path: Path) -> None:
    first, second = (ValueStore(HostShare(tmp_path), 2 * OWN) for _ in range(2))
    for store in (first, second):
        for number in range(2):
            store.take(name(number), value(number, OWN - 64))
    assert not second.make_room()
    assert second.is_over()
    first.close()
    assert not second.make_room()
    assert not second.is_over()
    second.close()


def test_without_shared_memory_a_store_works_with_copies(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_sizes: object) -> None:
        raise OSError(errno.EMFILE, "too many")

    b = bench(hot=OWN)
    monkeypatch.setattr(b.store._slabs, "new", none_left)
    b.take(1, MIB)
    b.check(1, MIB)
    assert store_module.INLINE_FRAMES_BYTES < MIB
