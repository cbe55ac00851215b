"""Strays: ends and reaps processes of tasks that have outlived their parents.

The fork server and the agent adopt orphans among their descendants (Linux only). The process group of a stray, or the
mark in its inherited environment, identifies its processor. A stray that has left the group and lost the mark is left
alone until the node ends.

Processes that other code of this process waits for are never reaped here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

MARK = "SCALER_PROCESSOR"
"""The environment variable with the process id of a processor, in all programs that the processor's tasks start."""

_PR_SET_CHILD_SUBREAPER = 36

own: set[int] = set()
"""The ids of child processes that code of this process has started and waits for."""


def adopt() -> None:
    """Make this process the new parent of each descendant whose own parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process; empty if the system does not report them."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                children += map(int, (thread / "children").read_text().split())
    return children


def end_strays(processors: Collection[int]) -> None:
    """Kill the children of this process that come from a processor outside of `processors`.

    The children of a killed process become children of this process, and are handled at the next SIGCHLD.
    """
    for pid in children_of(os.getpid()):
        if pid in own or pid in processors or _group_of(pid) in processors:
            continue
        if _origin_of(pid) not in {None, *processors}:
            kill(pid)


def has_children() -> bool:
    """Return whether this process has child processes, including ended ones that were not waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def has_strays() -> bool:
    """Return whether an orphan of this processor is now a child of this processor's parent."""
    processor = os.getpid()
    siblings = (pid for pid in children_of(os.getppid()) if pid != processor)
    return any(processor in (_group_of(pid), _origin_of(pid)) for pid in siblings)


def reap() -> None:
    """Reap the adopted children of this process that have ended."""
    for pid in children_of(os.getpid()):
        if pid not in own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def kill(pid: int) -> None:
    """Kill a process, if it exists and permissions allow it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """Kill a process and all other processes of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    kill(pid)


def _group_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return 0


def _origin_of(pid: int) -> int | None:
    """Return the id of the processor that started a program; None if the program has no mark."""
    with contextlib.suppress(OSError, ValueError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == MARK.encode():
                return int(value)
    return None
