"""Each option of the commands has an effect that can be seen."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import wait
from pathlib import Path

import psutil
import pytest

from scaler import Client, NoWorkerError, ProcessorDiedError, ScalerFuture, SchedulerClusterCombo
from tests.support.processes import REPOSITORY, Command, command, scheduler, wait_until


def io_threads(pid: int) -> int:
    """Return how many of ZeroMQ's I/O threads a process has."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum((task / "comm").read_text().startswith("ZMQbg/IO") for task in tasks)


def touch_and_sleep(path: str, seconds: float) -> int:
    Path(path, str(os.getpid())).touch()
    time.sleep(seconds)
    return os.getpid()


def test_io_threads() -> None:
    with (
        scheduler(None, "--io-threads", "3") as (address, running),
        command("cluster", address, "-n", "1", "-it", "2") as cluster,
        Client(address) as client,
    ):
        assert client.submit(pow, 2, 3).result(30) == 8
        assert io_threads(running.pid) == 3 + 1  # the monitor stream has one of its own
        assert io_threads(cluster.pid) == 2


def test_client_timeout_frees_the_worker_of_a_client_that_hangs(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from scaler import Client\n"
        "def work(path):\n"
        "    Path(path).touch()\n"
        "    time.sleep(1000)\n"
        "Client(sys.argv[1]).submit(work, sys.argv[2]).result()\n"
    )
    with scheduler(None, "-ct", "2") as (address, running), command("cluster", address, "-n", "1"):
        hanging = subprocess.Popen([sys.executable, "-c", program, address, str(tmp_path / "runs")], cwd=REPOSITORY)
        try:
            wait_until((tmp_path / "runs").exists, "the task runs")
            hanging.send_signal(signal.SIGSTOP)
            with Client(address) as client:
                assert client.submit(pow, 2, 3).result(30) == 8
            running.wait_for("is lost: it was silent")
        finally:
            hanging.kill()
            hanging.wait()


@pytest.mark.more
def test_worker_timeout_moves_the_tasks_of_an_agent_that_hangs(tmp_path: Path) -> None:
    with (
        scheduler(None, "-wt", "2") as (address, running),
        command("cluster", address, "-n", "1", "-hi", "0.2") as first,
        Client(address) as client,
    ):
        future = client.submit(touch_and_sleep, str(tmp_path), 0.5)
        wait_until(lambda: list(tmp_path.iterdir()), "the task runs")
        first.signal(signal.SIGSTOP)
        with command("cluster", address, "-n", "1", "-hi", "0.2"):
            pid = future.result(60)
        running.wait_for("is lost: it was silent")
        assert len(list(tmp_path.iterdir())) == 2
        assert (tmp_path / str(pid)).exists()
        first.signal(signal.SIGCONT)


@pytest.mark.parametrize("interval", [pytest.param("5", marks=pytest.mark.more), "0.2"])
def test_heartbeats_are_sent_as_often_as_asked_for_or_as_the_scheduler_needs_them(interval: str) -> None:
    with (
        scheduler(None, "-wt", "2") as (address, running),
        command("cluster", address, "-n", "1", "-hi", interval),
        Client(address) as client,
    ):
        assert client.submit(time.sleep, 4.5).result(30) is None
        assert "is lost: it was silent" not in running.output


def test_crash_limit() -> None:
    with (
        scheduler(None, "--crash-limit", "1") as (address, _),
        command("cluster", address, "-n", "1"),
        Client(address) as client,
        pytest.raises(ProcessorDiedError, match="attempt 1 of 1"),
    ):
        client.submit(os._exit, 3).result(30)


def test_tasks_are_named_in_errors_and_in_the_log_of_the_worker() -> None:
    with (
        scheduler(None, "--crash-limit", "1") as (address, _),
        command("cluster", address, "-n", "1", "-ll", "DEBUG") as cluster,
        Client(address) as client,
    ):
        with pytest.raises(ProcessorDiedError, match=r"^task the last straw: the processor of worker"):
            client.submit(os._exit, 3, name="the last straw").result(30)
        with pytest.raises(
            ProcessorDiedError, match=r"^task _exit\(3\) \(item 0 of the map\): the processor of worker"
        ):
            client.map(os._exit, [(3,)])
        task_id = client.submit(pow, 2, 3).task_id.hex()
        cluster.wait_for(f"task pow ({task_id}) starts")
        cluster.wait_for(f"task {task_id}: success after ")
        cluster.wait_for("task the last straw (")


