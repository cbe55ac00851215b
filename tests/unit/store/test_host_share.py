"""HostShare: memory of other stores counts as long as their processes live."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.store.host_share import HostShare, StoredBytes, folder_of_user

MIB = 1 << 20


def test_each_store_knows_the_bytes_of_the_others(tmp_path: Path) -> None:
    first, second = HostShare(tmp_path), HostShare(tmp_path)
    first.report(100 * MIB, 8 * MIB)
    second.refresh()
    assert second.others == StoredBytes(100 * MIB, 8 * MIB)
    second.report(12 * MIB, 0)
    first.refresh()
    assert first.others == StoredBytes(12 * MIB, 0)
    second.close()
    first.refresh()
    assert first.others == StoredBytes()
    first.close()


def test_of_two_stores_that_take_memory_at_once_one_sees_both(tmp_path: Path) -> None:
    first, second = HostShare(tmp_path), HostShare(tmp_path)
    first.report(20 * MIB, 0)
    second.report(20 * MIB, 0)
    assert second.others.hot == 20 * MIB
    first.close()
    second.close()


def test_other_stores_are_read_only_after_a_number_of_bytes(tmp_path: Path) -> None:
    first, second = HostShare(tmp_path), HostShare(tmp_path, refresh_bytes=100 * MIB)
    first.report(20 * MIB, 0)
    second.report(60 * MIB, 0)
    assert second.others == StoredBytes()
    second.report(104 * MIB, 0)
    assert second.others.hot == 20 * MIB
    first.close()
    second.close()


def test_a_file_that_a_cleaner_has_removed_is_made_again_with_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shares"
    folder.mkdir()
    first, second = HostShare(folder), HostShare(folder)
    first.report(20 * MIB, 0)
    shutil.rmtree(folder)
    first.report(40 * MIB, 0)
    second.refresh()
    assert second.others.hot == 40 * MIB
    assert folder.stat().st_mode & 0o777 == 0o700
    second.report(12 * MIB, 0)
    first.refresh()
    assert first.others.hot == 12 * MIB
    first.close()
    second.close()
    assert not folder.exists()


@pytest.mark.processes
def test_memory_of_a_killed_process_does_not_count(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from scaler.store.host_share import HostShare; "
        f"HostShare(Path(sys.argv[1])).{HostShare.report.__name__}(50 << 20, 4 << 20); "
        "print('ready', flush=True); sys.stdin.read()"
    )
    share = HostShare(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        share.refresh()
        assert share.others == StoredBytes(52 * MIB, 4 * MIB)
        other.send_signal(signal.SIGKILL)
        other.wait(60)
        assert len(list(tmp_path.iterdir())) == 2
        share.refresh()
        assert share.others == StoredBytes()
        assert len(list(tmp_path.iterdir())) == 1
    share.close()


def test_the_last_host_share_removes_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    share = HostShare(folder)
    share.report(MIB, MIB)
    share.close()
    share.close()
    assert not folder.exists()


def test_a_host_share_without_a_folder_knows_no_other_stores() -> None:
    share = HostShare(None)
    share.report(MIB, MIB)
    share.refresh()
    assert share.others == StoredBytes()
    share.close()


def test_a_damaged_file_of_another_store_counts_as_nothing(tmp_path: Path) -> None:
    share = HostShare(tmp_path)
    other = HostShare(tmp_path)
    os.truncate(next(file for file in tmp_path.iterdir() if file != share._file), 3)
    share.refresh()
    assert share.others == StoredBytes()
    share.close()
    other.close()


def test_folder_of_a_user_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = folder_of_user()
    assert folder == tmp_path / "scaler"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder_of_user() == folder
    folder.chmod(0o770)
    with pytest.raises(PermissionError, match="only this user"):
        folder_of_user()


def test_folder_that_is_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "scaler").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        folder_of_user()
