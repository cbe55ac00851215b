from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from scaler.graph.order import BACK_END_VARIABLE
from scaler.keys.finding import VARIABLE as KEYS_VARIABLE
from scaler.process.strays import MARK
from scaler.settings import ClientConfig, UiConfig
from scaler.settings.sources import configured_values
from scaler.settings.variables import NO_SETTINGS, unknown, warn_of_unknown_variables
from scaler.shared_memory import SHARING_VARIABLE


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("SCALER_")]:
        monkeypatch.delenv(name)
    warn_of_unknown_variables.cache_clear()
    yield
    warn_of_unknown_variables.cache_clear()


def test_one_warning_names_unknown_variables_and_the_nearest_known_ones(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCALER_CRASH_LIMT", "3")
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "3")
    monkeypatch.setenv("SCALER_COLOUR", "red")
    for _ in range(3):
        configured_values(ClientConfig, ["timeout_seconds"])
    (record,) = caplog.records
    assert record.getMessage() == (
        "these environment variables are not settings, and are ignored: "
        "SCALER_CRASH_LIMT (did you mean SCALER_CRASH_LIMIT?), SCALER_COLOUR"
    )


def test_in_a_task_there_is_no_warning_about_unknown_variables(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCALER_COLOUR", "red")
    monkeypatch.setenv(MARK, "1234")
    configured_values(ClientConfig, ["timeout_seconds"])
    assert caplog.records == []


def test_further_variables_of_scaler_and_of_kubernetes_are_known() -> None:
    assert set(NO_SETTINGS) == {MARK, BACK_END_VARIABLE, KEYS_VARIABLE, SHARING_VARIABLE}
    of_kubernetes = ["SERVICE_HOST", "SERVICE_PORT_AGENTS", "PORT", "PORT_2345_TCP", "PORT_2345_TCP_ADDR"]
    names = [f"SCALER_SCHEDULER_{name}" for name in of_kubernetes] + ["SCALER_PORT", *NO_SETTINGS, "PATH"]
    assert unknown([*names, "SCALER_PORTS"]) == ["SCALER_PORTS"]


def test_an_address_that_kubernetes_sets_as_scaler_port_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_PORT", "tcp://10.0.0.1:2345")
    assert configured_values(UiConfig, ["port"]) == {}
    monkeypatch.setenv("SCALER_PORT", "50002")
    assert configured_values(UiConfig, ["port"]) == {"port": 50002}
