"""Blocks of shared memory: what other processes see of them, and what is refused."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scaler import shared_memory
from scaler.pickling.serialization import BYTES_HEAD, DEFAULT_SERIALIZER, from_frames, to_frames
from scaler.shared_memory import (
    NEW_MEMORY_BYTES,
    REMEMBERED_BLOCKS_MOST,
    SHARE_LEAST_BYTES,
    SHARING_VARIABLE,
    SLAB_BYTES,
    Memory,
    SharedBlock,
    SharedFrames,
    Slabs,
    block_of,
    can_share,
    frames_at,
    machine_id,
    new_memory,
    private_frames,
)
from tests.support.processes import open_files, open_memory

PROCESS = 16
DESCRIPTOR = 20
INODE = 32


def moved(location: bytes, offset: int, value: int) -> bytes:
    """Return the location with a number of four bytes in it replaced."""
    return location[:offset] + struct.pack("<I", value) + location[offset + 4 :]


def test_frames_of_a_block_are_aligned() -> None:
    assert shared_memory._offsets([3, 0, 100, 64]) == [0, 64, 64, 192, 256]


def test_a_block_holds_its_frames_read_only() -> None:
    frames = SharedBlock.of([b"one", b"", memoryview(b"three")]).map()
    assert [bytes(frame) for frame in frames] == [b"one", b"", b"three"]
    with pytest.raises(TypeError):
        frames[0][0] = 1


def test_a_block_that_is_smaller_than_announced_is_refused() -> None:
    block = SharedBlock.of([b"x"])
    block.sizes = [10_000]
    with pytest.raises(ValueError, match="smaller than announced"):
        block.map()
    with pytest.raises(OSError, match="is shorter than announced"):
        block.read()
    block.sizes = [1, 10_000]
    with pytest.raises(OSError, match="is shorter than announced"):
        block.read_bytes(b"x")


@pytest.mark.parametrize("fill", [b"\0", b"x"], ids=["new", "written"])
def test_large_bytes_are_read_without_a_second_copy(fill: bytes) -> None:
    value = bytes(NEW_MEMORY_BYTES) if fill == b"\0" else fill * NEW_MEMORY_BYTES
    block = SharedBlock.of(to_frames(DEFAULT_SERIALIZER, value))
    tracemalloc.start()
    try:
        frames = block.read_bytes(BYTES_HEAD)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * NEW_MEMORY_BYTES
    finally:
        tracemalloc.stop()
    assert frames is not None
    assert from_frames(DEFAULT_SERIALIZER, frames) is frames[1]
    assert frames[1] == value


def test_a_block_and_its_mapping_leave_no_descriptor() -> None:
    before = open_files()
    for _ in range(20):
        assert SharedBlock.of([b"x"]).map()[0][0] == ord("x")
    assert open_files() == before


@pytest.mark.processes
def test_another_process_finds_a_block_by_its_location() -> None:
    block = SharedBlock.of([b"one", b"two"])
    program = (
        "import sys; from scaler.shared_memory import SharedBlock; "
        "print([bytes(frame) for frame in SharedBlock.open(bytes.fromhex(sys.argv[1])).map()])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, block.location().hex()], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout == "[b'one', b'two']\n"


def test_an_opened_block_outlives_its_owner() -> None:
    block = SharedBlock.of([b"one"])
    opened = SharedBlock.open(block.location())
    del block
    assert bytes(opened.map()[0]) == b"one"


@pytest.mark.parametrize("location", [b"", b"x" * 47, b"x" * 49], ids=["empty", "short", "odd"])
def test_a_malformed_location_is_refused(location: bytes) -> None:
    with pytest.raises(OSError, match="location of the block is malformed"):
        SharedBlock.open(location)


def test_a_location_on_another_machine_is_refused() -> None:
    location = SharedBlock.of([b"x"]).location()
    with pytest.raises(OSError, match="another machine"):
        SharedBlock.open(bytes(16) + location[16:])


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory has no seals here")
def test_a_location_of_memory_that_is_not_sealed_is_refused() -> None:
    """Its owner could truncate it under its readers, which would end their processes."""
    block = SharedBlock.of([b"x"])
    descriptor = os.memfd_create("scaler", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 4096)
    location = moved(moved(block.location(), DESCRIPTOR, descriptor), INODE, os.fstat(descriptor).st_ino)
    with pytest.raises(OSError, match="the block no longer exists"):
        SharedBlock.open(location)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    assert SharedBlock.open(location).n_bytes == block.n_bytes
    os.close(descriptor)


def test_a_location_that_does_not_lead_to_its_block_is_refused(tmp_path: Path) -> None:
    block = SharedBlock.of([b"x"])
    location = block.location()
    read_end, write_end = os.pipe()
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x" * 100)
        for wrong in (
            moved(location, PROCESS, 2**31 - 1),
            moved(location, DESCRIPTOR, 2**31 - 1),
            moved(location, DESCRIPTOR, read_end),
            moved(location, DESCRIPTOR, file.fileno()),
            moved(location, INODE, 0),
            location[:-8] + struct.pack("<Q", 2**40),
            location[:-8] + struct.pack("<Q", 2**64 - 1) * 3,
            location[:-16] + struct.pack("<QQ", 2**64 - 64, 1),
            location[:-16] + struct.pack("<QQ", 64, 1),
        ):
            before = open_files()
            with pytest.raises(OSError):
                SharedBlock.open(wrong)
            assert open_files() == before
    os.close(read_end)
    os.close(write_end)


def test_sharing_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    block = SharedBlock.of([b"x"])
    assert can_share() == (sys.platform == "linux")
    monkeypatch.setenv(SHARING_VARIABLE, "0")
    assert not can_share()
    with pytest.raises(OSError, match=SHARING_VARIABLE):
        SharedBlock.open(block.location())


def test_a_machine_has_one_stable_id() -> None:
    assert len(machine_id()) == 16
    machine_id.cache_clear()
    assert machine_id() == machine_id()


def test_shared_frames_cannot_be_truncated() -> None:
    frames = SharedFrames([b"frame"])
    opened = SharedBlock.open(frames.location)
    with pytest.raises(PermissionError):
        os.truncate(f"/proc/self/fd/{frames._block.memory.descriptor}", 0)
    assert bytes(opened.map()[0]) == b"frame"


def test_a_block_that_can_be_truncated_is_refused() -> None:
    """Its owner could end this process by truncating it (SIGBUS)."""
    memory = Memory(os.memfd_create("x", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.truncate(memory.descriptor, 4096)
    block = SharedBlock(memory, [4096])
    with pytest.raises(OSError, match="no longer exists"):
        SharedBlock.open(block.location())
    with pytest.raises(ValueError, match="not sealed"):
        block.map()


def test_a_file_is_refused_as_a_block(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    block = SharedBlock(Memory(os.open(tmp_path / "file", os.O_RDWR)), [100])
    with pytest.raises(OSError, match="no longer exists"):
        SharedBlock.open(block.location())
    with pytest.raises(ValueError, match="not sealed"):
        block.map()


def test_new_memory_cannot_be_truncated() -> None:
    descriptor = new_memory(100)
    with pytest.raises(PermissionError):
        os.truncate(descriptor, 0)
    os.close(descriptor)


def test_the_number_of_memories_of_shared_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "OPEN_MEMORIES_MOST", 4)
    large = bytes(SLAB_BYTES // 8 + 1)
    kept = [SharedFrames([large]) for _ in range(4 - len(SharedFrames._open))]
    with pytest.raises(OSError, match="too many"):
        SharedFrames([large])
    kept.pop()
    assert SharedFrames([b"x"])


def test_two_hundred_values_of_a_client_share_few_descriptors() -> None:
    before = open_files()
    kept = [SharedFrames([b"%d" % number, bytes(1 << 20)]) for number in range(200)]
    assert open_files() <= before + 2 * 5
    assert all(bytes(frames[0]) == b"%d" % number for number, frames in enumerate(kept))
    assert bytes(SharedBlock.open(kept[150].location).map()[0]) == b"150"


# Slabs


def test_small_values_share_a_descriptor_and_have_a_location_each() -> None:
    slabs = Slabs()
    before = open_files()
    blocks = [slabs.put([b"%d" % number, b"x" * number]) for number in range(1000)]
    assert open_files() == before + 1
    for number, block in enumerate(blocks):
        opened = SharedBlock.open(block.location())
        for frames in (opened.map(), opened.map_privately(), block.view()):
            assert [bytes(frame) for frame in frames] == [b"%d" % number, b"x" * number]


def test_large_value_has_memory_of_its_own() -> None:
    slabs = Slabs()
    small, large = slabs.put([b"x"]), slabs.put([bytes(SLAB_BYTES // 8 + 1)])
    assert small.memory is not large.memory
    assert os.fstat(large.memory.descriptor).st_size < SLAB_BYTES


def test_a_full_slab_is_followed_by_a_new_one_and_is_freed_with_its_last_value() -> None:
    slabs = Slabs()
    value = bytes(SLAB_BYTES // 8)
    before = open_files()
    blocks = [slabs.put([value]) for _ in range(9)]
    assert open_files() == before + 2
    del blocks[:7]
    assert open_files() == before + 2
    del blocks[0]
    assert open_files() == before + 1
    blocks.clear()
    assert open_files() == before


def test_a_mapped_value_stays_readable_after_its_block_is_dropped() -> None:
    slabs = Slabs()
    block = slabs.put([b"value" * 100])
    mapped, opened = block.map(), SharedBlock.open(block.location())
    del block
    slabs.put([b"other" * 100])
    assert bytes(mapped[0]) == b"value" * 100
    assert bytes(opened.map()[0]) == b"value" * 100


def test_the_location_of_a_dropped_value_leads_to_no_other_value() -> None:
    slabs = Slabs()
    keeps_the_slab, gone = slabs.put([b"first"]), slabs.put([b"value"])
    location = gone.location()
    del gone
    slabs.put([b"other"])
    assert bytes(SharedBlock.open(location).map()[0]) == b"value"
    assert bytes(keeps_the_slab.view()[0]) == b"first"


@pytest.mark.processes
def test_a_forked_child_does_not_write_into_the_slab_of_its_parent() -> None:
    slabs = Slabs()
    first = slabs.put([b"first"])
    child = os.fork()
    if not child:
        slabs.put([b"child"])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    second = slabs.put([b"after"])
    assert [bytes(block.view()[0]) for block in (first, second)] == [b"first", b"after"]
    assert bytes(first.memory.view()[second.end :][:5]) == bytes(5)


def test_several_threads_may_fill_one_slab() -> None:
    slabs = Slabs()
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda number: slabs.put([b"%d" % number * 100]), range(2000)))
    assert all(bytes(block.view()[0]) == b"%d" % number * 100 for number, block in enumerate(blocks))


def test_the_block_of_frames_is_found_if_they_were_mapped_with_remember() -> None:
    block = SharedBlock.of([b"one", b"", b"three"])
    assert block_of(block.map()) is None
    frames = block.map(remember=True)
    assert block_of(frames) is block
    assert block_of(tuple(frames)) is block
    assert block_of(frames[:2]) is None
    assert block_of([b"one"]) is None
    assert block_of([]) is None


def test_the_number_of_remembered_blocks_is_bounded() -> None:
    frames = [SharedBlock.of([b"x"]).map(remember=True) for _ in range(REMEMBERED_BLOCKS_MOST + 20)]
    assert sum(block_of(each) is not None for each in frames) <= REMEMBERED_BLOCKS_MOST
    frames.clear()
    assert block_of(SharedBlock.of([b"x"]).map(remember=True)) is not None


# Private frames


@pytest.mark.parametrize("remember", [True, False])
def test_writes_to_private_frames_do_not_change_the_block(remember: bool) -> None:
    block = SharedBlock.of([b"pickle", b"a" * 100_000, b"b" * 10])
    frames = block.map(remember)
    first, second = private_frames(frames), private_frames(frames)
    for private in (first, second):
        assert [bytes(frame) for frame in private] == [b"pickle", b"a" * 100_000, b"b" * 10]
        private[1][:3] = b"xyz"
    del first
    assert bytes(frames[1]) == b"a" * 100_000
    assert bytes(SharedBlock.open(block.location()).map()[1]) == b"a" * 100_000


def test_block_of_another_process_can_be_mapped_privately() -> None:
    """The block is open for reading only."""
    block = SharedBlock.of([b"", b"a" * 100_000])
    opened = SharedBlock.open(block.location()).map(remember=True)
    private = private_frames(opened)
    private[1][0] = 0
    assert isinstance(private[1], memoryview)
    assert bytes(block.map()[1]) == b"a" * 100_000


def test_private_frames_are_copied_when_they_cannot_be_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_block: SharedBlock) -> list[memoryview]:
        raise OSError("no memory")

    frames = SharedBlock.of([b"", b"a" * 100_000]).map(remember=True)
    monkeypatch.setattr(SharedBlock, "map_privately", refuse)
    private = private_frames(frames)
    private[1][0] = 0
    assert bytes(frames[1]) == b"a" * 100_000


def test_private_mapping_leaves_no_descriptor() -> None:
    before = open_files()
    private = private_frames(SharedBlock.of([b"", b"a" * 100_000]).map(remember=True))
    assert open_files() > before
    del private
    assert open_files() == before


# Values of another process


@pytest.mark.parametrize("size", [100_000, SHARE_LEAST_BYTES])
def test_frames_at_a_location_belong_to_the_reader(size: int) -> None:
    block = SharedBlock.of([b"head", bytes(size)])
    head, data = frames_at(block.location())
    memoryview(data)[0] = 7
    assert (bytes(head), memoryview(data)[0], block.map()[1][0]) == (b"head", 7, 0)


@pytest.mark.parametrize("size", [100_000, SHARE_LEAST_BYTES])
@pytest.mark.parametrize("read", [frames_at, private_frames])
def test_frames_that_become_bytes_are_read_and_not_mapped(read: Callable[..., Any], size: int) -> None:
    value = bytes(range(250)) * (size // 250)
    slabs = Slabs()
    blocks = [slabs.put(to_frames(DEFAULT_SERIALIZER, each)) for each in (b"x" * size, value)]
    opened = [block.location() if read is frames_at else block.map(remember=True) for block in blocks]
    found = [read(each, BYTES_HEAD) for each in opened]
    assert [type(frame) for frame in found[1]] == [bytes, bytes]
    assert from_frames(DEFAULT_SERIALIZER, found[1]) is found[1][1]
    assert (found[0][1], found[1][1]) == (b"x" * size, value)


def test_frames_at_a_location_outlive_their_owner() -> None:
    block = SharedBlock.of([b"x" * SHARE_LEAST_BYTES])
    (data,) = frames_at(block.location())
    del block
    assert bytes(data) == b"x" * SHARE_LEAST_BYTES


def test_small_values_and_values_beyond_the_limit_leave_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.shared_memory.OPEN_MEMORIES_MOST", 0)
    blocks = [SharedBlock.of([bytes(size)]) for size in (100_000, SHARE_LEAST_BYTES)]
    before = open_memory()
    frames = [frames_at(block.location()) for block in blocks]
    assert open_memory() <= before
    assert [len(frame) for (frame,) in frames] == [100_000, SHARE_LEAST_BYTES]


def test_a_location_named_by_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    block = SharedBlock.of([bytes(100_000)])
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="another user"):
        frames_at(block.location())