def test_settings_of_the_environment_reach_the_processes_of_commands() -> None:
    env = {"SCALER_ADDRESS": "tcp://127.0.0.1:*", "SCALER_CRASH_LIMIT": "1", "SCALER_EVENT_LOOP": "builtin"}
    with command("scheduler", env=env) as running:
        address = running.wait_for("address tcp").partition("address ")[2].partition(",")[0]
        with (
            command("cluster", env={"SCALER_ADDRESS": address, "SCALER_WORKER_NAMES": "the_only_one"}),
            Client(address) as client,
        ):
            with pytest.raises(ProcessorDiedError, match="attempt 1 of 1"):
                client.submit(os._exit, 3).result(30)
            assert "connected" in running.wait_for("the_only_one")


def test_settings_of_a_file_reach_the_cluster_of_a_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scaler.toml").write_text(
        "[scheduler]\ncrash_limit = 1\n[cluster]\nn_workers = 1\ntask_timeout_seconds = 0.5\n"
    )
    with Client() as client:
        with pytest.raises(ProcessorDiedError, match="attempt 1 of 1"):
            client.submit(os._exit, 3).result(30)
        with pytest.raises(TimeoutError):
            client.submit(time.sleep, 100).result(30)


def wait_for_file(path: str) -> bool:
    """Return at once without a path, else when the file exists; another one says that it waits."""
    if path:
        Path(f"{path}.seen").touch()
    while path and not Path(path).exists():
        time.sleep(0.01)
    return bool(path)


def test_per_worker_queue_size_bounds_what_waits_behind_a_task_that_hangs(tmp_path: Path) -> None:
    """With two places, one task waits behind the one that hangs; all others are done by a worker that joins."""
    release = tmp_path / "release"
    with (
        scheduler(None, "-qs", "2", "-ls", "0") as (address, _),
        command("cluster", address, "-n", "1"),
        Client(address) as client,
    ):
        client.map(wait_for_file, [("",)] * 500)  # now it is known as a short one
        hanging = client.submit(wait_for_file, str(release))
        futures = [client.submit(wait_for_file, "") for _ in range(500)]
        with command("cluster", address, "-n", "1"):
            wait_until(lambda: sum(future.done() for future in futures) >= 499, "all are done but the one behind it")
            assert not hanging.done()
            release.touch()
            assert hanging.result(30)
            assert not any(future.result(30) for future in futures)


