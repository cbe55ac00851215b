"""Strays: which processes are adopted, ended and reaped, and which are not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scaler.process import strays
from tests.support.processes import alive, run_script, wait_until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the children of a process"),
]


def sleeper(**environment: str) -> subprocess.Popen[bytes]:
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={**os.environ, **environment})
    # `Popen` returns when the new program has closed a pipe, shortly before the system shows its environment.
    wait_until(Path(f"/proc/{program.pid}/environ").read_bytes, "its environment")
    return program


def test_only_strays_of_ended_processors_are_ended() -> None:
    stray, own_child, unknown = sleeper(SCALER_PROCESSOR="7"), sleeper(SCALER_PROCESSOR="8"), sleeper()
    waited_for = sleeper(SCALER_PROCESSOR="7")
    strays.own.add(waited_for.pid)
    try:
        assert {stray.pid, own_child.pid, unknown.pid, waited_for.pid} <= set(strays.children_of(os.getpid()))
        strays.end_strays((8,))
        wait_until(lambda: not alive(stray.pid), "the stray has ended")
        assert all(alive(each.pid) for each in (own_child, unknown, waited_for))
    finally:
        strays.own.discard(waited_for.pid)
        for each in (stray, own_child, unknown, waited_for):
            each.kill()
            each.wait()


def test_children_are_found_while_threads_start_and_end() -> None:
    child, is_over = sleeper(), threading.Event()

    def start_threads() -> None:
        while not is_over.is_set():
            threading.Thread(target=int).start()

    busy = threading.Thread(target=start_threads)
    busy.start()
    try:
        assert all(child.pid in strays.children_of(os.getpid()) for _ in range(500))
    finally:
        is_over.set()
        busy.join()
        child.kill()
        child.wait()


def test_children_that_are_not_waited_for_are_reaped() -> None:
    """Runs in its own process, because the test process has children that it waits for."""
    done = run_script(
        "import os, subprocess, time\n"
        "from scaler.process import strays\n"
        "strays.adopt()\n"
        "mine = subprocess.Popen(['sh', '-c', 'exit 7'])\n"
        "strays.own.add(mine.pid)\n"
        "subprocess.run('setsid true & setsid true &', shell=True)\n"
        "while len(strays.children_of(os.getpid())) > 1:\n"
        "    strays.reap()\n"
        "    time.sleep(0.01)\n"
        "print(strays.children_of(os.getpid()) == [mine.pid], mine.wait())\n"
    )
    assert (done.stdout, done.returncode) == ("True 7\n", 0), done.stderr
