"""What real user code does to the process that runs it, seen by a client."""

from __future__ import annotations

import os
import sys

from scaler import Client


def fork_and_come_back(number: int) -> int:
    """The usual recipe of a daemon: the child leaves by `sys.exit`."""
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    return number


def test_tasks_that_fork_have_their_own_results_and_leave_nothing_behind(client: Client) -> None:
    futures = [client.submit(fork_and_come_back, number) for number in range(60)]
    assert [future.result(60) for future in futures] == list(range(60))
    assert len(set(client.map(lambda _: os.getpid(), [(number,) for number in range(50)]))) <= 2
