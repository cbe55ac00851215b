from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.monitor.model_workers import Worker, workers_of
from scaler.scaling.clusters import Clusters
from tests.support.monitored import BUSY, agent, row
from tests.support.processes import wait_until

ADDRESS = "tcp://10.0.0.1:2345"
SCRIPT = """
import os, signal, sys
print(*sys.argv[2:], os.environ["SCALER_WORKER_NAMES"], file=open(sys.argv[1], "a"))
signal.pause()
"""


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Clusters]:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = f"{sys.executable} {tmp_path}/script.py {tmp_path}/said {{address}} {{n}} {{names}}"
    clusters = Clusters(command, ADDRESS, 2)
    yield clusters
    clusters.kill()
    clusters.wait()


def workers(*names: str, flags: int = 0, sent: int = 0, leaving: int = 0) -> list[Worker]:
    rows = [row(sent=sent, queued=0, flags=flags) for _ in names]
    return list(workers_of(agent(*rows, names=",".join(names), is_leaving=leaving), 1000))


def test_the_command_is_told_the_address_and_the_names(clusters: Clusters, tmp_path: Path) -> None:
    name = clusters.start(0)
    said = tmp_path / "said"
    wait_until(lambda: said.exists() and said.read_text(), "the command has run")
    names = f"{name}-0,{name}-1"
    assert said.read_text().split() == [ADDRESS, "2", names, names]


def test_workers_are_known_by_their_names(clusters: Clusters) -> None:
    name = clusters.start(7)
    names = f"{name}-0", f"{name}-1"
    (absent,) = clusters.look(workers("other"))
    assert (absent.name, absent.started_at, absent.workers, absent.is_busy) == (name, 7, 0, False)
    (idle,) = clusters.look(workers("other", *names))
    assert (idle.workers, idle.is_busy) == (2, False)
    assert clusters.look([*workers(names[0]), *workers(names[1], flags=BUSY)])[0].is_busy
    assert clusters.look(workers(*names, sent=1))[0].is_busy
    unreported = workers_of(agent(names=",".join(names)), 1000)
    assert clusters.look(unreported)[0].is_busy, "it may have tasks"


def test_one_that_was_told_to_leave_counts_no_more(clusters: Clusters) -> None:
    name = clusters.start(0)
    names = f"{name}-0", f"{name}-1"
    assert len(clusters.staying(workers("other", *names))) == 3
    assert len(clusters.staying(workers("other", leaving=1))) == 0
    clusters.drain(name)
    assert clusters.look(workers(*names)) == []
    assert [worker.name for worker in clusters.staying(workers("other", *names))] == ["other"]
    clusters.wait()
    assert clusters.ended() == [(name, -signal.SIGTERM, True)]
    assert [worker.name for worker in clusters.staying(workers("other", *names))] == ["other"], "not yet forgotten"
    assert clusters.ended() == []
    assert len(clusters) == 0


def test_all_are_told_once(clusters: Clusters) -> None:
    first, second = clusters.start(0), clusters.start(0)
    clusters.drain(first)
    clusters.drain_all()
    clusters.wait()
    assert sorted(clusters.ended()) == sorted((name, -signal.SIGTERM, True) for name in (first, second))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "is empty"),
        ("x {adress}", r"'adress'; it may contain \{address\}"),
        ("x '", "No closing"),
        ("x {", "ingle"),
    ],
)
def test_a_command_that_cannot_be_read_is_refused(command: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Clusters(command, ADDRESS, 1)


def test_one_that_cannot_be_run_is_an_error_of_its_own() -> None:
    with pytest.raises(FileNotFoundError, match="no/such/program"):
        Clusters("no/such/program", ADDRESS, 1).start(0)
