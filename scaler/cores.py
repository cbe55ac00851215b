"""Cores: how many cores this process may use, and the variables that limit the threads of libraries."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

THREADS_OF_ALL = "OMP_NUM_THREADS"
"""The variable that limits the threads of all libraries, including libraries that also have a variable of their own."""
THREAD_VARIABLES = (
    *(THREADS_OF_ALL, "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
)


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may use: those of its affinity, but not more than its cgroup quotas.

    Quotas are rounded up. `root`: the folder that contains `proc` and `sys`.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """Yield the quotas, in cores, of all control groups of this process; the quota of a parent limits its children."""
    groups = root / "sys/fs/cgroup"
    for controllers, path in memberships(root / "proc/self/cgroup"):
        if not controllers:
            yield from along(groups, path, _quota_v2)
            yield from along(groups / "unified", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            for mount in dict.fromkeys((controllers, "cpu", "cpu,cpuacct")):
                yield from along(groups / mount, path, _quota_v1)


def memberships(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the controllers and the path of each control group in `file`; for version 2 the controllers are empty."""
    try:
        lines = file.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _number, _, membership = line.partition(":")
        controllers, _, path = membership.partition(":")
        if path:
            yield controllers, path


def along(mount: Path, path: str, quota: Callable[[Path], T]) -> Iterator[T]:
    """Yield `quota(folder)` for the folder of a control group and of each group above it, up to the mount.

    A group for which `quota` raises `OSError` or `ValueError` is left out: it has no quota, or a container hides it.
    """
    group = mount / path.strip("/")
    for folder in (group, *group.parents):
        if folder == mount.parent:
            return
        try:
            yield quota(folder)
        except (OSError, ValueError):
            continue  # no such group here, or no quota


def _quota_v2(group: Path) -> float:
    quota, period = (group / "cpu.max").read_text().split()
    return int(quota) / int(period)  # "max" is no number: no quota


def _quota_v1(group: Path) -> float:
    quota = int((group / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        raise ValueError("no quota")
    return quota / int((group / "cpu.cfs_period_us").read_text())
