"""What users want done before the first task is done: once for all worker processes, or in each of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaler import (
    AsyncClient,
    Client,
    Cluster,
    DisconnectedError,
    NoWorkerError,
    SchedulerClusterCombo,
    WorkerDiedError,
)
from scaler.config import ConfigError
from tests.support.processes import REPOSITORY, alive, command, free_address, run_python, scheduler, wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module that is slow to load and says by whom it is; clusters of this program find it."""
    (tmp_path / "heavy.py").write_text(
        "import os, logging\nLOADED_BY = os.getpid()\ndef start():\n    global up\n    up = 7\n"
    )
    (tmp_path / "raises.py").write_text("def start():\n    raise OSError('no table')\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('out of order')\n")
    (tmp_path / "leaves.py").write_text("import os\nos._exit(5)\n")
    (tmp_path / "long.py").write_text("raise ValueError('y' * 1_000_000)\n")
    (tmp_path / "uses.py").write_text("from scaler import Client\nClient().submit(abs, -1).result()\n")
    (tmp_path / "brings.py").write_text("from scaler import Client\nClient(n_workers=1)\n")
    (tmp_path / "maps.py").write_text(
        "from scaler import Client, current_task\nif current_task():\n    VALUES = Client().map(abs, [(-1,), (-2,)])\n"
        "def values():\n    return VALUES\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def who_loaded(_number: int) -> tuple[int, int, int]:
    import heavy  # type: ignore[import-not-found]

    return os.getpid(), os.getppid(), heavy.LOADED_BY


def test_preloaded_modules_are_imported_once_for_all(folder: Path) -> None:
    with (
        SchedulerClusterCombo(2, preload=["heavy", "json"], logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        for pid, parent, loaded_by in client.map(who_loaded, [(number,) for number in range(20)]):
            assert pid != loaded_by == parent


def test_a_client_takes_the_settings_of_the_cluster_that_it_starts(folder: Path) -> None:
    def prepare() -> None:
        sys.prepared = 7  # type: ignore[attr-defined]

    with Client(n_workers=1, preload=["heavy"], initializer=prepare, capabilities={"licence": 1}) as client:
        pid, parent, loaded_by = client.options(capabilities={"licence": 1}).submit(who_loaded, 1).result(30)
        assert pid != loaded_by == parent
        assert client.submit(lambda: sys.prepared).result(30) == 7  # type: ignore[attr-defined]
        asking = client.options(capabilities={"gpu": 1}, no_worker_timeout=0.1)
        with pytest.raises(NoWorkerError, match=r'; make the client with Client\(capabilities={"gpu": 1}\)$'):
            asking.submit(abs, -1).result(30)
        with pytest.raises(TimeoutError, match=r"make the client with Client\(n_workers=3\)"):
            client.wait_for_workers(3, 0.1)


def test_an_async_client_takes_preload_and_initializer(folder: Path) -> None:
    async def program() -> None:
        async with AsyncClient(n_workers=1, preload=["heavy"]) as client:
            pid, parent, loaded_by = await client.submit(who_loaded, 1)
            assert pid != loaded_by == parent

    asyncio.run(program())


OF_THE_PROGRAM = """
import os, sys
os.environ["OMP_NUM_THREADS"] = "1"
from scaler import Client, Cluster, Scheduler
import installed, own
def where(_number):
    return installed.LOADED_BY == os.getppid(), own.LOADED_BY == os.getpid()
scheduler = Scheduler(logging_level="WARNING")
scheduler.start()
with Client(scheduler.get_address()) as client:
    future = client.submit(where, 0)
    cluster = Cluster(scheduler.get_address(), n_workers=int(sys.argv[1]))
    cluster.start()
    print({future.result(60), *client.map(where, [(number,) for number in range(20)])})
cluster.shutdown()
scheduler.shutdown()
"""
FAILS_ONCE_IN_A_CLUSTER = """
with open("imports", "a") as file:
    file.write("x")
    if file.tell() == 2:
        raise OSError("not now")
"""
HAS_A_GENERATOR = "import random; drawn_from = random.Random()"
HAS_A_THREAD = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody counts the threads of a process")
@pytest.mark.parametrize(
    ("content", "n_workers", "is_shared", "why"),
    [
        ("", 2, True, ""),
        pytest.param("", 1, False, "", marks=pytest.mark.more),
        (HAS_A_THREAD, 2, False, "its import starts threads"),
        (HAS_A_GENERATOR, 2, False, "makes the random generator installed.drawn_from"),
        pytest.param(FAILS_ONCE_IN_A_CLUSTER, 2, False, "OSError: not now", marks=pytest.mark.more),
    ],
    ids=["as usual", "one worker", "a thread", "a generator", "an error"],
)
def test_what_the_program_has_imported_of_installed_packages_is_imported_once(
    tmp_path: Path, content: str, n_workers: int, is_shared: bool, why: str
) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "installed.py").write_text(f"import os\nLOADED_BY = os.getpid()\nprint('a word')\n{content}\n")
    (tmp_path / "own.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    program = tmp_path / "program.py"
    program.write_text(OF_THE_PROGRAM)
    path = f"{REPOSITORY}{os.pathsep}{installed}"
    done = run_python(program, str(n_workers), folder=tmp_path, PYTHONPATH=path)
    assert done.stdout.splitlines() == ["a word", str({(is_shared, True)})], done.stderr
    assert ("each worker process imports" in done.stderr) == bool(why)
    assert why in done.stderr


def test_initializer_may_have_much_data() -> None:
    data = os.urandom(3_000_000)

    def prepare() -> None:
        sys.prepared = data  # type: ignore[attr-defined]

    with (
        SchedulerClusterCombo(1, initializer=prepare, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        assert client.submit(lambda: len(sys.prepared)).result(30) == len(data)  # type: ignore[attr-defined]


def test_initializer_runs_in_each_new_process(folder: Path) -> None:
    mark = 3

    def prepare() -> None:
        sys.prepared = getattr(sys, "prepared", 0) + mark  # type: ignore[attr-defined]

    def prepared(_number: int) -> Any:
        return os.getpid(), sys.prepared  # type: ignore[attr-defined]

    with (
        SchedulerClusterCombo(2, initializer=prepare, max_tasks_per_processor=3, logging_level="WARNING") as combo,
        Client(combo.get_address()) as client,
    ):
        results = client.map(prepared, [(number,) for number in range(12)])
    assert len({pid for pid, _ in results}) >= 4
    assert {value for _, value in results} == {3}


def test_commands_take_them_by_name(folder: Path) -> None:
    address = free_address()
    with (
        command("scheduler", address),
        command("cluster", address, "-n", "1", "--preload", "heavy", "--initializer", "heavy:start"),
        Client(address) as client,
    ):
        assert client.submit(lambda: sys.modules["heavy"].up).result(60) == 7


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--preload", "broken"), "cannot preload module 'broken': RuntimeError: out of order"),
        (("--preload", "uses"), "'uses': ConfigError: the import of a preloaded module cannot use the cluster whose"),
        (("--preload", "brings"), "'brings': ConfigError: the import of a preloaded module cannot use the cluster"),
        (("--initializer", "broken:start"), "RuntimeError: out of order"),
        (("--initializer", "raises:start"), "OSError: no table"),
    ],
)
def test_failure_is_a_failure_of_the_start_with_its_reason(folder: Path, options: tuple[str, str], reason: str) -> None:
    with command("cluster", free_address(), "-n", "1", *options) as cluster:
        cluster.wait_for(reason)
        cluster.wait_for("the cluster ends: ")
        assert cluster.end() == 78
        assert cluster.output.count("Traceback") == (options[0] == "--initializer")


AT_ONCE_OR_LATER = (DisconnectedError, WorkerDiedError)
"""errors of a task that is submitted after, or before, the local cluster has failed"""


def not_prepared() -> None:
    raise OSError("no licence")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"preload": ["broken"]},
            r"cannot preload module 'broken': RuntimeError: out of order \(.*broken.py, line 1\)",
        ),
        (
            {"preload": ["heavy", "leaves"]},
            "cannot preload module 'leaves': its import ended the process: exit code 5; ",
        ),
        ({"preload": ["long"]}, r"cannot preload module 'long': ValueError: y+\.\.\.y+ \(.*long.py, line 1\); fix"),
        (
            {"initializer": not_prepared},
            r"the initializer failed: OSError: no licence \(.*test_preparation.py, line \d+",
        ),
    ],
    ids=["preload", "preload that exits", "preload with a long error", "initializer"],
)
def test_why_a_local_cluster_cannot_start_is_the_error_of_its_tasks(
    folder: Path, options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(n_workers=2, **options) as client:
        with pytest.raises(AT_ONCE_OR_LATER, match=f"^the local cluster for .* cannot start: {reason}"):
            client.submit(pow, 2, 3).result(60)
        with pytest.raises(DisconnectedError, match=reason):
            client.submit(pow, 2, 3)
    assert not caplog.records


def test_a_failed_preparation_is_the_error_of_the_tasks_of_an_async_client(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reason = "cannot start: cannot preload module 'broken'"

    async def program() -> None:
        async with AsyncClient(n_workers=1, preload=["broken"]) as client:
            with pytest.raises(AT_ONCE_OR_LATER, match=reason):
                await client.submit(pow, 2, 3)
            with pytest.raises(DisconnectedError, match=reason):
                await client.map(pow, [(2, 3)])

    asyncio.run(asyncio.wait_for(program(), 60))
    assert not caplog.records


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no signal tells of the death of a parent")
def test_a_module_whose_import_never_ends_ends_with_its_agent(folder: Path) -> None:
    note = folder / "pid"
    text = f"import os, pathlib, time\npathlib.Path({str(note)!r}).write_text(f'{{os.getpid()}}.')\ntime.sleep(1000)\n"
    (folder / "endless.py").write_text(text)
    with command("cluster", free_address(), "-n", "1", "--preload", "endless") as cluster:
        wait_until(lambda: note.exists() and note.read_text().endswith("."), "the import has begun")
        cluster.process.kill()
        wait_until(lambda: not alive(int(note.read_text()[:-1])), "the fork server has ended")


def test_what_this_machine_does_not_have_is_refused_before_a_cluster_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"spill_folder": str(folder / "missing")}, "spill_folder: the folder"),
        ({"spill_folder": "/dev/shm"}, r"spill_folder: /dev/shm is in memory"),
        ({"spill_folder": str(folder / "heavy.py")}, r"spill_folder: .*heavy.py is not a folder"),
        ({"spill_folder": "missing"}, f"spill_folder: the folder {Path.cwd()}/missing"),
        ({"capabilities": {"gpu": 2}}, r"gpu=2 is more than .* CUDA_VISIBLE_DEVICES='2' names 1 GPU; offer gpu=1, or"),
        ({"capabilities": {"gpu": 2}, "processes": False}, "gpu=2 is more than the environment has"),
    )
    for options, reason in bad:
        with pytest.raises(ConfigError, match=reason):
            Client(n_workers=1, **options)
    with command("cluster", free_address(), "--capabilities", "gpu=2") as cluster:
        cluster.wait_for("gpu=2 is more than the environment has")
        assert cluster.end() == 2


