"""Clusters in code: started and ended from a program, in all the ways a program may end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from scaler import Client, Cluster, ConfigError, Scheduler, SchedulerClusterCombo, StartError
from tests.support.processes import (
    REPOSITORY,
    alive,
    children,
    complaints,
    descendants,
    held,
    names,
    run_python,
    run_script,
    wait_for_nothing_new,
    wait_until,
)
from tests.support.timing import at_best


def test_a_scheduler_and_a_cluster_are_processes_of_their_own() -> None:
    scheduler = Scheduler()
    assert not scheduler.is_alive()
    assert repr(scheduler) == "<Scheduler: not started>"
    scheduler.start()
    cluster = Cluster(scheduler.get_address(), n_workers=1)
    cluster.start()
    assert repr(cluster) == f"<Cluster: process {cluster.pid}>"
    try:
        assert scheduler.is_alive()
        assert cluster.is_alive()
        with Client(scheduler.get_address()) as client:
            assert client.submit(pow, 2, 3).result(30) == 8
    finally:
        cluster.terminate()
        cluster.join(60)
        scheduler.terminate()
        scheduler.join(60)
    assert (cluster.exitcode, scheduler.exitcode) == (0, 0)
    assert repr(scheduler) == f"<Scheduler: process {scheduler.pid}, ended>"


def test_the_first_fork_server_is_a_fork_of_its_agent_and_any_other_a_program_of_its_own() -> None:
    with SchedulerClusterCombo(1, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        assert combo._cluster.pid is not None
        agent = psutil.Process(combo._cluster.pid)
        seen = "[*vars(sys.modules['__main__'])], sys.argv[1:], os.read(0, 1)"
        names, arguments, read = client.submit(eval, seen, {"sys": sys, "os": os}).result(60)
        assert not [name for name in names if not name.startswith("__")]
        assert (arguments, read) == ([], b"")
        [fork_server] = agent.children()
        assert fork_server.cmdline() == agent.cmdline()
        fork_server.kill()
        fork_server.wait(60)
        assert client.submit(pow, 2, 3).result(60) == 8
        [another] = agent.children()
        assert "fork_server" in " ".join(another.cmdline())


def test_an_agent_with_another_engine_has_no_fork_server() -> None:
    with SchedulerClusterCombo(1, logging_level="ERROR", engine="inline") as combo:
        with Client(combo.get_address()) as client:
            assert client.submit(pow, 2, 3).result(60) == 8
        assert not psutil.Process(combo._cluster.pid).children()


def test_two_combos_at_once_do_not_meet() -> None:
    with SchedulerClusterCombo(1) as one, SchedulerClusterCombo(1) as two:
        assert one.get_address() != two.get_address()
        assert repr(one) == f"<SchedulerClusterCombo at {one.get_address()}>"
        with Client(one.get_address()) as a, Client(two.get_address()) as b:
            assert a.submit(os.getpid).result(30) != b.submit(os.getpid).result(30)


def test_a_busy_address_is_a_clear_error_and_leaves_nothing_behind() -> None:
    with SchedulerClusterCombo(1) as combo:
        before = children()
        with pytest.raises(StartError, match="in use"):
            SchedulerClusterCombo(1, address=combo.get_address())
        assert children() <= before


def test_bad_settings_are_refused_before_anything_starts() -> None:
    before = set(descendants())
    for settings in ({"n_workers": 0}, {"n_workers": 1, "address": "x"}, {"n_workers": 1, "per_worker_queue_size": -1}):
        with pytest.raises(ConfigError):
            SchedulerClusterCombo(**settings)
    assert set(descendants()) <= before


def test_a_client_without_an_address_brings_its_own_cluster_and_takes_it_away() -> None:
    before = set(descendants())
    with Client() as client:
        assert client.submit(pow, 2, 3).result(30) == 8
        assert set(descendants()) - before
    wait_until(lambda: set(descendants()) <= before, "nothing is left of the local cluster")


def test_a_client_takes_its_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with SchedulerClusterCombo(1) as combo:
        monkeypatch.setenv("SCALER_ADDRESS", combo.get_address())
        before = children()
        with Client() as client:
            assert client.submit(pow, 2, 3).result(30) == 8
            assert children() <= before


SCRIPT = """
import sys, time
from scaler import Client, SchedulerClusterCombo
def square(x):
    return x * x
combo = SchedulerClusterCombo(n_workers=2, logging_level="ERROR")
client = Client(combo.get_address())
print(client.map(square, [(i,) for i in range(5)]), flush=True)
"""


def test_a_script_needs_no_main_guard_and_no_goodbye(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SCRIPT)
    done = run_python(program, folder=tmp_path)
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, "[0, 1, 4, 9, 16]\n", "")


LOUD = """
from scaler import Client, Cluster, Scheduler, SchedulerClusterCombo
with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
    client.submit(print, "of a task").result()
    print("one")
scheduler = Scheduler()
scheduler.start()
cluster = Cluster(scheduler.get_address(), 1)
cluster.start()
with Client(scheduler.get_address()) as client:
    client.submit(print, "of another task").result()
    print("two")
