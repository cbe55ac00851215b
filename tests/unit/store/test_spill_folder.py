"""SpillFolder: private files, files of killed stores, and files that only their owner may remove."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.ids import ObjectId
from scaler.shared_memory import SharedBlock
from scaler.store import spill_folder
from scaler.store.spill_folder import SpillFolder, is_in_memory, remove_abandoned

ONE = ObjectId(b"1" * 16)

LEAVES = (
    "import os, sys; from pathlib import Path; from scaler.shared_memory import SharedBlock; "
    "from scaler.store.spill_folder import SpillFolder; "
    "folder = SpillFolder(Path(sys.argv[1]), keeps_free=False); "
    "writing = folder.begin(b'1' * 16, SharedBlock.of([b'value'])); writing.write_piece(); "
    "print('written', flush=True); sys.stdin.read() or os.kill(os.getpid(), 9)"
)


def written(base: Path) -> tuple[SpillFolder, SharedBlock, int]:
    folder, block = SpillFolder(base, keeps_free=False), SharedBlock.of([b"value", b"x" * 1000])
    writing = folder.begin(ONE, block)
    while not writing.write_piece():
        pass
    return folder, block, writing.checksum


def test_spilled_values_are_private_files(tmp_path: Path) -> None:
    folder, _, _ = written(tmp_path)
    (made,) = tmp_path.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o777 for file in made.iterdir()} == {ONE.hex(): 0o600, "lock": 0o600}
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_spilled_value_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder, block, checksum = written(tmp_path)
    again = SharedBlock.new(block.sizes)
    folder.read(ONE, again, checksum)
    assert [bytes(frame) for frame in again.map()] == [b"value", b"x" * 1000]
    with pytest.raises(OSError, match="differs from what was written"):
        folder.read(ONE, again, checksum + 1)
    folder.add(ONE, block.n_bytes)
    folder.remove(ONE)
    assert not folder.unlink_some(lambda: 0.0, 1.0)
    with pytest.raises(FileNotFoundError):
        folder.read(ONE, again, checksum)
    folder.close()


def test_no_folder_is_made_before_it_is_needed(tmp_path: Path) -> None:
    SpillFolder(tmp_path, keeps_free=True).close()
    assert list(tmp_path.iterdir()) == []


def test_a_tenth_of_the_disk_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill_folder, "FREE_PART", 1)  # all of it
    with pytest.raises(OSError, match="tenth") as caught:
        SpillFolder(tmp_path, keeps_free=True).begin(ONE, SharedBlock.of([b"value"]))
    assert caught.value.errno == errno.ENOSPC
    SpillFolder(tmp_path, keeps_free=False).begin(ONE, SharedBlock.of([b"value"])).abandon()


@pytest.mark.processes
def test_files_of_a_killed_store_are_removed_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "written\n"
        remove_abandoned(tmp_path)
        assert len(list(tmp_path.glob("*/*"))) == 2, "it lives"
        other.communicate(timeout=60)
    assert len(list(tmp_path.glob("*/*"))) == 2, "it was killed"
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strange", ["notes.txt", "lock", "folder"])
def test_folders_that_may_not_be_spilled_values_stay(tmp_path: Path, strange: str) -> None:
    """The folder contains a file of another program, has no lock, or contains a folder."""
    folder, _, _ = written(tmp_path)
    (made,) = tmp_path.iterdir()
    os.close(folder._lock)
    if strange == "lock":
        (made / "lock").unlink()
    elif strange == "folder":
        (made / ("0" * 32)).mkdir()
    else:
        (made / strange).write_text("mine")
    remove_abandoned(tmp_path)
    assert (made / ONE.hex()).exists()


def test_spill_folder_of_another_user_or_host_stays(tmp_path: Path) -> None:
    folder, _, _ = written(tmp_path)
    (made,) = tmp_path.iterdir()
    os.close(folder._lock)
    other = made.rename(tmp_path / "scaler-values-0-other-host-abc")
    remove_abandoned(tmp_path)
    assert other.exists()


def test_folders_in_memory_are_distinguished_from_disks(tmp_path: Path) -> None:
    assert is_in_memory(Path("/proc/self/cwd")) == is_in_memory(Path.cwd())
    shared = Path("/dev/shm")
    if any(line.split()[4] == str(shared) for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        assert is_in_memory(shared)