def refusals(of_program: Client, elsewhere: str) -> list[str]:
    """Use the cluster of this process in all ways that would wait for it. Return what was not refused."""

    async def use_async(options: dict[str, Any]) -> Any:
        async with AsyncClient(**options) as client:
            return await client.submit(abs, -1)

    own = Client()
    uses: dict[str, Callable[[], Any]] = {
        "submit": lambda: own.submit(abs, -1).result(),
        "map": lambda: own.map(abs, [(-1,)]),
        "map_unordered": lambda: list(own.map_unordered(abs, [(-1,)])),
        "get": lambda: own.get({"one": (abs, -1)}, ["one"]),
        "run_on_all": lambda: own.run_on_all(abs, -1),
        "as_executor": lambda: own.as_executor().submit(abs, -1).result(),
        "wait_for_workers": lambda: own.wait_for_workers(1),
        "n_workers": lambda: Client(n_workers=1),
        "address": lambda: Client(os.environ["SCALER_ADDRESS"]).submit(abs, -1).result(),
        "travelled": lambda: of_program.submit(abs, -1).result(),
        "AsyncClient": lambda: asyncio.run(use_async({})),
        "AsyncClient with n_workers": lambda: asyncio.run(use_async({"n_workers": 1})),
    }
    allowed = []
    for name, use in uses.items():
        try:
            allowed.append(f"{name}: {use()}")
        except ConfigError as error:
            assert "an initializer cannot use the cluster" in str(error)  # noqa: PT017 - in a worker process
    with Client(elsewhere) as other, Client(processes=False) as threads:
        assert other.submit(abs, -1).result() == threads.submit(abs, -1).result() == 1
    sys.kept = own  # type: ignore[attr-defined]
    return allowed


def test_an_initializer_is_refused_what_would_wait_for_its_own_workers() -> None:
    with scheduler() as (address, _), Client(address) as client, SchedulerClusterCombo(1) as combo:
        elsewhere = combo.get_address()

        def prepare() -> None:
            sys.allowed = refusals(client, elsewhere)  # type: ignore[attr-defined]

        cluster = Cluster(address, n_workers=1, initializer=prepare)
        cluster.start()
        assert client.submit(lambda: sys.allowed).result(60) == []  # type: ignore[attr-defined]
        assert client.submit(lambda: sys.kept.submit(abs, -3).result()).result(60) == 3  # type: ignore[attr-defined]
        cluster.shutdown()


def test_a_module_may_map_while_the_task_that_needs_it_imports_it(folder: Path) -> None:
    import maps  # type: ignore[import-not-found]

    with Client(n_workers=1) as client:
        assert client.submit(maps.values).result(60) == [1, 2]
