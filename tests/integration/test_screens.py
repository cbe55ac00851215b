"""The screens of a real cluster say what `explain` says: JSON, page, progress bar and log, for each reason to wait."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, Cluster, ScalerFuture, Scheduler, progress
from scaler.client.insight.explanation import Story
from scaler.ids import public_id
from scaler.monitor.report import report
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui import views
from scaler.monitor.ui.feed import ALWAYS, FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.wire.messages import vocabulary
from scaler.wire.messages.vocabulary import Reason
from tests.support.processes import wait_until

pytestmark = [pytest.mark.more, pytest.mark.processes]

CLIENT_TASKS = 40
Future = ScalerFuture[Any]


def hold(path: str) -> str:
    while not os.path.exists(path):  # noqa: PTH110 - it travels to a worker
        time.sleep(0.01)
    return path


def hold_a_child(client: Client, path: str) -> str:
    return str(client.submit(hold, path).result())


def fail() -> None:
    raise OSError("not yet")


def follow(value: str) -> str:
    return value


def shape(sentence: str) -> str:
    """A sentence without times: they pass while it is compared."""
    return re.sub(r"; it has waited for .*|\d+ (s|min|h)\b", "", sentence)


class Screens:
    """What `scaler_top --once --json` and the page show, from the stream of the scheduler."""

    def __init__(self, address: str) -> None:
        self._subscriber = Subscriber(address, ALWAYS)
        self._state = FeedState(address)

    def look(self, wanted: Callable[[], Any], what: str) -> Any:
        """Hear until it is so."""

        def heard() -> Any:
            self._subscriber.wait(0.05)
            for news in self._subscriber.receive():
                self._state.take(news, time.monotonic())
            return wanted()

        return wait_until(heard, what)

    def open(self, future: Future) -> str:
        """Open the page of a task."""
        short_id = public_id(future.task_id)
        self._subscriber.set_topics(ALWAYS | {f"task/{short_id.hex()}"})
        return short_id.hex()

    def page(self, name: str, **arguments: Any) -> Any:
        return views.frame(self._state, PageRequest(1, name, arguments), SentState(), time.monotonic())

    def json(self) -> dict[str, Any]:
        return report(self._state.model, time.monotonic())

    def close(self) -> None:
        self._subscriber.close()


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Paths for `hold`; all of them are there at the end."""
    made: list[Path] = []

    def gate(name: str) -> str:
        made.append(tmp_path / name)
        return str(made[-1])

    yield gate
    for path in made:
        path.touch()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/s"


@pytest.fixture
def scheduler(address: str) -> Iterator[Scheduler]:
    one = Scheduler(address=address, logging_level="CRITICAL", client_tasks=CLIENT_TASKS)
    one.start()
    yield one
    one.terminate()
    one.join()


@pytest.fixture
def screens(scheduler: Scheduler) -> Iterator[Screens]:
    with contextlib.closing(Screens(scheduler.get_monitor_address())) as shown:
        yield shown


def explained(future: Future, reason: Reason) -> Story:
    def found() -> Story | None:
        story = future.story()
        return story if story.waits_for == reason else None

    return wait_until(found, f"explain() says {reason}")


def same_on_its_page(screens: Screens, future: Future, reason: Reason) -> Story:
    """The page of the task has the sentence."""
    short_id = screens.open(future)

    def is_same() -> Any:
        row, story = screens.page("task", id=short_id)["data"]["task"], future.story()
        is_it = row is not None and story.waits_for == reason and shape(row["reason"] or "") == shape(story.sentence)
        return story if is_it and row["exact"] == story.state else None

    return screens.look(is_same, f"the page of the task says {reason}")


