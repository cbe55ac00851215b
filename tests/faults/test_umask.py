"""All that Scaler makes is private to its user, even if the umask of the process (a daemon, a container) is 0.

Files that a command writes on request, such as traces, follow the umask; none is among these.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler.cli import keys
from scaler.endpoint import Endpoint
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.processes import called, command, free_address, scheduler, wait_until

pytestmark = pytest.mark.faults

OBJECT_BYTES = 9_000_000


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the home, the runtime folder and the temporary folder of a user whose umask is 0."""
    path = Path(tempfile.mkdtemp(prefix="scaler-test-", dir="/tmp"))  # short, as paths of sockets must be
    for name in ("home", "run", "tmp", "spill"):
        (path / name).mkdir()
    for variable, name in (("HOME", "home"), ("XDG_RUNTIME_DIR", "run"), ("TMPDIR", "tmp")):
        monkeypatch.setenv(variable, str(path / name))
    for variable in ("XDG_STATE_HOME", "SCALER_KEY_FOLDER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tempfile.tempdir", None)
    umask = os.umask(0)
    yield path
    os.umask(umask)
    shutil.rmtree(path)


def open_to_others(root: Path) -> list[str]:
    """Return what others may use of what was made below a folder."""
    found = []
    for name in ("home", "run", "tmp", "spill", "keep"):
        for each in (root / name).rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # removed since
                mode = each.lstat().st_mode
                found += [f"{mode:o} {each.relative_to(root)}"] if mode & 0o077 else []
    return found


@pytest.mark.thorough
def test_all_files_folders_and_sockets_are_private_with_an_umask_of_0(root: Path) -> None:
    address = free_address()
    spilling = f"--object-memory-bytes 20000000 --spill-folder {root}/spill --spill-bytes 1000000000".split()
    logged = ("--logging-paths", str(root / "home" / "log"))
    with (
        scheduler(address, "--keep", str(root / "keep" / "jobs"), "--audit-file", str(root / "home" / "audit")),
        command("cluster", address, "-n", "1", *spilling, *logged, env={SHARING_VARIABLE: "0"}),
        command("ui", address, "--port", "0", "--store", str(root / "home" / "store")) as page,
        scheduler(f"ipc://{root}/run/socket"),
        Client(address) as client,
        Client(n_workers=1, dashboard=True) as local,
        Client(n_workers=1, keep=str(root / "keep" / "mine" / "jobs")) as keeping,
    ):
        page.wait_for("?token=")
        tables = [client.send_object(bytes([number]) * OBJECT_BYTES) for number in range(8)]
        assert [client.submit(max, table).result(60) for table in tables] == list(range(8))
        wait_until(lambda: [*root.glob("spill/scaler-values-*/*")], "values are on disk")
        folder = ("--folder", str(root / "keep" / "made" / "keys"))
        for words in (("new", "tcp://host:2345"), ("allow", "bob", "--role", "client")):
            assert called(keys.main, *words, *folder)[0] == 0
        for each in (client, local, keeping):
            assert each.map(bytes, [(size,) for size in (1, 1_000_000)], job="mine")[0] == b"\0"
        place = Endpoint.parse(local._core.link.address).file
        assert place is not None
        assert place.is_relative_to(root / "tmp")
        monitor = Endpoint.parse(address).monitor
        assert monitor is not None
        assert monitor.file is not None
        assert stat.S_IMODE(monitor.file.stat().st_mode) == 0o600
        made = {str(each.relative_to(root)) for each in root.rglob("*")}
        names = "job.sqlite-wal job.sqlite-shm values/ witness .token .lock store-wal audit client.json allowed"
        names += " scheduler.key .held users socket_monitor spill/scaler- .local/state/scaler/jobs"
        names += " home/log mine/jobs/ made/keys/bob.json"
        for what in names.split():
            assert any(what in each for each in made), what
        assert open_to_others(root) == []
