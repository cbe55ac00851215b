from __future__ import annotations

from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaler.config import (
    ConfigError,
    check_address,
    check_number,
    check_reachable,
    check_timeout,
    check_whole_number,
    uid_of,
    whole_path,
)
from scaler.endpoint import Endpoint
from scaler.settings import ClusterConfig

# Addresses


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:2345",
        "tcp://localhost:1",
        "tcp://my-host.example.org:65535",
        "tcp://[::1]:2345",
        "tcp://*:2345",
        "ipc:///tmp/scaler",
        "ipc:///tmp/with space",
        "inproc://anything",
    ],
)
def test_a_valid_address_is_returned_unchanged(address: str) -> None:
    assert check_address(address).address == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:2345",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://:2345",
        "tcp://127.0.0.1:http",
        "tcp://127.0.0.1:2345/",
        "tcp://127.0.0.1:2345 ",
        "tcp://127.0.0.1:2345\n",
        "http://127.0.0.1:2345",
        "ipc://",
        "ipc://relative/path",
        "ipc:///",
        "ipc://@abstract",
        "inproc://",
        "inproc://a b",
        "tcp://a b:1",
    ],
)
def test_a_malformed_address_is_refused_with_a_valid_example(address: str) -> None:
    with pytest.raises(ConfigError, match=r"tcp://127\.0\.0\.1:2345"):
        check_address(address)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:99999999999999999999"]
)
def test_port_out_of_range_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="between 1 and 65535"):
        check_address(address)


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("localhost:8786", r"did you mean tcp://localhost:8786\?"),
        ("10.0.0.1:2345", r"did you mean tcp://10\.0\.0\.1:2345\?"),
        ("http://localhost:8786", "a good one looks like"),
        ("8786", "a good one looks like"),
    ],
)
def test_an_address_without_a_scheme_is_refused_with_a_hint(address: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"is not an address; {hint}"):
        check_address(address)


@pytest.mark.parametrize("address", [None, b"tcp://127.0.0.1:2345", 2345])
def test_an_address_that_is_not_a_str_is_refused(address: Any) -> None:
    with pytest.raises(ConfigError, match="must be a str such as"):
        check_address(address)


def test_an_address_with_any_port_is_only_valid_for_listening() -> None:
    assert check_address("tcp://127.0.0.1:*", may_be_any_port=True).address == "tcp://127.0.0.1:*"
    with pytest.raises(ConfigError, match="has no port"):
        check_address("tcp://127.0.0.1:*")


def test_ipc_path_that_the_kernel_would_cut_is_refused() -> None:
    check_address("ipc:///" + "x" * 99)
    with pytest.raises(ConfigError, match="shorter"):
        check_address("ipc:///" + "x" * 100)
    with pytest.raises(ConfigError, match="shorter"):
        check_address("ipc:///" + "ü" * 60)


# Numbers


@pytest.mark.parametrize("value", [True, "1", None, float("nan")])
def test_a_value_that_is_not_a_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="speed"):
        check_number("speed", value, 0)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(2), 2),
        (np.uint8(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(2.5), 2.5),
        (Fraction(5, 2), 2.5),
        (IntEnum("Level", {"HIGH": 7}).HIGH, 7),  # type: ignore[attr-defined]
    ],
)
def test_a_number_of_another_class_becomes_an_int_or_float(value: Any, plain: float) -> None:
    assert (check_number("speed", value, 0), type(check_number("speed", value, 0))) == (plain, type(plain))
    assert (check_timeout(value), type(check_timeout(value))) == (plain, type(plain))
    settings = ClusterConfig("tcp://127.0.0.1:1", death_timeout_seconds=value)
    assert (settings.death_timeout_seconds, type(settings.death_timeout_seconds)) == (plain, type(plain))
    assert ClusterConfig.from_json(settings.to_json()) == settings


@pytest.mark.parametrize("value", [np.True_, np.array([2]), np.str_("2"), np.datetime64("2026-01-01"), 2j, Decimal(2)])
def test_numpy_values_that_are_not_numbers_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="speed must be a number"):
        check_number("speed", value, 0)
    assert check_whole_number("speed", np.int16(3), 0, 3) == 3
    for wrong in (value, np.float64(2), np.int16(4)):
        with pytest.raises(ConfigError, match="speed must be"):
            check_whole_number("speed", wrong, 0, 3)


def test_number_out_of_range_is_refused_with_the_range() -> None:
    check_number("speed", 1, 1)
    check_number("speed", 2.5, 1, 2.5)
    with pytest.raises(ConfigError, match="speed must be at least 1, not 0"):
        check_number("speed", 0, 1)
    with pytest.raises(ConfigError, match=r"speed must be between 1 and 2, not 2\.5"):
        check_number("speed", 2.5, 1, 2)


def test_a_number_too_large_for_a_float_is_refused_and_errors_are_short() -> None:
    with pytest.raises(ConfigError, match="speed must be at least 0, not 1000"):
        check_number("speed", 10**400, 0)
    with pytest.raises(ConfigError) as error:
        check_number("speed", "x" * 1_000_000, 0)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 2**64, 10**400, "1", True])
def test_a_time_that_no_thread_can_wait_for_is_refused(timeout: Any) -> None:
    for good in (None, 0, 2.5, 9_000_000_000):
        check_timeout(good)
    with pytest.raises(ConfigError, match="timeout must be"):
        check_timeout(timeout)


def test_an_inproc_address_is_refused_between_processes() -> None:
    check_reachable(Endpoint.parse("tcp://127.0.0.1:2345"))
    with pytest.raises(
        ConfigError, match=r"inproc://here.* is for threads of one process; between processes use tcp://"
    ):
        check_reachable(Endpoint.parse("inproc://here"))


# Paths


def test_a_path_with_a_tilde_or_without_a_root_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir("/")
    assert whole_path("~/jobs") == tmp_path / "jobs"
    assert whole_path("tmp/jobs") == Path("/tmp/jobs")


@pytest.mark.usefixtures("homeless")
def test_a_path_with_a_tilde_is_refused_for_a_user_without_a_home() -> None:
    with pytest.raises(ConfigError, match="~/jobs: this user has no home directory for `~`: set HOME, or give"):
        whole_path("~/jobs")
    assert whole_path("/tmp/jobs") == Path("/tmp/jobs")


@pytest.mark.parametrize(
    ("user", "uid"), [("root", 0), (" root ", 0), (4711, 4711), ("4711", 4711), (2**32 - 2, 2**32 - 2)]
)
def test_a_user_is_known_by_name_or_uid(user: Any, uid: int) -> None:
    assert uid_of(user) == uid


@pytest.mark.parametrize(
    "user", ["", "no such user", "-1", -1, 2**32 - 1, "9" * 5000, "\0", "ro\udcffot", True, None, 1.0, ["root"]]
)
def test_an_unknown_user_is_refused(user: Any) -> None:
    with pytest.raises(ConfigError, match="trust_users: this machine knows no user"):
        uid_of(user)