def same_everywhere(screens: Screens, future: Future, reason: Reason, name: str, asks: str, verdict: str) -> None:
    """So does what is said of all that wait for the same."""
    story = same_on_its_page(screens, future, reason)

    def is_said() -> Any:
        said = screens.json()
        groups = {each["asks"]: each for each in said["waiting"] if each["waits_for"] == reason}
        return (said, groups[asks]) if asks in groups and said["verdict"] == verdict else None

    said, group = screens.look(is_said, f"JSON says {reason}, {verdict}")
    assert shape(group["sentence"]) == shape(story.sentence)
    assert said["tasks"]["waiting_for"][reason] >= group["waiting"]
    (row,) = (each for each in said["functions"] if each["name"] == name)
    assert (row["waits_for"], row["asks"]) == (reason, asks)
    page = screens.page("function", id=name)["data"]
    assert shape(page["function"]["why"]) == shape(story.sentence)
    assert verdict in screens.page("live")["strip"]["title"].lower()


def same_in_bar_and_log(
    future: Future, reason: Reason, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What nobody can help is in the progress bar and in the log of the client."""
    sentence = shape(explained(future, reason).sentence)
    wait_until(lambda: future.concern, "a concern")
    with pytest.raises(TimeoutError):
        progress([future], timeout=0.1)
    assert sentence in shape(capsys.readouterr().err)
    assert any(sentence in shape(text) for text in caplog.messages)


def test_every_screen_agrees_with_explain(
    scheduler: Scheduler,
    screens: Screens,
    address: str,
    gates: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scaler.client.link.waiting.WARN_SECONDS", 1.0)
    cluster = Cluster(address=address, n_workers=2, capabilities={"gpu": 1}, logging_level="CRITICAL")
    with Client(address) as client, Client(address) as other:
        first = client.submit(hold, gates("first"))
        same_everywhere(screens, first, vocabulary.NO_WORKER, "hold", "", "no workers")
        same_in_bar_and_log(first, vocabulary.NO_WORKER, capsys, caplog)
        cluster.start()
        try:
            wait_until(lambda: "it runs at worker" in first.explain(), "it has begun")
            assert "it runs at worker" in same_on_its_page(screens, first, vocabulary.WORKER).sentence
            gpu = client.options(capabilities={"gpu": 1})
            gpu.submit(hold, gates("gpu"))
            taken = gpu.submit(follow, "x")
            same_everywhere(screens, taken, vocabulary.TAKEN, "follow", "gpu=1", "gpu=1")
            assert taken.concern == ""
            never = other.options(capabilities={"tpu": 1}).submit(len, "x")
            same_everywhere(screens, never, vocabulary.NOT_ABLE, "len", "tpu=1", "gpu=1")
            assert screens.json()["warning"] == "1 needs tpu=1: no worker has it"
            same_in_bar_and_log(never, vocabulary.NOT_ABLE, capsys, caplog)
            node = client.get({"path": gates("node"), "a": (hold, "path"), "b": (follow, "a")}, ["b"], block=False)["b"]
            crowd = [client.submit(abs, number) for number in range(8)]
            same_everywhere(screens, crowd[-1], vocabulary.NO_ROOM, "abs", "", "workers")
            assert "which waits: " in same_on_its_page(screens, node, vocabulary.NO_ROOM).sentence
            assert screens.json()["tasks"]["waiting_for"][vocabulary.INPUTS] == 1
            many = [client.submit(abs, number) for number in range(CLIENT_TASKS)]
            explained(many[-1], vocabulary.WINDOW)
            short_id = screens.open(many[-1])
            assert screens.page("task", id=short_id)["data"]["task"] is None, "the scheduler does not have it"
            for name in ("first", "gpu", "node"):
                Path(gates(name)).touch()
            assert node.result(60)
            again = client.options(retries=1, retry_on=OSError, retry_delay=600).submit(fail)
            same_on_its_page(screens, again, vocabulary.RETRY)
            parent = client.submit(hold_a_child, client, gates("child"))
            same_on_its_page(screens, parent, vocabulary.CHILDREN)
            scheduler.terminate()
            explained(again, vocabulary.NO_SCHEDULER)
            same_in_bar_and_log(again, vocabulary.NO_SCHEDULER, capsys, caplog)
            screens.look(lambda: screens.json()["verdict"] == "no news", "the screens hear nothing")
        finally:
            cluster.terminate()
            cluster.join()
