"""`scaler.progress`, and the bar of a map, on terminals and in files."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import scaler
from scaler.client import Client
from scaler.config import ConfigError
from scaler.wire.messages.client import Task
from tests.support import terminals
from tests.support.fake_scheduler import FakeScheduler


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide tqdm."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def fail() -> None:
    raise ValueError("on purpose")


def test_futures_are_returned_in_their_order_and_failures_are_counted(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    futures = [client.submit(abs, -1), client.submit(fail), client.submit(bytes, 100_000)]
    assert scaler.progress(iter(futures)) == futures
    assert all(future.done() for future in futures)
    shown = capsys.readouterr().err
    assert "3/3 100%" in shown
    assert "1 failed" in shown
    assert scaler.progress([]) == []


def test_progress_takes_futures_of_the_standard_library(capsys: pytest.CaptureFixture[str]) -> None:
    future: Future[int] = Future()
    threading.Timer(0.05, future.set_result, (1,)).start()
    assert scaler.progress([future])[0].result() == 1


def test_progress_refuses_values_that_are_no_futures(client: Client) -> None:
    with pytest.raises(TypeError, match="3"):
        scaler.progress([3])  # type: ignore[list-item]
    with pytest.raises(ConfigError):
        scaler.progress([client.submit(abs, 1)], timeout=-1)


def test_the_timeout_error_of_progress_counts_ended_futures(
    client: Client, scheduler: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler.answers_tasks = False
    futures = [client.submit(abs, -1), client.submit(abs, -2)]
    scheduler.run(scheduler.wait_for(Task, 2)[0])
    assert futures[0].result(10) == 1
    with pytest.raises(TimeoutError, match=r"1 of 2 futures have ended after 0\.1 s"):
        scaler.progress(futures, timeout=0.1)
    assert "1/2  50%" in capsys.readouterr().err
    assert not futures[1].done()


def test_a_map_draws_one_line_of_a_terminal(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, plain: None
) -> None:
    scheduler.answers_tasks = False

    def items() -> Iterator[tuple[int]]:
        for number in range(4):
            yield (number,)
            scheduler.run(scheduler.wait_for(Task, number + 1)[number])
            threading.Event().wait(0.15)

    with terminals.Terminal() as terminal:
        monkeypatch.setattr(sys, "stderr", terminal.stream)
        assert client.map(abs, items(), progress=True) == [0, 1, 2, 3]
        monkeypatch.undo()
        output = terminal.output()
    states = terminals.states_of(output)
    assert output.count("\n") == 1
    assert len(states) >= 3
    assert states[0].split()[1] == "tasks"
    assert "4/4 100%" in states[-1]


def test_the_progress_of_a_map_counts_failures(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    results = client.map(divmod, [(1, 0), (4, 2), (1, 0)], progress=True, return_exceptions=True)
    assert results[1] == (2, 0)
    assert "2 failed" in capsys.readouterr().err
