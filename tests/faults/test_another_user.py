"""Another user of the machine, and whether any file, socket or process of a cluster is of use to them.

All lies in a folder that everybody may enter, so that nothing but its own mode guards it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler.endpoint import Endpoint
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.processes import REPOSITORY, command, descendants, free_address, scheduler, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

NOBODY = 65534
OBJECT_BYTES = 9_000_000

STRANGER = """
import json, os, socket, stat, sys

def uses(path):
    mode = os.lstat(path).st_mode
    if stat.S_ISSOCK(mode):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            yield "connect"
    elif stat.S_ISDIR(mode):
        os.listdir(path)
        yield "list"
    else:
        for flag in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.close(os.open(path, flag))
                yield "open"
            except OSError:
                pass

paths, processes = json.load(sys.stdin)
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
done = []
for path in paths:
    try:
        done += [f"{{use}} {{path}}" for use in uses(path)]
    except OSError:
        pass
for process in processes:
    try:
        os.kill(process, 0)
        done.append(f"signal {{process}}")
    except PermissionError:
        pass
print(json.dumps(done))
"""


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="scaler-test-", dir="/tmp"))
    folder.chmod(0o755)
    for name in ("run", "spill"):
        (folder / name).mkdir(mode=0o755)
    (folder / "for all").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(folder / "keys"))
    yield folder
    shutil.rmtree(folder)


def below(folder: Path) -> list[str]:
    return [str(folder), *map(str, sorted(folder.rglob("*")))]


def of_process(process: int) -> list[str]:
    """Return what others would like to read of a process: its memory, environment, and what it shares."""
    found = [f"/proc/{process}/{name}" for name in ("mem", "environ", "fd")]
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since
            if str(link.readlink()).startswith("/memfd:"):
                found.append(str(link))
    return found


def what_a_stranger_can(paths: list[str], processes: list[int]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER.format(nobody=NOBODY)],
        input=json.dumps([paths, processes]), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.thorough
def test_another_user_can_reach_no_file_socket_or_process(open_folder: Path) -> None:
    spill = open_folder / "spill"
    in_memory = ("--object-memory-bytes", "20000000", "--spill-folder", str(spill), "--spill-bytes", "1000000000")
    options = ("--keep", str(open_folder / "jobs"), "--audit-file", str(open_folder / "audit.log"))
    with (
        scheduler(free_address(), *options) as (address, running),
        command("cluster", address, "-n", "1", *in_memory, env={SHARING_VARIABLE: "0"}) as cluster,
        scheduler(f"ipc://{open_folder}/socket") as (_, beside),
        Client(address) as client,
        Client(n_workers=1) as local,
    ):
        tables = [client.send_object(bytes([number]) * OBJECT_BYTES) for number in range(8)]
        for number, table in enumerate(tables):
            assert client.submit(max, table).result(60) == number
        wait_until(lambda: [*spill.glob("scaler-values-*/*")], "values are on disk")
        assert local.submit(len, local.send_object(bytes(OBJECT_BYTES))).result(60) == OBJECT_BYTES
        client.map(pow, [(2, 3)], job="mine")
        processes = [running.pid, beside.pid, cluster.pid, *descendants(cluster.pid), *descendants()]
        place = Endpoint.parse(local._core.link.address).file
        assert place is not None
        paths = [*below(open_folder), *below(place.parent), *(each for one in processes for each in of_process(one))]
        for what in ("/keys/", "scheduler.key", "allowed", "client.json", "/jobs/", "/spill/scaler-", "/run/scaler/"):
            assert any(what in path for path in paths), what
        assert sum(stat.S_ISSOCK(os.lstat(path).st_mode) for path in paths if path[:6] != "/proc/") >= 2
        assert any("/fd/" in path for path in paths), "something is in shared memory"
        mine = {str(open_folder / name) for name in ("", "run", "spill", "for all")}
        done = what_a_stranger_can(paths, processes)
        assert {each.partition(" ")[2] for each in done} == mine


WITHOUT_NAME = """
import os, pwd
from scaler import Client, JobError
for options in {"n_workers": 1}, {"processes": False}:
    with Client(**options) as client:
        print(client.submit(abs, -1).result(60))
        try:
            client.map(abs, [(-1,)], job="mine")
        except JobError as error:
            print("keep=FOLDER" in str(error), "XDG_STATE_HOME" in str(error))
    with Client(**options, keep=os.getcwd() + "/jobs") as client:
        print(client.map(abs, [(-1,)], job="mine"))
    try:
        Client(**options, keep="~/jobs")
    except (ValueError, RuntimeError) as error:
        print("no home directory for `~`: set HOME" in str(error))
try:
    pwd.getpwuid(os.getuid())
except KeyError:
    print("nameless")
"""


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv makes the user")
def test_a_user_without_a_name_and_a_home_has_local_clusters(open_folder: Path) -> None:
    """As a container that runs under a number that is in no list of users. It may read, as root, where Python is."""
    (open_folder / "own").mkdir()
    os.chown(open_folder / "own", 1234567, NOBODY)
    as_user = ["setpriv", "--reuid", "1234567", "--regid", str(NOBODY), "--clear-groups"]
    may_read = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    done = subprocess.run(
        [*as_user, *may_read, sys.executable, "-c", WITHOUT_NAME], cwd=open_folder / "own",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n") == [*["1", "True True", "[1]", "True"] * 2, "nameless", ""], done.stderr
