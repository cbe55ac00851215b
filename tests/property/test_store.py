"""The store of an agent against a model: no value is lost or mixed up, what is accounted is what is held, and nothing
is left, whatever is taken, read, held, dropped, and refused by the disk, in whatever order.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scaler.ids import ObjectId
from scaler.shared_memory import SharedBlock
from scaler.store import store as store_module
from scaler.store.host_share import HostShare
from scaler.store.spill_folder import SpillFolder
from scaler.store.store import ValueStore
from tests.support.processes import open_memory

KIB = 1024
NAMES = st.integers(0, 11)
SIZES = st.sampled_from([10, 60 * KIB, 70 * KIB, 300 * KIB, 2048 * KIB, 9 * 1024 * KIB])


def name(number: int) -> ObjectId:
    return ObjectId(number.to_bytes(16, "big"))


class FailingFolder(SpillFolder):
    """A disk that is full now and then."""

    is_full = False

    def begin(self, object_id: ObjectId, block: SharedBlock) -> Any:
        if self.is_full:
            raise OSError(errno.ENOSPC, "full")
        return super().begin(object_id, block)


class StoreMachine(RuleBasedStateMachine):
    @initialize(hot=st.sampled_from([10, 20, 100]), cold=st.sampled_from([0, 5, 1000]))
    def begin(self, hot: int, cold: int) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.base = Path(self.place.name)
        self.open_before = open_memory()
        self.folder = FailingFolder(self.base, keeps_free=False)
        self.time = 0.0
        self.store = ValueStore(HostShare(None), hot << 20, self.folder, cold << 20, lambda: self.time)
        self.model: dict[int, list[bytes]] = {}
        self.held: list[tuple[Any, list[bytes]]] = []
        self.serial = 0

    @rule(number=NAMES, size=SIZES)
    def take(self, number: int, size: int) -> None:
        if number not in self.model:
            self.serial += 1
            frames = [b"%d" % self.serial, bytes([self.serial % 256]) * size]
            self.store.take(name(number), frames)
            self.model[number] = frames

    @rule(number=NAMES)
    def read(self, number: int) -> None:
        if number in self.model:
            assert [bytes(frame) for frame in self.store.frames(name(number))] == self.model[number]

    @rule(number=NAMES)
    def hold(self, number: int) -> None:
        if number in self.model:
            _, block = self.store.find(name(number))
            if block is not None:
                self.held.append((block, self.model[number]))

    @rule(number=NAMES)
    def open_by_location(self, number: int) -> None:
        location = self.store.location(name(number)) if number in self.model else b""
        if location:
            assert [bytes(frame) for frame in SharedBlock.open(location).map()] == self.model[number]

    @rule()
    def release(self) -> None:
        if self.held:
            self.held.pop(0)

    @rule(number=NAMES)
    def drop(self, number: int) -> None:
        assert self.store.drop(name(number)) == (self.model.pop(number, None) is not None)

    @rule(pieces=st.integers(1, 12))
    def make_room(self, pieces: int) -> None:
        for _ in range(pieces):
            self.store.make_room()

    @rule(is_full=st.booleans())
    def disk_changes(self, is_full: bool) -> None:
        self.folder.is_full = is_full
        self.time += store_module.DISK_PAUSE_SECONDS / 2

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "store"):
            assert sorted(self.store.ids()) == sorted(map(name, self.model))
            for block, frames in self.held:
                assert bytes(block.map()[0]) == frames[0]

    @invariant()
    def what_is_accounted_is_what_is_held(self) -> None:
        if hasattr(self, "store"):
            files = [file for file in self.base.glob("*/*") if file.name != "lock"]
            writing = self.store._writing
            of_files = sum(file.stat().st_size for file in files if writing is None or file.name != writing[1]._name)
            assert of_files == self.store.cold_bytes <= self.store.cold_most
            memories = {ref() for ref in self.store._held} - {None}
            held = sum(os.fstat(memory.descriptor).st_blocks * 512 for memory in memories)
            assert held <= self.store.hot_bytes + 4096 * len(memories)
            assert self.store.hot_bytes <= held + 4096 * len(memories)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.folder.is_full = False
            self.time += store_module.DISK_PAUSE_SECONDS
            while self.store.make_room():
                pass
            for number, frames in self.model.items():
                assert [bytes(frame) for frame in self.store.frames(name(number))] == frames
            self.store.close()
            self.held.clear()
            assert list(self.base.iterdir()) == []
            assert self.store.hot_bytes == 0
            assert open_memory(self.base) <= self.open_before
            self.place.cleanup()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
