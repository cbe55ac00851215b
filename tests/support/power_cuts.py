"""Power cuts: records what a process writes and syncs, and writes the files as they may be after a power cut.

A small library (`power_cut.c`) records the operations on files of a real process. After a cut, each page of an unsynced
write may be missing, and so may each unsynced truncation or name.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

SOURCE = Path(__file__).with_name("power_cut.c")
PAGE = 4096
_HEAD = struct.Struct("<QQQ")


class Deed(NamedTuple):
    """One operation on a file. `what` is w(rite), t(runcate), s(ync), u(nlink), r(ename), or d (new folder)."""

    what: str
    path: str
    data: bytes
    offset: int


def noted(program: Path, below: Path, work: Path) -> list[Deed]:
    """Run a program that writes below a folder, and return its operations there."""
    library, log = work / "power_cut.so", work / "deeds"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, SOURCE, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "POWER_CUT_LOG": str(log), "POWER_CUT_BELOW": str(below)}
    subprocess.run([sys.executable, program, below], env=environment, check=True, timeout=60)
    return list(_read(log.read_bytes()))


def _read(log: bytes) -> list[Deed]:
    deeds, at = [], 0
    while at < len(log):
        n_path, n_data, offset = _HEAD.unpack_from(log, at + 1)
        begin = at + 1 + _HEAD.size
        path, data = log[begin : begin + n_path].decode(), log[begin + n_path : begin + n_path + n_data]
        deeds.append(Deed(chr(log[at]), path, data, offset))
        at = begin + n_path + n_data
    return deeds


class _File:
    """The content of a file that is certainly on disk, and the operations that may be."""

    def __init__(self) -> None:
        self._synced = bytearray()
        self.loose: list[Deed] = []

    def sync(self) -> None:
        for deed in self.loose:
            _apply(self._synced, deed)
        self.loose = []

    def write_after_cut(self, chance: random.Random, place: Path) -> None:
        content = bytearray(self._synced)
        for deed in self.loose:
            for piece in _pieces(deed):
                if chance.random() < 0.5:
                    _apply(content, piece)
        place.write_bytes(content)


def _pieces(deed: Deed) -> list[Deed]:
    """Split a write into pages, each of which may be lost."""
    pieces, at = [], 0
    while at < len(deed.data):
        size = min(PAGE - (deed.offset + at) % PAGE, len(deed.data) - at)
        pieces.append(deed._replace(data=deed.data[at : at + size], offset=deed.offset + at))
        at += size
    return pieces or [deed]


def _apply(content: bytearray, deed: Deed) -> None:
    if deed.what == "t":
        del content[deed.offset :]
    end = deed.offset + len(deed.data)
    content.extend(bytes(max(0, end - len(content))))
    content[deed.offset : end] = deed.data


_Names: TypeAlias = "dict[str, _File | _Folder]"


class _Folder:
    """The names in a folder that are certainly on disk, and the changes that may be."""

    def __init__(self) -> None:
        self.names: _Names = {}
        self._synced: _Names = {}
        self.loose: list[Callable[[_Names], None]] = []

    def change(self, change: Callable[[_Names], None]) -> None:
        change(self.names)
        self.loose.append(change)

    def sync(self) -> None:
        self._synced = dict(self.names)
        self.loose = []

    def write_after_cut(self, chance: random.Random, place: Path) -> None:
        names = dict(self._synced)
        for change in self.loose:
            if chance.random() < 0.5:
                change(names)
        place.mkdir(mode=0o700, exist_ok=True)
        for name, node in names.items():
            if not name.endswith("-shm"):
                node.write_after_cut(chance, place / name)


class Disk:
    """The files below a folder, as the operations of a process leave them."""

    def __init__(self, below: Path) -> None:
        self._below = str(below)
        self._root = _Folder()

    def _find(self, path: str) -> tuple[_Folder, str]:
        folder = self._root
        *above, name = os.path.relpath(path, self._below).split("/")
        for each in above:
            inner = folder.names[each]
            assert isinstance(inner, _Folder)
            folder = inner
        return folder, name

    def do(self, deed: Deed) -> None:
        if deed.path == self._below:
            self._root.sync()
            return
        folder, name = self._find(deed.path)
        if deed.what in "wtd" and name not in folder.names:
            node = _Folder() if deed.what == "d" else _File()
            folder.change(lambda names: names.update({name: node}))
        if deed.what in "wt":
            file = folder.names[name]
            assert isinstance(file, _File)
            file.loose.append(deed)
        elif deed.what == "s" and name in folder.names:
            folder.names[name].sync()
        elif deed.what == "u":
            folder.change(lambda names: names.pop(name, None) and None)
        elif deed.what == "r":
            new = self._find(deed.data.decode())[1]
            folder.change(lambda names: names.update({new: names.pop(name)} if name in names else {}))

    def cut(self, chance: random.Random, place: Path) -> None:
        """Write to `place` the files as they may be after a power cut now."""
        self._root.write_after_cut(chance, place)
