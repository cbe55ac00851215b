"""Deaths: describes the deaths of processes, for logs and for errors of users."""

from __future__ import annotations

import signal
from pathlib import Path

from scaler.cores import memberships
from scaler.processor.channel import LOST_EXIT_CODE

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""The signals after which `faulthandler` writes a traceback."""


def how_it_ended(exit_code: int) -> str:
    """Return how a process ended, as a part of a sentence: the exit code, or the name of the signal."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


def why_it_ended(exit_code: int, killed_because: str, peak_bytes: int, is_memory_short: bool) -> str:
    """Return how a processor ended and, if known, why, as a part of a sentence.

    Args:
        killed_because: why the agent killed the processor; empty if the agent did not kill it.
        is_memory_short: whether the kernel has just killed a process for lack of memory.
    """
    how = how_it_ended(exit_code)
    if killed_because:
        return f"{killed_because} ({how})"
    if exit_code == LOST_EXIT_CODE:
        return f"{how}: it could not map an object that the task needs; the log of its cluster says why"
    if -exit_code in _CRASHES:
        return f"{how}: compiled code crashed; the standard error of its cluster has the Python traceback"
    if exit_code != -signal.SIGKILL:
        return how
    memory = f"it had {peak_bytes / 1e6:,.0f} MB at most"
    if was_out_of_memory(exit_code, killed_because, is_memory_short):
        return f"{how}, out of memory: the kernel ended it; {memory}"
    return f"{how}, which was not sent by this cluster: perhaps out of memory; {memory}"


def was_out_of_memory(exit_code: int, killed_because: str, is_memory_short: bool) -> bool:
    """Return whether the kernel has killed a processor for lack of memory. The arguments are those of `why_it_ended`.

    If the kernel's count of kills has risen, a SIGKILL that the agent did not send counts as sent by the kernel.
    """
    return is_memory_short and exit_code == -signal.SIGKILL and not killed_because


_PF_EXITING = 4


def is_exiting(pid: int) -> bool:
    """Return whether a process is ending or has ended. A flag of the kernel shows this before it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="surrogateescape")
    except OSError:
        return True
    state, *_, flags = stat.rpartition(")")[2].split()[:7]
    return state in "ZX" or bool(int(flags) & _PF_EXITING)


class OutOfMemoryKills:
    """Counts the processes of this control group that the kernel has killed for lack of memory."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._seen = self._count()

    def has_risen(self) -> bool:
        """Return whether the count of killed processes has risen since the last call."""
        seen, self._seen = self._seen, self._count()
        return self._seen > seen

    def _count(self) -> int:
        groups = self._root / "sys/fs/cgroup"
        count = 0
        for controllers, path in memberships(self._root / "proc/self/cgroup"):
            inner = path.strip("/")
            if not controllers:
                files = [mount / inner / "memory.events" for mount in (groups, groups / "unified")]
            elif "memory" in controllers.split(","):
                files = [groups / "memory" / inner / "memory.oom_control"]
            else:
                continue
            count += sum(map(_oom_kills, files))
        return count


def _oom_kills(file: Path) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
