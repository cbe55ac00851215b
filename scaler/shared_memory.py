"""Memory that several processes of one host can map: large values are written once and never sent.

Frames lie in a **block**: a part of anonymous memory behind a descriptor. No file system shows the memory. It vanishes
with its last descriptor and mapping, so a kill leaves nothing behind. Small blocks share a **slab**, because a process
may open only a limited number of descriptors; a large block has its own memory.

An agent passes the descriptor to its processors. Other processes use the **location** of the block: host, process,
descriptor, a mark to recognise the memory, and the offset in the memory. With the location, a process of the same user
on the same host can open the block while its owner keeps it. All other processes request the bytes. Locations are not
trusted, but checked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import itertools
import mmap
import os
import stat
import struct
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

INLINE_FRAMES_BYTES = 64 * 1024
"""The maximum size of frames that the processes of a node send in a stream; larger frames are passed in a block."""
SHARE_LEAST_BYTES = 1 << 20
"""The minimum size of a value that is shared. Smaller values are sent, because that takes no longer."""
SLAB_BYTES = 64 << 20
"""The size of a slab, which holds values of up to an eighth of this size. Only written pages take memory."""
OPEN_MEMORIES_MOST = 128
"""The most memories that a client creates, and the most blocks that it maps. Each takes two descriptors."""
NEW_MEMORY_BYTES = 32 << 20
"""The minimum size of a value for which `malloc` of glibc takes new memory from the system."""
REMEMBERED_BLOCKS_MOST = 64
"""The maximum number of blocks that stay open because frames were mapped from them."""
SHARING_VARIABLE = "SCALER_SHARED_MEMORY"
"""The environment variable whose value 0 turns sharing with other processes off."""

_HAS_SEALS = hasattr(os, "memfd_create")
_ALIGNMENT = 64  # of each frame in a block, so that arrays in it are aligned
_WRITE_MOST = 0x7FFFF000  # the most that Linux reads or writes in one call
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # since Linux 5.14; older ones refuse it, and provide pages one by one
_LOCATION = struct.Struct("<16sIIQQQ")
"""a location: machine, process, descriptor, device, inode, offset; then the sizes of frames, eight bytes each"""


def size_at(location: bytes) -> int:
    """Return the number of bytes at a location, as the location itself claims; 0 if the location is malformed."""
    sizes, rest = divmod(len(location) - _LOCATION.size, 8)
    return 0 if sizes < 0 or rest else sum(struct.unpack_from(f"<{sizes}Q", location, _LOCATION.size))


def nbytes(frame: Any) -> int:
    """Return the number of bytes in a frame."""
    return len(frame) if type(frame) is bytes else memoryview(frame).nbytes


def new_memory(size: int) -> int:
    """Return the descriptor of `size` bytes of memory that other processes can map; no file system shows this memory.

    The memory is sealed, so that it cannot shrink. A process is killed if it reads a mapping whose memory is gone.
    """
    if _HAS_SEALS:
        descriptor = os.memfd_create("scaler", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        descriptor, path = tempfile.mkstemp(prefix="scaler-")
        os.unlink(path)  # noqa: PTH108 - a plain string from tempfile
    try:
        os.ftruncate(descriptor, size)
        if _HAS_SEALS:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _may_be_cut_short(descriptor: int) -> bool:
    """Return whether another process could still shrink this memory; to be called before the size is read."""
    try:
        return _HAS_SEALS and not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:  # not memory of `memfd_create`
        return True


def _offsets(sizes: Sequence[int]) -> list[int]:
    return [0, *itertools.accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]


class _Mapping(mmap.mmap):
    block: SharedBlock | None = None


class Memory:
    """A descriptor of memory, open as long as this object lives.

    Attributes:
        filled: the number of taken bytes. No offset is used twice: a location leads to its own value, or to nothing.
    """

    __slots__ = ("__weakref__", "_view", "descriptor", "filled")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.filled = 0
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        """Return all of this memory, read-only. The memory must be sealed."""
        if self._view is None:
            self._view = memoryview(mmap.mmap(self.descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ))
        return self._view

    def __del__(self) -> None:
        os.close(self.descriptor)


class SharedBlock:
    """Frames in memory that several processes can map. The memory lives as long as any block in it or mapping of it."""

    __slots__ = ("__weakref__", "memory", "offset", "sizes")

    def __init__(self, memory: Memory, sizes: Sequence[int], offset: int = 0) -> None:
        self.memory = memory
        self.sizes = sizes
        self.offset = offset

    @classmethod
    def of(cls, frames: Sequence[Any]) -> SharedBlock:
        """Copy `frames` into a new block with its own memory. Raises `OSError` without free memory or descriptors."""
        block = cls.new([nbytes(frame) for frame in frames])
        block.write(frames)
        return block

    @classmethod
    def new(cls, sizes: Sequence[int]) -> SharedBlock:
        """Return a block with its own memory for frames of the given sizes. Raises `OSError` like `of`."""
        return cls(Memory(new_memory(_offsets(sizes)[-1])), sizes)

    @classmethod
    def open(cls, location: bytes) -> SharedBlock:
        """Open the block of another process. Raises `OSError` if there is no such block, or without permission."""
        if len(location) < _LOCATION.size or (len(location) - _LOCATION.size) % 8:
            raise OSError("the location of the block is malformed")
        if not can_share():
            raise OSError(f"{SHARING_VARIABLE} turns sharing off in this process")
        machine, process, descriptor, device, inode, offset = _LOCATION.unpack_from(location)
        if machine != machine_id():
            raise OSError("the block is on another machine")
        # Opened without blocking: if the descriptor is a pipe by now, it must not block this process.
        opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        sizes = struct.unpack_from(f"<{(len(location) - _LOCATION.size) // 8}Q", location, _LOCATION.size)
        block = cls(Memory(opened), sizes, offset)
        found = os.fstat(opened)
        is_it = stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) == (device, inode)
        if found.st_uid != os.geteuid():
            raise OSError("the block belongs to another user")
        if not is_it or _may_be_cut_short(opened) or not offset < block.end <= found.st_size:
            raise OSError("the block no longer exists")
        return block

    @property
    def n_bytes(self) -> int:
        """The number of bytes that the block takes in its memory: the frames and the gaps between them."""
        return _offsets(self.sizes)[-1]

    @property
    def end(self) -> int:
        """The offset of the end of the block in its memory."""
        return self.offset + self.n_bytes

    def write(self, frames: Sequence[Any]) -> None:
        """Copy `frames` into the block. Raises `OSError` if the system has no memory left."""
        for start, frame in zip(_offsets(self.sizes), frames, strict=False):
            data = memoryview(frame).cast("B") if nbytes(frame) else memoryview(b"")
            if type(data.obj) is bytes:
                _with_pages(data.obj, _POPULATE_READ)
            write_at(self.memory.descriptor, data, self.offset + start)

    def read(self) -> list[bytearray]:
        """Return copies of the frames. Nothing is mapped."""
        starts = (self.offset + start for start in _offsets(self.sizes))
        return [_read_at(self.memory.descriptor, start, size) for start, size in zip(starts, self.sizes, strict=False)]

    def read_bytes(self, head: bytes) -> list[bytes] | None:
        """Return copies of the frames if there are two and the first is `head`, so that their value becomes `bytes`;
        else None.

        A value that becomes `bytes` is copied anyway, and a copy from mapped pages would take a third longer.
        """
        if not head or len(self.sizes) != 2 or self.sizes[0] != len(head):
            return None
        descriptor, begin = self.memory.descriptor, self.offset
        if os.pread(descriptor, len(head), begin) != head:
            return None
        stream = io.BytesIO(_with_pages(bytes(self.sizes[1]), _POPULATE_WRITE))
        with stream.getbuffer() as view:
            _read_into(view, descriptor, begin + _offsets(self.sizes)[1])
        return [head, stream.getvalue()]  # the same bytes: `getvalue` copies only if there are other references

    def location(self) -> bytes:
        """Return the location of this block for other processes, valid while the block is open in this process."""
        descriptor = self.memory.descriptor
        found = os.fstat(descriptor)
        place = _LOCATION.pack(machine_id(), os.getpid(), descriptor, found.st_dev, found.st_ino, self.offset)
        return place + struct.pack(f"<{len(self.sizes)}Q", *self.sizes)

    def view(self) -> list[memoryview]:
        """Return the frames, read-only, of a block that this process made. All blocks in a memory share a mapping."""
        return self._cut(self.memory.view(), self.offset)

    def map(self, remember: bool = False) -> list[memoryview]:
        """Return the frames, read-only. Raises `ValueError` if the block may be smaller than its sizes claim.

        Args:
            remember: whether `block_of` finds this block by the frames. The descriptor of the block then stays open as
                long as the frames live, unless too many blocks are open.
        """
        if _may_be_cut_short(self.memory.descriptor):
            raise ValueError("a shared block can shrink: its memory is not sealed")
        if os.fstat(self.memory.descriptor).st_size < self.end:
            raise ValueError("a shared block is smaller than announced")
        mapping = self._mapped(mmap.MAP_SHARED, mmap.PROT_READ)
        if remember and len(_remembered) < REMEMBERED_BLOCKS_MOST:
            mapping.block = self
            _remembered.add(mapping)
        return self._cut(memoryview(mapping), self.offset % mmap.ALLOCATIONGRANULARITY)

    def map_privately(self) -> list[memoryview]:
        """Return the frames as a private copy-on-write mapping. Raises `OSError` if memory cannot be reserved."""
        private = self._mapped(mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        _private.add(private)
        return self._cut(memoryview(private), self.offset % mmap.ALLOCATIONGRANULARITY)

    def _mapped(self, flags: int, protection: int) -> _Mapping:
        start = self.offset - self.offset % mmap.ALLOCATIONGRANULARITY
        return _Mapping(self.memory.descriptor, self.end - start, flags, protection, offset=start)

    def _cut(self, view: memoryview, begin: int) -> list[memoryview]:
        starts = (begin + start for start in _offsets(self.sizes))
        return [view[start : start + size] for start, size in zip(starts, self.sizes, strict=False)]


class Slabs:
    """The memory for new values: small values share a slab, large values have memory of their own. Thread-safe.

    A slab is freed with its last block, because processes may map any part of it. Slabs are usable after a fork.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[int, weakref.ref[Memory]] | None = None
        """the id of the process that fills the slab, and a weak reference to the slab, which its blocks keep alive"""

    def put(self, frames: Sequence[Any]) -> SharedBlock:
        """Copy `frames` into a new block. Raises `OSError` if no memory or no descriptor is left."""
        block = self.new([nbytes(frame) for frame in frames])
        block.write(frames)
        return block

    def new(self, sizes: Sequence[int]) -> SharedBlock:
        """Return a block for frames of the given sizes. Raises `OSError` like `put`."""
        n_bytes = _offsets(sizes)[-1]
        if n_bytes > SLAB_BYTES // 8:
            return SharedBlock.new(sizes)
        with self._lock:
            slab = self._slab(n_bytes)
            block = SharedBlock(slab, sizes, slab.filled)
            slab.filled += n_bytes
        return block

    def being_filled(self) -> Memory | None:
        """Return the slab that this process fills; None if no slab is being filled."""
        return self._open[1]() if self._open is not None and self._open[0] == os.getpid() else None

    def _slab(self, n_bytes: int) -> Memory:
        slab = self.being_filled()
        if slab is None or slab.filled + n_bytes > SLAB_BYTES:
            slab = Memory(new_memory(SLAB_BYTES))
            self._open = os.getpid(), weakref.ref(slab)
        return slab


