"""The commands, as a user types them."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scaler import Client, DeserializeObjectError, ProcessorDiedError
from tests.support.keys import OPEN
from tests.support.processes import alive, command, descendants, fork_server_of, free_address, scheduler, wait_until
from tests.unit.transport.test_lookup import UNKNOWN


@pytest.mark.parametrize(
    ("to_cluster", "to_scheduler"), [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)]
)
def test_a_command_ends_cleanly_on_a_signal(to_cluster: signal.Signals, to_scheduler: signal.Signals) -> None:
    with scheduler() as (address, running):
        with command("cluster", address, "-n", "1"), command("cluster", address, "-n", "2") as cluster:
            cluster.wait_for("processor")
            below = descendants(cluster.pid)
            cluster.signal(to_cluster)
            assert cluster.end() == 0
            wait_until(lambda: not any(alive(pid) for pid in below), "nothing is left")
            running.signal(to_scheduler)
            assert running.end() == 0, "another cluster is still there"
        assert "Traceback" not in running.output + cluster.output


@pytest.mark.parametrize(
    ("module", "arguments", "hint"),
    [
        ("scheduler", [], "ADDRESS"),
        ("scheduler", ["tcp://127.0.0.1:1234", "-lp", "/no/such/folder/log"], "/no/such/folder/log"),
        ("cluster", ["nowhere"], "looks like"),
    ],
)
def test_bad_arguments_end_with_exit_code_2_and_one_sentence(module: str, arguments: list[str], hint: str) -> None:
    with command(module, *arguments) as running:
        assert running.end() == 2
        assert hint in running.lines[-1]
        assert "Traceback" not in running.output


@pytest.mark.parametrize("module", ["scheduler", "cluster"])
def test_help_teaches(module: str) -> None:
    with command(module, "-h") as running:
        assert running.end() == 0
        assert "examples:" in running.output
        assert "default" in running.output


def test_the_first_fork_server_of_a_cluster_is_a_fork_that_leaves_ctrl_c_to_the_agent() -> None:
    with scheduler() as (address, _), command("cluster", address, "-n", "1") as cluster, Client(address) as client:
        first = client.submit(os.getpid).result(30)
        fork_server = fork_server_of(cluster.pid)
        assert fork_server is not None
        assert fork_server.cmdline() == psutil.Process(cluster.pid).cmdline()
        fork_server.send_signal(signal.SIGINT)
        assert client.submit(os.getpid).result(30) == first
        assert "Traceback" not in cluster.output
        fork_server.kill()
        fork_server.wait(30)
        assert client.submit(os.getpid).result(30) != first


def test_a_busy_port_says_who_listens_there() -> None:
    with scheduler() as (address, first), command("scheduler", address) as second:
        assert second.end() == 1
        assert "in use" in second.output
        assert str(first.pid) in second.output


def test_a_busy_monitor_port_is_an_error_even_if_it_is_the_schedulers_own() -> None:
    own = free_address()
    with scheduler() as (address, first), command("scheduler", own, "-ma", address) as second:
        assert second.end() == 1
        assert f"{address} is in use: process {first.pid} " in second.output
    with command("scheduler", own, "-ma", own) as both:
        assert both.end() == 1
        assert f"{own} is in use: this scheduler itself listens there" in both.output


def test_a_busy_ipc_path_is_refused_and_a_stale_one_is_taken(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/scaler"
    with scheduler(address) as (_, first):
        with command("scheduler", address) as second:
            assert second.end() == 1
            assert "in use" in second.output
        os.kill(first.pid, signal.SIGKILL)
        first.end()
        with scheduler(address) as (_, third), command("cluster", address, "-n", "1"), Client(address) as client:
            assert client.submit(pow, 2, 3).result(30) == 8
            third.signal(signal.SIGTERM)
            assert third.end() == 0
    assert not (tmp_path / "scaler").exists()


def test_a_cluster_may_be_started_before_its_scheduler() -> None:
    address = free_address()
    with command("cluster", address, "-n", "1"), Client(address) as client:
        future = client.submit(pow, 2, 3)
        with scheduler(address):
            assert future.result(30) == 8


def test_uvloop_is_used_when_asked_for() -> None:
    pytest.importorskip("uvloop")
    with scheduler(None, "-e", "uvloop") as (address, running):
        running.wait_for("event loop uvloop")
        with command("cluster", address, "-n", "1", "-el", "uvloop") as cluster, Client(address) as client:
            cluster.wait_for("uvloop")
            assert client.submit(pow, 2, 3).result(30) == 8


def test_what_tasks_print_and_log_is_in_the_log_of_the_cluster(tmp_path: Path) -> None:
    def talk() -> None:
        import logging

        print("printed by a task")
        logging.getLogger("mine").warning("logged by a task")

    log = tmp_path / "cluster.log"
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", "-lp", "/dev/stdout", str(log), "-ll", "WARNING") as cluster,
        Client(address) as client,
    ):
        client.submit(talk).result(30)
        cluster.wait_for("[INFO]")
        assert "printed by a task" in cluster.wait_for("printed by a task")
        cluster.wait_for("[WARNING]")
        assert "logged by a task" in cluster.wait_for("logged by a task")
        wait_until(
            lambda: any("printed by a task" in path.read_text() for path in tmp_path.glob("cluster.log.*")),
            "the processor's own log file",
        )
        assert log.exists()


def test_worker_names_are_told_in_the_log_of_the_scheduler() -> None:
    with scheduler() as (address, running), command("cluster", address, "-wn", "left,right"):
        assert "left, right" in running.wait_for("left")


def test_a_client_may_shut_an_unprotected_scheduler_down_and_not_a_protected_one() -> None:
    from scaler import ClientShutdownException

    with scheduler() as (address, running), Client(address) as client:
        with pytest.raises(ClientShutdownException, match="protected"):
            client.shutdown()
        assert running.process.poll() is None
    with (
        scheduler(None, "--no-protected") as (address, running),
        command("cluster", address, "-n", "1") as cluster,
    ):
        client = Client(address)
        assert client.submit(pow, 2, 3).result(30) == 8
        client.shutdown()
        assert running.end() == 0
        assert cluster.end() == 0


def test_a_scheduler_without_keys_warns_about_it(tmp_path: Path) -> None:
    port = free_address().rpartition(":")[2]
    with scheduler(f"tcp://0.0.0.0:{port}", OPEN) as (_, running):
        running.wait_for("every machine that reaches it can connect")
    with scheduler(None, OPEN) as (_, running):
        running.wait_for("every user of this machine can connect")
    with scheduler() as (_, running):
        running.wait_for("only programs with a key can connect")
        assert "can run code" not in running.output
    with scheduler(f"ipc://{tmp_path}/s") as (_, running):
        running.signal(signal.SIGTERM)
        running.end()
        assert "can run code" not in running.output


def test_sigusr1_writes_a_report_into_the_log_and_the_process_continues(tmp_path: Path) -> None:
    with (
        scheduler(None, "--keep", str(tmp_path / "jobs")) as (address, running),
        command("cluster", address, "-n", "2", "-wn", "ann,bob") as cluster,
        Client(address) as client,
    ):
        assert client.map(pow, [(2, 3)] * 100) == [8] * 100
        running.signal(signal.SIGUSR1)
        running.wait_for("scheduler: what it does now")
        running.wait_for("undeliverable")
        assert "workers   2 in 1 cluster," in running.output
        assert "jobs      0 are in memory" in running.output
        assert "has no handler" not in running.output
        assert "100 Task, " in running.output
        assert "100 RunTask" in running.output
        cluster.signal(signal.SIGUSR1)
        cluster.wait_for("cluster: what it does now")
        cluster.wait_for("unreadable messages")
        assert f"{address} (connected); " in cluster.output
        assert "100 RunTask" in cluster.output
        assert client.submit(pow, 2, 4).result(30) == 16


def test_a_cluster_finds_the_modules_of_the_folder_in_which_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the installed script, whose path has the folder of the script in it and not the working directory."""
    for name in ("here_only", "nowhere"):
        (tmp_path / f"{name}.py").write_text("def cube(x):\n    return x ** 3\n")
    (tmp_path / "logging.py").write_text("raise ValueError('the standard library comes first')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    here_only, nowhere = importlib.import_module("here_only"), importlib.import_module("nowhere")
    (tmp_path / "nowhere.py").unlink()
    script = Path(sys.executable).with_name("scaler_cluster")
    with scheduler() as (address, _), Client(address) as client:
        cluster = subprocess.Popen([script, address, "-wn", "left"], cwd=tmp_path, stdout=subprocess.DEVNULL)
        try:
            assert client.submit(here_only.cube, 3).result(30) == 27
            with pytest.raises(DeserializeObjectError) as caught:
                client.submit(nowhere.cube, 3).result(30)
            needs = "task cube: the function needs the module 'nowhere', which worker 'left' does not find"
            assert needs in str(caught.value)
            assert f"was started in '{tmp_path}'" in str(caught.value)
            assert "PYTHONPATH" in str(caught.value)
        finally:
            cluster.terminate()
            assert cluster.wait(30) == 0


def test_a_package_of_another_version_on_the_workers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "versioned_for_a_test"
    for version, contents in (("1.0", ""), ("2.0", "class New: pass\n")):
        (tmp_path / version).mkdir()
        source = f"__version__ = {version!r}\ndef version(_=None):\n    return __version__\n{contents}"
        (tmp_path / version / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path / "2.0"))
    package = importlib.import_module(name)
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", env={"PYTHONPATH": str(tmp_path / "1.0")}) as cluster,
        Client(address) as client,
    ):
        assert client.submit(package.version).result(30) == "1.0"
        cluster.wait_for(f"a task uses {name} 2.0, and this worker has 1.0: ")
        with pytest.raises(
            DeserializeObjectError, match=f"packages that it uses: {name} is 1.0 here and 2.0 at the sender"
        ):
            client.submit(package.version, package.New()).result(30)


def test_a_worker_has_one_log_file_however_many_processes_it_had(tmp_path: Path) -> None:
    with (
        scheduler("ipc://" + str(tmp_path / "socket"), "--crash-limit", "1") as (address, _),
        command("cluster", address, "-wn", "a,b,c", "-lp", str(tmp_path / "log")),
        Client(address) as client,
    ):
        futures = [client.submit(lambda: (print("said before"), os._exit(1))) for _ in range(30)]
        for future in futures:
            assert isinstance(future.exception(60), ProcessorDiedError)
    logs = [path for path in tmp_path.iterdir() if not path.is_socket()]
    assert sorted(path.name for path in logs) == ["log", "log.a", "log.b", "log.c"]
    assert sum(path.read_text().count("said before") for path in logs) == 30


def test_a_cluster_names_the_host_that_it_cannot_find_and_keeps_trying() -> None:
    with command("cluster", f"tcp://{UNKNOWN}:6000", "-n", "1", "-ds", "1") as running:
        running.wait_for(f"this machine cannot resolve the host name '{UNKNOWN}'")
        running.wait_for("The cluster keeps trying")
        assert running.end() == 0