def where_tasks_are(running: Command, total: int) -> tuple[int, int]:
    """Return how many of so many tasks wait at the scheduler, and how many are at workers."""

    def places() -> tuple[int, int] | None:
        before = len(running.lines)
        running.signal(signal.SIGUSR1)
        lines = wait_until(lambda: [line for line in running.lines[before:] if "are at workers" in line], "the report")
        waiting, at_workers = (int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", lines[0]))
        return (waiting, at_workers) if waiting + at_workers == total else None

    return wait_until(places, f"the scheduler has {total} tasks")  # type: ignore[no-any-return]


def let_wait_behind_one_that_hangs(
    client: Client, running: Command, release: Path
) -> tuple[ScalerFuture, list[ScalerFuture]]:
    """Return a task that hangs at the only worker, and short ones that wait there.

    On a busy machine one of the short ones may have taken long, and then the others wait at the scheduler.
    """
    while True:
        client.map(wait_for_file, [("",)] * 500)  # now it is known as a short one
        hanging = client.submit(wait_for_file, str(release))
        behind = [client.submit(wait_for_file, "") for _ in range(20)]
        if where_tasks_are(running, 21) == (0, 21):
            return hanging, behind
        release.touch()
        wait([hanging, *behind], 30)
        release.unlink()


def tasks_behind_one_that_hangs_are_done(release: Path, seconds: float, *options: str) -> bool:
    """Return whether a worker that joins is given what waits at another one, within some time."""
    with (
        scheduler(None, *options) as (address, running),
        command("cluster", address, "-n", "1"),
        Client(address) as client,
    ):
        hanging, behind = let_wait_behind_one_that_hangs(client, running, release)
        with command("cluster", address, "-wn", "second"):
            running.wait_for("second connected")
            waiting = wait(behind, seconds).not_done
            assert not hanging.done()
            release.touch()
            assert hanging.result(30)
            assert not any(future.result(30) for future in behind)
            return not waiting


@pytest.mark.more
def test_load_balance_seconds_and_trigger_times(tmp_path: Path) -> None:
    rarely = ("-ls", "30")  # what waits behind a task that takes so long is taken back anyway
    assert tasks_behind_one_that_hangs_are_done(tmp_path / "twice", 20, *rarely, "-lbt", "2")
    assert not tasks_behind_one_that_hangs_are_done(tmp_path / "often", 2, *rarely, "-lbt", "1000")
    assert not tasks_behind_one_that_hangs_are_done(tmp_path / "off", 2, "-ls", "0")


def moment(seconds: float) -> float:
    time.sleep(seconds)
    return time.monotonic()


def run_before_the_single_task_of_another(release: Path, *options: str) -> int:
    """Return how many of 300 tasks of one client run before that of another one, which came last."""
    with (
        scheduler(None, *options) as (address, _),
        command("cluster", address, "-n", "1"),
        Client(address) as busy,
        Client(address) as other,
    ):
        first = busy.submit(wait_for_file, str(release))
        futures = [busy.submit(moment, 0.005) for _ in range(300)]
        busy.info()  # what was submitted before is there
        single = other.submit(moment, 0)
        other.info()
        release.touch()
        first.result(60)
        ended = single.result(60)
        return sum(future.result(60) < ended for future in futures)


@pytest.mark.more
def test_policy(tmp_path: Path) -> None:
    assert run_before_the_single_task_of_another(tmp_path / "fair") < 200
    assert run_before_the_single_task_of_another(tmp_path / "in order", "--policy", "fifo") == 300


def test_max_number_of_tasks_waiting_refuses_further_tasks(tmp_path: Path) -> None:
    release = tmp_path / "release"
    with scheduler(None, "-mt", "2", "-qs", "1") as (address, _), Client(address) as client:
        waiting = [client.submit(wait_for_file, str(release)) for _ in range(2)]
        with pytest.raises(NoWorkerError, match=r"2 tasks wait.* no worker is connected"):
            client.submit(wait_for_file, "").result(30)
        with command("cluster", address, "-n", "1"):
            wait_until(lambda: Path(f"{release}.seen").exists(), "the first one runs")
            waiting.append(client.submit(wait_for_file, str(release)))
            with pytest.raises(NoWorkerError, match="1 worker is connected, and it does not have a free place"):
                client.submit(wait_for_file, "").result(30)
            release.touch()
            assert all(future.result(30) for future in waiting)
            assert client.submit(wait_for_file, "").result(30) is False


@pytest.mark.more
def test_max_number_of_tasks_waiting_of_a_combo() -> None:
    with (
        SchedulerClusterCombo(1, max_number_of_tasks_waiting=0, per_worker_queue_size=2) as combo,
        Client(combo.get_address()) as client,
    ):
        client.submit(pow, 2, 3).exception(30)  # refused, or the worker is there already
        wait_until(lambda: client.submit(pow, 2, 3).exception(30) is None, "the worker is there")
        futures = [client.submit(time.sleep, 0.5) for _ in range(5)]
        assert [type(future.exception(30)) for future in futures] == [type(None)] * 2 + [NoWorkerError] * 3


def test_a_graph_with_a_call_that_is_refused_fails_as_a_whole() -> None:
    with (
        SchedulerClusterCombo(1, max_number_of_tasks_waiting=0, per_worker_queue_size=2) as combo,
        Client(combo.get_address()) as client,
    ):
        wait_until(lambda: client.submit(pow, 2, 3).exception(30) is None, "the worker is there")
        graph = {f"sleep {i}": (time.sleep, 100) for i in range(3)} | {"last": (str, "sleep 0")}
        start = time.monotonic()
        futures = client.get(graph, list(graph), block=False)
        assert [type(future.exception(30)) for future in futures.values()] == [NoWorkerError] * 4
        assert client.get({"power": (pow, 2, 3)}, ["power"]) == {"power": 8}, "what ran was stopped"
        assert time.monotonic() - start < 50


def test_logging_level_and_configuration_file(tmp_path: Path) -> None:
    log, config = tmp_path / "own.log", tmp_path / "logging.ini"
    config.write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=own\n"
        "[logger_root]\nlevel=INFO\nhandlers=file\n"
        f"[handler_file]\nclass=FileHandler\nformatter=own\nargs=({str(log)!r},)\n"
        "[formatter_own]\nformat=OWN %(message)s\n"
    )
    with command("scheduler", "tcp://127.0.0.1:*", "-lc", str(config)) as running:
        wait_until(lambda: log.exists() and "OWN scheduler: event loop" in log.read_text(), "lines of the scheduler")
        log.unlink()
        assert running.output == ""
    with scheduler() as (address, loud):
        with command("cluster", address, "-n", "1", "--logging-config-file", str(config)):
            wait_until(lambda: log.exists() and "OWN" in log.read_text(), "lines in the format of the file")
            wait_until(lambda: loud.output.count(" connected (") == 1, "it is connected before it is killed")
        with command("cluster", address, "-n", "1", "-ll", "ERROR") as quiet:
            wait_until(lambda: loud.output.count(" connected (") == 2, "the quiet one is connected as well")
            assert "[INFO]" not in quiet.output