_remembered: weakref.WeakSet[_Mapping] = weakref.WeakSet()
_private: weakref.WeakSet[_Mapping] = weakref.WeakSet()


def block_of(frames: Sequence[Any]) -> SharedBlock | None:
    """Return the remembered block of these mapped frames; None if it is unknown, or has more frames than these."""
    mapping = frames[0].obj if frames and isinstance(frames[0], memoryview) else None
    block = mapping.block if isinstance(mapping, _Mapping) else None
    return block if block is not None and list(block.sizes) == list(map(nbytes, frames)) else None


def private_frames(frames: Sequence[Any], bytes_head: bytes = b"") -> Sequence[Any]:
    """Return the frames as private writable buffers.

    A page is copied when it is first written to. If the block of the frames is unknown, all pages are copied at once.

    Args:
        bytes_head: the first frame of a value that becomes `bytes`, see `SharedBlock.read_bytes`.
    """
    if len(frames) == 1:  # a pickle that has all its data inside
        return frames
    block = block_of(frames)
    if block is not None:
        with contextlib.suppress(OSError):
            return block.read_bytes(bytes_head) or block.map_privately()
    return [frames[0], *map(bytearray, frames[1:])]


def writable(frame: Any) -> Any:
    """Return a frame of a message as a writable buffer: the frame itself if this process created it, else a copy."""
    is_own = type(frame) is memoryview and not frame.readonly and type(frame.obj) in (bytearray, mmap.mmap)
    return frame if is_own else bytearray(frame)


