from __future__ import annotations

import pytest

from scaler import Scheduler
from scaler.config import ConfigError
from scaler.endpoint import LOCAL


def test_a_bad_value_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="load_balance_trigger_times"):
        Scheduler("tcp://127.0.0.1:2345", load_balance_trigger_times=0)
    with pytest.raises(ConfigError, match="is not an address"):
        Scheduler("tcp://127.0.0.1:2345", "here")


def test_the_address_of_a_scheduler_in_code_is_not_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_ADDRESS", "tcp://10.0.0.1:2345")
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "7")
    config = Scheduler()._config
    assert (config.address, config.crash_limit) == (LOCAL, 7)
