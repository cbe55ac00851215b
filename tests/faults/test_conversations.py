"""Closed, cut, silent, paused: what becomes of runs and results when a connection is not what it was. The table is in
docs/explanation/conversations.md, and each of its lines names its tests.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from scaler import Client
from tests.support.processes import REPOSITORY, command, scheduler, wait_until
from tests.support.proxy import Proxy

pytestmark = pytest.mark.faults


def noted(path: str, seconds: float) -> str:
    """A task that says when it begins and when it has ended."""
    with Path(path).open("a") as file:
        file.write(f"{time.time()} ")
    time.sleep(seconds)
    Path(path + ".ended").touch()
    return path


def starts(path: Path) -> list[float]:
    """When the task has begun, each time."""
    return [float(one) for one in path.read_text().split()] if path.exists() else []


def test_short_time_outs_hold_though_heartbeats_are_rarer(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with (
        scheduler(None, "-wt", "2", "-ct", "2") as (address, running),
        command("cluster", address, "-n", "1", "-hi", "4"),
        Client(address, heartbeat_interval_seconds=4) as client,
    ):
        assert client.submit(noted, str(mark), 3.4).result(30) == str(mark)
        assert "is lost: it was silent" not in running.output
    assert len(starts(mark)) == 1


def test_connections_that_are_cut_again_and_again_cost_nothing(tmp_path: Path) -> None:
    marks = [tmp_path / str(number) for number in range(60)]
    with (
        scheduler() as (address, running),
        Proxy(address) as to_agent,
        Proxy(address) as to_client,
        command("cluster", to_agent.address, "-n", "2") as agent,
        Client(to_client.address) as client,
    ):
        assert client.submit(abs, -1).result(30) == 1
        futures = [client.submit(noted, str(mark), 0.05) for mark in marks]
        for number, proxy in enumerate([to_agent, to_client, to_agent, to_client]):
            wait_until(lambda begun=10 * number + 5: len(list(tmp_path.glob("*.ended"))) >= begun, "tasks end")
            proxy.reset()
        assert [future.result(30) for future in futures] == [str(mark) for mark in marks]
        assert "is lost: it was silent" not in running.output
        wait_until(lambda: agent.output.count("down: the connection was lost") == 2, "the agent has said so")
    assert [len(starts(mark)) for mark in marks] == [1] * len(marks)


@pytest.mark.parametrize(
    "seconds", [pytest.param(6.5, marks=pytest.mark.more), pytest.param(30, marks=pytest.mark.soak)]
)
def test_a_silence_that_is_shorter_than_the_time_out_costs_nothing(tmp_path: Path, seconds: float) -> None:
    """The peers look for the scheduler on new connections, which are silent, too. Then the network gives all up."""
    during, after = [tmp_path / str(number) for number in range(5)], tmp_path / "after"
    with (
        scheduler(None, "-wt", "600", "-ct", "600") as (address, running),
        Proxy(address) as to_agent,
        Proxy(address) as to_client,
        command("cluster", to_agent.address, "-n", "2"),
        Client(to_client.address) as client,
    ):
        still_runs = client.submit(noted, str(after), seconds + 3.0)
        ended = [client.submit(noted, str(mark), 0.3) for mark in during]
        wait_until(lambda: after.exists() and during[0].exists(), "they run")
        proxies = (to_client, to_agent)
        for proxy in proxies:
            proxy.swallow()
        time.sleep(seconds)
        for proxy in proxies:
            proxy.reset()
        time.sleep(2.5)  # a connection that was closed would have two seconds
        for proxy in proxies:  # the results have not come yet when the client is back
            proxy.pass_on()
        assert [future.result(60) for future in ended] == [str(mark) for mark in during]
        assert still_runs.result(60) == str(after)
        assert "is lost: it was silent" not in running.output
    assert [len(starts(mark)) for mark in (*during, after)] == [1] * 6


def test_results_of_the_time_in_which_a_client_cannot_be_reached_are_not_made_again(tmp_path: Path) -> None:
    marks = [tmp_path / str(number) for number in range(10)]
    with (
        scheduler() as (address, _),
        Proxy(address) as to_client,
        command("cluster", address, "-n", "2"),
        Client(to_client.address) as client,
    ):
        futures = [client.submit(noted, str(mark), 0.1) for mark in marks]
        wait_until(marks[0].exists, "they run")
        to_client.swallow(up=False)
        wait_until(lambda: len(list(tmp_path.glob("*.ended"))) == len(marks), "they have ended")
        time.sleep(0.3)  # the scheduler says so, into the hole
        to_client.reset()
        to_client.pass_on()
        assert [future.result(30) for future in futures] == [str(mark) for mark in marks]
    assert [len(starts(mark)) for mark in marks] == [1] * len(marks)


def test_work_of_a_silent_cluster_moves_after_the_time_out_and_not_later(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with (
        scheduler(None, "-wt", "2") as (address, running),
        Proxy(address) as proxy,
        Client(address) as client,
        command("cluster", proxy.address, "-n", "1"),
    ):
        future = client.submit(noted, str(mark), 60.0)
        wait_until(mark.exists, "it runs")
        with command("cluster", address, "-n", "1") as other:
            other.wait_for("up")
            proxy.swallow()
            silent_at = time.time()
            wait_until(lambda: len(starts(mark)) == 2, "it runs elsewhere")
            assert 1.0 < starts(mark)[1] - silent_at < 30.0  # a busy machine is slow
            future.cancel()
        running.wait_for("is lost: it was silent")
        proxy.pass_on()


CLIENT = """
import sys
from scaler import Client
from tests.faults.test_conversations import noted
with Client(sys.argv[1]) as client:
    print(client.submit(noted, sys.argv[2], 0.5).result(60), flush=True)
"""


def test_peers_paused_for_less_than_the_time_out_continue(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with (
        scheduler(None, "-wt", "8", "-ct", "8") as (address, running),
        command("cluster", address, "-n", "1") as agent,
    ):
        client = subprocess.Popen([sys.executable, "-c", CLIENT, address, str(mark)], cwd=REPOSITORY, stdout=PIPE)
        wait_until(mark.exists, "it runs")
        agent.signal(signal.SIGSTOP)
        client.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        client.send_signal(signal.SIGCONT)
        agent.signal(signal.SIGCONT)
        assert client.communicate(timeout=30)[0].decode().strip() == str(mark)
        assert "is lost: it was silent" not in running.output
    assert len(starts(mark)) == 1
