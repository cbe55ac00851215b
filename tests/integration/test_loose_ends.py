"""What a program that has configured no logging shows at the end of its client, with a real cluster."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HEAD = """
import concurrent.futures, contextlib, os, signal, sys, time
from scaler import Client
def fail():
    raise ValueError("lost?")
def wait(*_):
    time.sleep(60)
"""

CANCELLED = (
    "3 open tasks were cancelled, because the client has ended: wait for the futures first "
    "(future.result() or concurrent.futures.wait(futures))"
)
PROGRAMS = {
    "the block ends": (
        """
        with Client(sys.argv[1]) as client:
            futures = [client.submit(wait) for _ in range(3)]
        try:
            futures[0].result()
        except concurrent.futures.CancelledError as error:
            print(error)
        """,
        "task wait: it was cancelled, because its client has ended: wait for the future first",
        CANCELLED,
    ),
    "the program ends": (
        """
        client = Client(sys.argv[1])
        futures = [client.submit(wait) for _ in range(3)]
        """,
        "",
        CANCELLED,
    ),
    "the program fails": (
        """
        client = Client(sys.argv[1])
        futures = [client.submit(wait) for _ in range(3)]
        {}["x"]
        """,
        "",
        "KeyError: 'x'",
    ),
    "Ctrl-C": (
        """
        client = Client(sys.argv[1])
        futures = [client.submit(wait) for _ in range(3)]
        os.kill(os.getpid(), signal.SIGINT)
        futures[0].result()
        """,
        "",
        "KeyboardInterrupt",
    ),
    "a task needs one that failed": (
        """
        with Client(sys.argv[1]) as client:
            for needed in (client.submit(fail), unread := client.submit(fail)):
                if needed is unread:
                    concurrent.futures.wait([needed])
                with contextlib.suppress(ValueError):
                    client.submit(wait, needed).result()
        """,
        "",
        "",
    ),
    "nobody reads": (
        """
        with Client(sys.argv[1]) as client:
            client.submit(fail)
            with contextlib.suppress(ValueError):
                client.run_on_all(fail)
            client.map(abs, [(1,)])
        """,
        "",
        "1 task has failed, and its error was not read: ValueError: lost? in fail",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_end_of_a_client_warns_of_cancelled_tasks_and_unread_errors(
    name: str, address: str, tmp_path: Path
) -> None:
    program, printed, said = PROGRAMS[name]
    path = tmp_path / "program.py"
    path.write_text(HEAD + textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(path), address], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == printed, done.stderr
    assert done.stderr.strip().splitlines()[-1:] == ([said] if said else [])
    assert done.stderr.count("open task") == (said == CANCELLED)
