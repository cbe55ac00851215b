"""Preparation: modules that can or cannot be preloaded, and initializers as text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.processor.lifecycle import preparation
from scaler.processor.lifecycle.preparation import PreparationError, initialize, preload
from scaler.settings import ClusterConfig
from scaler.settings.functions import initializer_text

ADDRESS = "tcp://127.0.0.1:1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_preload_imports_modules(folder: Path) -> None:
    (folder / "preloaded_one.py").write_text("")
    (folder / "preloaded_two.py").write_text("")
    assert preload(["preloaded_one", "preloaded_two"]) == ""
    assert {"preloaded_one", "preloaded_two"} <= set(sys.modules)


def test_preload_names_a_random_generator_of_a_module(folder: Path) -> None:
    (folder / "draws_below.py").write_text("import random\nchance = random.Random(1)\n")
    (folder / "preloaded_three.py").write_text("import draws_below\n")
    assert preload(["preloaded_three"]) == "draws_below.chance"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True, name='lasting').start()",
            "lasting",
        ),
        ("import no_such_module", "No module named 'no_such_module'"),
    ],
)
def test_the_error_of_a_module_that_cannot_be_preloaded_names_it(folder: Path, source: str, reason: str) -> None:
    name = f"not_preloaded_{abs(hash(source))}"
    (folder / f"{name}.py").write_text(source)
    with pytest.raises(PreparationError, match=f"{name}.*{reason}"):
        preload([name])


def test_the_error_of_a_module_that_raises_has_the_place_and_a_remedy(folder: Path) -> None:
    (folder / "raises_below.py").write_text("def load():\n    raise OSError('no table')\nload()\n")
    with pytest.raises(
        PreparationError, match=r"OSError: no table \(.*raises_below.py, line 2\); fix its import, or remove"
    ):
        preload(["raises_below"])
    with pytest.raises(
        PreparationError, match=r"No module named 'not_there_at_all'; install it, or name its folder in PYT"
    ):
        preload(["not_there_at_all"])


def test_module_that_opens_a_gpu_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = folder / "gpu0"
    device.touch()
    (folder / "opens_a_gpu.py").write_text(f"device = open({str(device)!r})")
    monkeypatch.setattr(preparation, "GPUS", (str(folder / "gpu"),))
    try:
        with pytest.raises(PreparationError, match=f"'opens_a_gpu'.*{device}"):
            preload(["opens_a_gpu"])
    finally:
        sys.modules["opens_a_gpu"].device.close()


def test_initializer_is_called_by_name_and_by_value(folder: Path) -> None:
    (folder / "of_start.py").write_text("class Start:\n    count = 0\n    def up():\n        Start.count += 1\n")
    initialize("of_start:Start.up")
    import of_start  # type: ignore[import-not-found]

    initialize(initializer_text(of_start.Start.up))
    assert of_start.Start.count == 2
    initialize("")


def test_initializer_that_fails_is_logged_with_its_traceback_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def leave() -> None:
        sys.exit(3)

    cases = (
        ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("os:no_such_function", "AttributeError: module 'os' has no attribute 'no_such_function'"),
        (initializer_text(leave), "SystemExit: 3"),
    )
    for bad, error in cases:
        monkeypatch.setattr(preparation, "_has_failed", bytearray(1))
        caplog.clear()
        for _ in range(3):
            with pytest.raises(PreparationError, match=rf"^the initializer failed: {error}( \(.*, line \d+\))?$"):
                initialize(bad)
        [logged] = caplog.text.split("CRITICAL")[1:]
        assert "the initializer failed, so this worker process cannot start\nTraceback" in logged
        assert logged.rstrip().endswith(error)


def test_an_initializer_setting_may_be_a_name_or_a_function() -> None:
    assert ClusterConfig.of({"address": ADDRESS, "initializer": None}).initializer == ""
    assert ClusterConfig.of({"address": ADDRESS, "initializer": "a.b:c.d"}).initializer == "a.b:c.d"
    by_value = ClusterConfig.of({"address": ADDRESS, "initializer": print})
    assert ClusterConfig.from_json(by_value.to_json()) == by_value


@pytest.mark.parametrize("bad", ["function", "a:", ":b", "a:b c", 3, sys, lambda f=sys.stdout: f])
def test_a_malformed_initializer_is_refused(bad: object) -> None:
    with pytest.raises(ConfigError, match="initializer"):
        ClusterConfig.of({"address": ADDRESS, "initializer": bad})
