"""A program that holds the interpreter for longer than its time-out, in a call of C, is alive for its local cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import run_python

pytestmark = [pytest.mark.faults, pytest.mark.more]

HEAD = """
import asyncio, ctypes, subprocess, sys, time
from pathlib import Path
from scaler import AsyncClient, Client, SchedulerClusterCombo

def hold_interpreter(seconds):
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # a PyDLL does not release the interpreter

def work(number):
    with open(NOTES, "a") as file:
        file.write(f"{number}\\n")
    time.sleep(0.25)
    return number

NOTES = sys.argv[1]
"""

CLIENT = """
with Client(n_workers=2) as client:
    client.wait_for_workers(2)
    futures = [client.submit(work, number) for number in range(10)]
    once = [client.options(at_most_once=True).submit(work, number) for number in range(10, 20)]
    time.sleep(0.5)
    hold_interpreter(5)
    assert [future.result(60) for future in [*futures, *once]] == list(range(20))
    assert client.submit(pow, 2, 10).result(60) == 1024
"""

ASYNC_CLIENT = """
async def main(address):
    async with AsyncClient(address) as client:
        futures = [client.submit(work, number) for number in range(20)]
        await asyncio.sleep(0.5)
        hold_interpreter(5)
        assert [await future for future in futures] == list(range(20))

with SchedulerClusterCombo(n_workers=2) as combo:
    asyncio.run(main(combo.get_address()))
"""

THREADS = """
with Client(processes=False, n_workers=2) as client:
    futures = [client.submit(work, number) for number in range(20)]
    time.sleep(0.5)
    hold_interpreter(5)
    assert [future.result(60) for future in futures] == list(range(20))
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(CLIENT, id="client"),
        pytest.param(ASYNC_CLIENT, id="async client"),
        pytest.param(THREADS, id="threads"),
    ],
)
def test_no_task_stops_or_runs_twice(program: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    times = {"SCALER_CLIENT_TIMEOUT_SECONDS": "2", "SCALER_WORKER_TIMEOUT_SECONDS": "2"}
    done = run_python("-c", HEAD + program, notes, folder=tmp_path, **times)
    assert done.returncode == 0, done.stderr
    assert "is lost: it was silent" not in done.stderr
    assert Counter(notes.read_text().split()) == Counter(map(str, range(20)))


OTHER_PROGRAM = """
OTHER = '''
import sys, time
from scaler import Client
with Client(sys.argv[1]) as client:
    client.submit(pow, 2, 3).result()
    print("up", flush=True)
    time.sleep(60)
'''

def holds_sessions(client, count):
    while client.info().clients != count:
        time.sleep(0.05)

with SchedulerClusterCombo(n_workers=1) as combo, Client(combo.get_address()) as client:
    other = subprocess.Popen([sys.executable, "-c", OTHER, combo.get_address()], stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"up\\n"
    holds_sessions(client, 2)
    other.send_signal(19)
    holds_sessions(client, 1)
    other.kill()
    other.wait()
"""


def test_another_program_at_the_address_of_a_local_cluster_has_the_usual_time_out(tmp_path: Path) -> None:
    times = {"SCALER_CLIENT_TIMEOUT_SECONDS": "3"}
    done = run_python("-c", HEAD + OTHER_PROGRAM, "", folder=tmp_path, **times)
    assert done.returncode == 0, done.stderr
    assert "is lost: it was silent" in done.stderr
