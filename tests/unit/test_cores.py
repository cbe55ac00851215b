"""Cores: affinity, and the quotas of control groups of both versions."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.cores import usable_cores

V1 = Path("/sys/fs/cgroup/cpu")


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)), raising=False)


def tree(root: Path, membership: str, files: dict[str, str]) -> Path:
    """Make a folder that looks like the root of a machine to a process in this control group."""
    for name, text in {"proc/self/cgroup": membership, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


V2_FILES = {
    "sys/fs/cgroup/a/cpu.max": "250000 100000",
    "sys/fs/cgroup/a/b/cpu.max": "max 100000",
    "sys/fs/cgroup/a/b/c/cpu.max": "3200000 100000",
}
V1_FILES = {
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "50000",
    "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us": "400000",
    "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us": "100000",
}


@pytest.mark.usefixtures("affinity")
@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/", {"sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
        ("0::/", {"sys/fs/cgroup/cpu.max": "10000 100000"}, 1),
        ("0::/", {"sys/fs/cgroup/cpu.max": "max 100000"}, 64),
        ("0::/a/b/c", V2_FILES, 3),
        ("0::/other", V2_FILES, 64),
        ("1:name=systemd:/x\n0::/not/in/this/container", {"sys/fs/cgroup/cpu.max": "400000 100000"}, 4),
        ("0::/u", {"sys/fs/cgroup/unified/u/cpu.max": "200000 100000"}, 2),
        ("4:cpu,cpuacct:/a/b\n3:memory:/a", V1_FILES, 1),
        ("4:cpu,cpuacct:/\n0::/", V1_FILES, 64),
        ("", {}, 64),
    ],
)
def test_quotas_of_all_parent_control_groups_count(
    tmp_path: Path, membership: str, files: dict[str, str], cores: int
) -> None:
    assert usable_cores(tree(tmp_path, membership, files)) == cores


def test_affinity_counts_where_there_is_no_control_group(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


@pytest.fixture
def half_a_core() -> Iterator[Path]:
    """A control group of this machine whose parent has the quota."""
    parent = V1 / f"scaler-{uuid.uuid4().hex}"
    group = parent / "child"
    group.mkdir(parents=True)
    (parent / "cpu.cfs_quota_us").write_text("50000")
    yield group
    group.rmdir()
    parent.rmdir()


@pytest.mark.processes
@pytest.mark.skipif(
    not (V1 / "cpu.cfs_quota_us").exists() or not os.access(V1, os.W_OK) or os.cpu_count() == 1,
    reason="needs control groups of version 1, the right to make one, and two cores",
)
def test_a_real_quota_of_the_kernel_counts(half_a_core: Path) -> None:
    program = (
        f"import os, pathlib; pathlib.Path('{half_a_core}/cgroup.procs').write_text(str(os.getpid()))\n"
        "from scaler.cores import usable_cores; print(usable_cores())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
