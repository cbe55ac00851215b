from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.monitor.model.history import RINGS, SERIES, History
from scaler.monitor.ui import store as stores
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.store import HistoryStore
from scaler.wire.messages.monitor import StateEvent, StateFailure
from tests.support import monitored
from tests.support.processes import held

NOON = 1_795_000_020


def failure(number: int, last_us: int = 5) -> StateFailure:
    return StateFailure(
        b"fail%d" % number, "ValueError", "bad", b"function", "price", 3, 1, last_us, b"task", "w", "tb"
    )


def test_stored_history_events_and_failures_are_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "night.db"
    first = HistoryStore(file)
    history = History(first.keep_step)
    for second in range(61):
        history.add(NOON + second, [float(second)] * len(SERIES))
    first.keep_events([StateEvent(1, "came", "rome07", "a reason")])
    first.keep_failures([failure(1), failure(2)])
    first.close()

    again, loaded = HistoryStore(file), History()
    events, failures = again.load(loaded)
    assert loaded.read(("success",), NOON, 60, 1) == history.read(("success",), NOON, 60, 1)
    assert events == [StateEvent(1, "came", "rome07", "a reason")]
    assert failures == [failure(1), failure(2)]
    again.close()


def test_the_file_of_the_history_store_is_private(tmp_path: Path) -> None:
    HistoryStore(tmp_path / "night.db").close()
    assert stat.S_IMODE((tmp_path / "night.db").stat().st_mode) == 0o600


def test_the_history_store_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "EVENTS_MOST", 10)
    monkeypatch.setattr(stores, "FAILURES_MOST", 3)
    store = HistoryStore(tmp_path / "night.db")
    step, most = RINGS[1]
    for number in range(most + 5):
        if number < 3 or number > most:
            store.keep_step(step, number, [0.0] * len(SERIES))
    store.keep_events([StateEvent(number, "came", "", "") for number in range(25)])
    for number in range(6):
        store.keep_failures([failure(number, last_us=number)])
    loaded = History()
    events, failures = store.load(loaded)
    assert [number for number, _ in loaded.rings[1].rows()] == list(range(most + 1, most + 5))
    assert [event.time_us for event in events] == list(range(15, 25))
    assert [each.last_us for each in failures] == [3, 4, 5]
    store.close()


@pytest.mark.parametrize(
    "content", [b"not a database at all, but a diary" * 100, None], ids=["a text", "another database"]
)
def test_a_file_that_is_no_history_store_is_refused_and_unchanged(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "diary"
    if content is None:
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE diary (day TEXT)")
        database.close()
        content = file.read_bytes()
    else:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="not a store of scaler_ui") as caught:  # its traceback keeps the store
        HistoryStore(file)
    assert not [what for what in held() if str(file) in what], caught
    assert file.read_bytes() == content


def test_a_missing_folder_of_the_history_store_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        HistoryStore(tmp_path / "nowhere" / "night.db")


def test_a_full_disk_loses_only_history(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "night.db")
    store._database.execute("PRAGMA max_page_count = 12")
    for number in range(3000):
        store.keep_step(60, number, [0.0] * len(SERIES))
    assert store.lost
    store.close()


def test_the_state_of_the_feed_starts_with_the_stored_one(tmp_path: Path) -> None:
    file = tmp_path / "night.db"
    state = FeedState("tcp://127.0.0.1:1", HistoryStore(file))
    state.take(monitored.news("failures", failure(1)), 1.0)
    for _ in range(3):  # the scheduler sends the latest ones each second
        state.take(monitored.news("events", StateEvent(1, "came", "rome07", "")), 1.0)
    state.close()
    state = FeedState("tcp://127.0.0.1:1", HistoryStore(file))
    assert list(state.old_failures.values()) == [failure(1)]
    assert [event.subject for event in state.events] == ["rome07"]
    state.close()