def frames_at(location: bytes, bytes_head: bytes = b"") -> Sequence[Any]:
    """Return the frames at a location as this process's own memory, to which it may write.

    A page is copied when it is first written to. All pages are copied at once if the value is small, or if there are
    `OPEN_MEMORIES_MOST` mappings. `bytes_head` is the first frame of a value that becomes `bytes`, see
    `SharedBlock.read_bytes`.

    Raises:
        OSError: if the frames cannot be opened here.
        MemoryError: if the system has no memory for a copy.
    """
    block = SharedBlock.open(location)
    if (frames := block.read_bytes(bytes_head)) is not None:
        return frames
    if sum(block.sizes) >= SHARE_LEAST_BYTES and len(_private) < OPEN_MEMORIES_MOST:
        with contextlib.suppress(OSError):
            return block.map_privately()
    return block.read()


def _read_at(descriptor: int, offset: int, size: int) -> bytearray:
    data = bytearray(size)
    with memoryview(data) as view:
        _read_into(view, descriptor, offset)
    return data


def _read_into(view: memoryview, descriptor: int, offset: int) -> None:
    at = 0
    while at < len(view):
        n_read = os.preadv(descriptor, [view[at : at + _WRITE_MOST]], offset + at)
        if not n_read:
            raise OSError("the memory or the file is shorter than announced")
        at += n_read