cluster.shutdown()
scheduler.shutdown()
"""


def test_standard_output_has_what_the_program_prints_and_standard_error_the_log(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LOUD)
    done = run_python(program, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr
    assert "of a task" in done.stderr
    assert "of another task" in done.stderr
    assert "[INFO]" in done.stderr


def test_functions_of_a_module_beside_the_script_are_found_by_the_workers(tmp_path) -> None:
    (tmp_path / "helper_module.py").write_text("def cube(x):\n    return x ** 3\n")
    program = tmp_path / "program.py"
    program.write_text(
        "from helper_module import cube\n"
        "from scaler import Client\n"
        "with Client() as client:\n"
        "    print(client.map(cube, [(3,)]))\n"
    )
    done = run_python(program, folder=tmp_path)
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, "[27]\n", "")


def test_nothing_is_left_of_a_program_that_is_killed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT + "time.sleep(1000)"], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "[0, 1, 4, 9, 16]\n"
    below = descendants(process.pid)
    assert len(below) >= 4
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: not [pid for pid in below if alive(pid)], f"all have ended of {names(below)}")


def test_ctrl_c_during_a_map_ends_the_program_and_everything_below_it() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT + "print('go', flush=True)\nclient.map(time.sleep, [(100,)] * 10)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    with process:
        try:
            while process.stdout.readline() != "go\n":
                pass
            below = descendants(process.pid)
            wait_until(lambda: all(psutil.Process(pid).status() == psutil.STATUS_SLEEPING for pid in below), "all wait")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    wait_until(lambda: not [pid for pid in below if alive(pid)], f"all have ended of {names(below)}")


def test_ctrl_c_during_a_map_leaves_the_client_usable() -> None:
    done = run_script(
        SCRIPT
        + """
import os, signal, threading
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    client.map(time.sleep, [(100,)] * 10)
except KeyboardInterrupt:
    print("interrupted", client.map(square, [(7,)]))
"""
    )
    assert done.stdout.splitlines()[-1] == "interrupted [49]", done.stderr


def test_the_logging_of_the_users_program_is_left_alone() -> None:
    done = run_script(
        """
import logging
before = (list(logging.getLogger().handlers), logging.getLogger().level)
from scaler import Client
with Client() as client:
    client.submit(pow, 2, 2).result()
assert before == (list(logging.getLogger().handlers), logging.getLogger().level)
"""
    )
    assert (done.returncode, complaints(done.stderr)) == (0, "")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cycles", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_many_cycles_leave_no_process_port_descriptor_or_thread_behind(cycles: int) -> None:
    with SchedulerClusterCombo(1, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        client.submit(pow, 2, 2).result(30)  # what the first use of a library opens for good
    before = held()
    addresses = []
    for _ in range(cycles):
        with SchedulerClusterCombo(1, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
            assert client.submit(pow, 2, 2).result(30) == 4
            addresses.append(combo.get_address())
    wait_for_nothing_new(before)
    assert not [address for address in addresses if Path(address.removeprefix("ipc://")).parent.exists()]


def test_an_idle_scheduler_and_agent_use_no_processor_time() -> None:
    others = set(descendants())  # of tests before this one
    with SchedulerClusterCombo(2, logging_level="ERROR") as combo, Client(combo.get_address()) as client:
        assert client.map(pow, [(2, 2)] * 10) == [4] * 10
        processes = [psutil.Process(pid) for pid in set(descendants()) - others]

        def used() -> float:
            return sum(sum(process.cpu_times()[:2]) for process in processes)

        def share() -> float:
            before, start = used(), time.monotonic()
            threading.Event().wait(4)
            return (used() - before) / (time.monotonic() - start)

        assert at_best(share, 0.03) < 0.03, f"for {len(processes)} idle processes"


def test_importing_scaler_starts_nothing() -> None:
    done = run_script("import scaler, threading, sys; print(threading.active_count(), 'uvloop' in sys.modules)")
    assert done.stdout == "1 False\n"


def test_a_local_cluster_listens_where_only_its_user_can_enter_and_leaves_nothing_there() -> None:
    others = set(descendants())  # of tests before this one
    with SchedulerClusterCombo(1, logging_level="ERROR") as combo:
        place = Path(combo.get_address().removeprefix("ipc://"))
        assert (place.is_socket(), stat.S_IMODE(place.parent.stat().st_mode)) == (True, 0o700)
        own = {connection.pid for connection in psutil.net_connections("tcp") if connection.status == "LISTEN"}
        assert own.isdisjoint(set(descendants()) - others), "no port is open"
    assert not place.parent.exists()


def test_a_scheduler_that_was_killed_leaves_no_socket_behind() -> None:
    with SchedulerClusterCombo(1, logging_level="CRITICAL") as combo:
        place = Path(combo.get_address().removeprefix("ipc://"))
        assert combo._scheduler.pid is not None
        os.kill(combo._scheduler.pid, signal.SIGKILL)
    assert not place.parent.exists()
