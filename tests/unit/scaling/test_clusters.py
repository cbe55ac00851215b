from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from scaler.config import ConfigError
from scaler.monitor.model.workers import WorkerView, workers_of
from scaler.scaling.clusters import GONE_SECONDS, RESEND_SECONDS, SEEN_SECONDS, Clusters
from tests.support.monitored import BUSY, agent, row
from tests.support.processes import wait_until

ADDRESS = "tcp://10.0.0.1:2345"
SCRIPT = """
import os, signal, sys
print(*sys.argv[2:], os.environ["SCALER_WORKER_NAMES"], file=open(sys.argv[1], "a"))
signal.pause()
"""


OTHER = "scale-0123abcd"


class Owner:
    """A scaler that records which workers it is to drain."""

    name = "scale-89abcdef"

    def __init__(self) -> None:
        self.sent_away: list[set[str]] = []

    def request_drain(self, workers: Iterable[str]) -> None:
        self.sent_away.append(set(workers))


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def clusters(tmp_path: Path, owner: Owner) -> Iterator[Clusters]:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = f"{sys.executable} {tmp_path}/script.py {tmp_path}/said {{address}} {{n}} {{names}}"
    clusters = Clusters(command, ADDRESS, 2, cast("Any", owner))
    yield clusters
    clusters.kill()
    wait_for_end(clusters)


def wait_for_end(clusters: Clusters, now: float = 0.0) -> list[tuple[str, int, bool]]:
    """Wait until all clusters have ended. Return how they ended."""
    ended: list[tuple[str, int, bool]] = []
    wait_until(lambda: ended.extend(clusters.ended(now)) or not len(clusters), "all have ended")
    return ended


def workers(*names: str, flags: int = 0, sent: int = 0, leaving: int = 0) -> list[WorkerView]:
    rows = [row(sent=sent, queued=0, flags=flags) for _ in names]
    return list(workers_of(agent(*rows, names=",".join(names), is_leaving=leaving), 1000))


def test_the_scale_up_command_receives_the_address_and_the_worker_names(clusters: Clusters, tmp_path: Path) -> None:
    name = clusters.start(0)
    said = tmp_path / "said"
    wait_until(lambda: said.exists() and said.read_text(), "the command has run")
    names = f"{name}-0,{name}-1"
    assert said.read_text().split() == [ADDRESS, "2", names, names]


def test_workers_of_a_scaled_cluster_are_known_by_their_names(clusters: Clusters) -> None:
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


def test_a_draining_cluster_does_not_count(clusters: Clusters) -> None:
    name = clusters.start(0)
    names = f"{name}-0", f"{name}-1"
    assert len(clusters.staying(workers("other", *names))) == 3
    assert len(clusters.staying(workers("other", leaving=1))) == 0
    clusters.drain(name)
    assert clusters.look(workers(*names)) == []
    assert [worker.name for worker in clusters.staying(workers("other", *names))] == ["other"]
    clusters.terminate()
    assert wait_for_end(clusters) == [(name, -signal.SIGTERM, True)]
    assert [worker.name for worker in clusters.staying(workers("other", *names))] == ["other"], "not yet forgotten"
    assert clusters.ended(0) == []


def test_a_drain_is_requested_until_the_workers_leave_and_the_command_gets_no_signal(
    clusters: Clusters, owner: Owner
) -> None:
    name = clusters.start(0)
    names = f"{name}-0", f"{name}-1"
    clusters.send_drains(workers(*names), 0)
    assert owner.sent_away == []
    clusters.drain(name)
    for now in (0.0, 1.0, RESEND_SECONDS):
        clusters.send_drains(workers(*names), now)
    assert owner.sent_away == [set(names)] * 2
    clusters.send_drains(workers(*names, leaving=1), 2 * RESEND_SECONDS)
    assert len(owner.sent_away) == 2
    assert clusters.ended(2 * RESEND_SECONDS) == []
    clusters.send_drains([], 2 * RESEND_SECONDS + GONE_SECONDS)  # its workers are gone, and its command runs on
    assert wait_for_end(clusters) == [(name, -signal.SIGTERM, True)]


def test_a_drained_cluster_that_has_never_joined_ends_with_its_command(clusters: Clusters, owner: Owner) -> None:
    name = clusters.start(0)
    clusters.drain_all()
    clusters.send_drains(workers("other"), 0)
    assert owner.sent_away == [{f"{name}-0", f"{name}-1"}], "it may have come just now"
    clusters.send_drains(workers("other"), SEEN_SECONDS - 0.1)
    assert not clusters.ended(SEEN_SECONDS)
    clusters.send_drains(workers("other"), SEEN_SECONDS)
    assert wait_for_end(clusters) == [(name, -signal.SIGTERM, True)]


def test_after_a_gap_in_the_news_workers_of_a_cluster_have_time_to_reconnect(clusters: Clusters) -> None:
    name = clusters.start(0)
    clusters.send_drains(workers(f"{name}-0"), 0)
    clusters.drain(name)
    clusters.reset_absences(100)
    clusters.send_drains([], 101)
    assert not clusters.ended(101)
    clusters.send_drains([], 100 + GONE_SECONDS)
    wait_for_end(clusters)


def test_clusters_of_a_scaler_that_is_lost_for_some_time_are_adopted(clusters: Clusters, owner: Owner) -> None:
    own = clusters.start(0)
    there = workers(f"{own}-0", f"{OTHER}-1-0", f"{OTHER}-1-1", "scale-no", "scale-00000000-1-0")
    labels = [f"{OTHER} a@b", "scale-00000000 a@b", "c@d"]
    assert clusters.adopt(there, labels, 0) == []
    assert clusters.adopt(there, labels[1:], 1) == []
    assert clusters.adopt(there, labels, 5) == [], "it is back"
    assert clusters.adopt(there, labels[1:], 6) == []
    assert clusters.adopt(there, labels[1:], 6 + GONE_SECONDS) == [f"{OTHER}-1"]
    assert clusters.adopt(there, labels[1:], 7 + GONE_SECONDS) == []
    assert [(each.name, each.workers) for each in clusters.look(there)] == [(own, 1), (f"{OTHER}-1", 2)]
    clusters.drain(f"{OTHER}-1")
    clusters.send_drains(there, 20)
    assert owner.sent_away == [{f"{OTHER}-1-0", f"{OTHER}-1-1"}]
    clusters.send_drains(workers(f"{own}-0"), 21)
    assert clusters.ended(21) == [(f"{OTHER}-1", 0, True)]


def test_adopted_clusters_return_to_their_scaler_when_it_reconnects(clusters: Clusters) -> None:
    there = workers(f"{OTHER}-1-0")
    clusters.adopt(there, [], 0)
    assert clusters.adopt(there, [], GONE_SECONDS) == [f"{OTHER}-1"]
    clusters.adopt(there, [OTHER], GONE_SECONDS + 1)
    assert clusters.look(there) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "is empty"),
        ("x {adress}", r"'adress'; it may contain \{address\}"),
        ("x '", "No closing"),
        ("x {", "ingle"),
    ],
)
def test_a_scale_up_command_that_cannot_be_parsed_is_refused(command: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Clusters(command, ADDRESS, 1, cast("Any", Owner()))


def test_a_scale_up_command_that_cannot_be_run_raises_the_error_of_the_system() -> None:
    with pytest.raises(FileNotFoundError, match="no/such/program"):
        Clusters("no/such/program", ADDRESS, 1, cast("Any", Owner())).start(0)