def test_a_scheduler_with_full_queues_uses_no_processor_time() -> None:
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "2"),
        Client(address) as client,
    ):
        client.map(time.sleep, [(0,)] * 500)  # so they are taken for short ones, and fill the queues of the workers
        futures = [client.submit(time.sleep, 100) for _ in range(5000)]
        wait_until(lambda: all(future.running() for future in futures), "all are submitted")
        client.submit(time.sleep, 0)
        process = psutil.Process(running.pid)
        wait_until(lambda: _is_idle(process), "the scheduler comes to rest with 5000 tasks waiting", 20)


def _is_idle(process: psutil.Process) -> bool:
    return bool(process.cpu_percent(interval=1.0) < 3.0)


KEPT: list[bytearray] = []


def leave_a_cycle(path: str) -> None:
    """Leave something that only a full collection of garbage finds, since it is old; when it does, the file exists."""

    class Cycle:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            Path(path).touch()

    cycle = Cycle()
    gc.collect()
    del cycle


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def fragment_the_heap(path: str) -> tuple[int, int]:
    """Leave 100 MB of free memory that the C library keeps, because something lies above it. Returns pid and rss."""
    pieces = [bytearray(50_000) for _ in range(2000)]
    KEPT.append(pieces[-1])
    del pieces
    leave_a_cycle(path)
    return os.getpid(), resident_bytes()


def use_and_measure(data: bytes) -> tuple[int, int]:
    return os.getpid(), resident_bytes() * bool(data)


def test_an_object_unused_for_an_interval_is_dropped_and_read_again_on_demand() -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", "-gc", "0.3", "-tm", "0") as _cluster,
        Client(address) as client,
    ):
        reference = client.send_object(os.urandom(50_000_000))
        pid, full_bytes = client.submit(use_and_measure, reference).result(30)
        processor = psutil.Process(pid)
        wait_until(lambda: processor.memory_info().rss < full_bytes - 40_000_000, "the value is dropped")
        assert client.submit(use_and_measure, reference).result(30)[0] == pid


@pytest.mark.more
def test_garbage_is_collected_every_interval(tmp_path: Path) -> None:
    with scheduler() as (address, _), Client(address) as client:
        with command("cluster", address, "-n", "1", "-gc", "0.3"):
            client.submit(leave_a_cycle, str(tmp_path / "often")).result(30)
            wait_until((tmp_path / "often").exists, "a collection")
        with command("cluster", address, "-n", "1", "-gc", "1000"):
            client.submit(leave_a_cycle, str(tmp_path / "seldom")).result(30)
            client.submit(time.sleep, 1).result(30)
            assert not (tmp_path / "seldom").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc gives memory back")
def test_memory_above_the_threshold_is_given_back_and_below_it_is_kept(tmp_path: Path) -> None:
    with scheduler() as (address, _), Client(address) as client:
        with command("cluster", address, "-n", "1", "-gc", "0.3", "-tm", "20000000"):
            pid, full_bytes = client.submit(fragment_the_heap, str(tmp_path / "low")).result(30)
            processor = psutil.Process(pid)
            wait_until(lambda: processor.memory_info().rss < full_bytes - 80_000_000, "memory is given back")
        with command("cluster", address, "-n", "1", "-gc", "0.3", "-tm", "10000000000"):
            pid, full_bytes = client.submit(fragment_the_heap, str(tmp_path / "high")).result(30)
            wait_until((tmp_path / "high").exists, "a collection")
            client.submit(len, "behind it").result(30)
            assert psutil.Process(pid).memory_info().rss > full_bytes - 20_000_000
