"""The first fork server of a program: it exists before its settings do, and ends if it never gets any."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, socket, subprocess, sys, time
from scaler.process import strays
from scaler.processor.lifecycle import first_fork_server

def prepare():
    signal.raise_signal(signal.SIGINT)  # as Ctrl-C in the terminal of a cluster, which is for the agent
    os.write(1, b"prepared\\n")

def serve(agent, settings):
    at_main = sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__"))
    words = [settings, os.environ["OMP_NUM_THREADS"], at_main, sys.argv[1:], os.read(0, 1)]
    agent.sendall(repr(words).encode() + b"\\n")
    agent.recv(1)
    os._exit(78)

"""
FORKED = "first_fork_server.fork(prepare, serve)\n"


def printed(program: str) -> list[str]:
    """Return the lines that a program and its forks have printed, after all of them have ended."""
    words = [sys.executable, "-c", PROGRAM + program, "an argument"]
    ran = subprocess.run(words, check=True, input="a secret of the agent", capture_output=True, text=True, timeout=60)
    assert not ran.stderr
    return ran.stdout.splitlines()


def test_first_fork_server_prepares_at_once_and_serves_once_it_gets_its_settings() -> None:
    with_settings = (
        FORKED
        + """
forked = first_fork_server.take()
assert forked.pid in strays.own and first_fork_server.take() is None
forked.tell("some settings", {"OMP_NUM_THREADS": "3"})
answer = forked.connection.makefile().readline().strip()
try:
    forked.wait(0.05)
except subprocess.TimeoutExpired:
    print(answer)
forked.connection.close()
print(forked.wait(30), forked.wait(), flush=True)
"""
    )
    # The agent's main program, arguments and standard input are not used.
    assert printed(with_settings) == ["prepared", "['some settings', '3', [], [], b'']", "78 78"]


def test_a_first_fork_server_that_is_not_taken_ends() -> None:
    dropped = (
        FORKED
        + "first_fork_server.drop()\nfirst_fork_server.drop()\nprint(strays.own, strays.has_children(), flush=True)\n"
    )
    assert printed(dropped) == ["prepared", "set() False"]


def test_first_fork_server_without_settings_ends_with_its_program() -> None:
    assert printed(FORKED) == ["prepared"]


def test_first_fork_server_can_be_killed() -> None:
    killed = """
first_fork_server.fork(lambda: time.sleep(1000), serve)
forked = first_fork_server.take()
forked.kill()
print(forked.wait(30), flush=True)
forked.kill()
"""
    assert printed(killed) == ["-9"]


def test_first_fork_server_closes_foreign_descriptors_and_prints_why_it_fails() -> None:
    failing = """
reading, writing = os.pipe()
first_fork_server.fork(lambda: 1 / 0, serve, writing)
os.close(writing)
print(os.read(reading, 1), first_fork_server.take().wait(30), flush=True)
"""
    words = [sys.executable, "-c", PROGRAM + failing]
    ran = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr.splitlines()[-1]) == ("b'' 1\n", "ZeroDivisionError: division by zero")