def _with_pages(data: bytes, advice: int) -> bytes:
    """Return `data`. If it is large and new (the page in its middle is missing), first let the system provide all its
    pages.

    Page faults one by one would take longer than the copy.
    """
    if len(data) >= NEW_MEMORY_BYTES and sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - only large values need it

        system, has_page = ctypes.CDLL(None), ctypes.create_string_buffer(1)
        start = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        first, middle = (at - at % mmap.PAGESIZE for at in (start, start + len(data) // 2))
        if not system.mincore(ctypes.c_void_p(middle), ctypes.c_size_t(1), has_page) and not has_page.raw[0] & 1:
            system.madvise(ctypes.c_void_p(first), ctypes.c_size_t(start + len(data) - first), advice)
    return data


def write_at(descriptor: int, data: Any, offset: int) -> None:
    """Write all of `data` at an offset of a file or of shared memory."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view[:_WRITE_MOST], offset)
        view, offset = view[written:], offset + written


# Sharing with processes that do not get the descriptor


@cache
def machine_id() -> bytes:
    """Return 16 bytes that identify one boot of one machine, one process namespace, and one format of locations.

    Processes with the same value can name each other by their process ids.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return hashlib.blake2b(boot + str(namespace).encode(), digest_size=16, person=b"location 2").digest()


def can_share() -> bool:
    """Return whether this process can share its blocks with other processes."""
    return sys.platform == "linux" and os.environ.get(SHARING_VARIABLE, "1") != "0"


class SharedFrames(list[memoryview]):
    """Frames in a block that other processes can open as long as this object lives."""

    _slabs: ClassVar = Slabs()
    _open: ClassVar[weakref.WeakSet[Memory]] = weakref.WeakSet()

    def __init__(self, frames: Sequence[Any]) -> None:
        """Copy `frames`. Raises `OSError` if no further block can be opened."""
        if len(self._open) >= OPEN_MEMORIES_MOST:
            raise OSError("too many blocks are open")
        self._block = self._slabs.put(frames)
        super().__init__(self._block.view())
        self._open.add(self._block.memory)
        self.location = self._block.location()
