"""ProcessState: streams, descriptors and logging are restored after each task."""

from __future__ import annotations

import contextlib
import io
import logging
import logging.config
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from scaler.process.user_code.descriptors import KeptDescriptors
from scaler.processor.execution.process_state import CHECKS_IN_A_ROW, PAUSE_NS, ProcessState
from scaler.settings.functions import initializer_text
from scaler.wire.messages.common import OutputStream
from tests.support.processor import Driver, value_of

STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


def use_all() -> Any:
    """Write in each way. Return what this task finds in its process."""
    print("printed")
    print("complained", file=sys.stderr)
    for name in ("library", "scaler.of_ours", None):
        logging.getLogger(name).warning("logged")
    descriptors = [(os.fstat(number).st_dev, os.fstat(number).st_ino) for number in range(3)]
    streams = [getattr(sys, name) for name in STREAMS]
    return descriptors, [(stream.fileno(), stream.closed) for stream in streams], sys.stdin.readable()


class Scene:
    """A processor, and what a task finds and writes in an unchanged process."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.driver = Driver(folder, stdout=subprocess.PIPE, **settings)
        self.usual = self.look()

    def look(self) -> tuple[Any, list[tuple[OutputStream, str]], list[str]]:
        """Return what a task finds, which of its lines are sent, and which are in the log."""
        self.driver.output.clear()
        logged = len(self.driver.log_text)
        has = value_of(self.driver.call(use_all))
        lines = self.driver.log_text[logged:].splitlines()
        travelled = [(line.stream, line.text) for line in self.driver.output]
        return has, travelled, [line.partition(": ")[2] for line in lines]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        yield scene
        scene.driver.close()


kept: list[Any] = []
"""what tasks leave in their process"""


def close_streams() -> None:
    for name in STREAMS:
        getattr(sys, name).close()


def drop_streams() -> None:
    for name in STREAMS:
        setattr(sys, name, None)


def delete_streams() -> None:
    for name in STREAMS:
        delattr(sys, name)


def write_to_a_file_and_close_it() -> None:
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    print("mine")
    sys.stdout.close()


def replace_and_raise() -> NoReturn:
    sys.stdout, sys.stdin = io.StringIO(), io.StringIO("answer")
    raise ValueError("before it is undone")


def wrap() -> None:
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, "ascii")


def detach() -> None:
    kept.extend((sys.stdout.detach(), sys.stderr.detach()))  # type: ignore[union-attr]
    del sys.stdout


def leave_a_redirection() -> None:
    def generate() -> Iterator[int]:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(None):
            yield 1

    generator = generate()
    next(generator)
    kept.append(generator)


def redirect_descriptors() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def close_and_open() -> None:
    os.closerange(0, 3)
    kept.extend(open(os.devnull) for _ in range(3))  # noqa: PTH123, SIM115


def configure() -> None:
    logging.config.dictConfig({"version": 1})


def configure_silence() -> None:
    logging.config.dictConfig({"version": 1, "root": {"level": "CRITICAL", "handlers": []}})


def configure_by_file() -> None:
    logging.config.fileConfig(
        io.StringIO(
            "[loggers]\nkeys=root\n[handlers]\nkeys=\n[formatters]\nkeys=\n[logger_root]\nlevel=ERROR\nhandlers=\n"
        )
    )


def clear_handlers() -> None:
    logging.getLogger().handlers.clear()


def have_handlers_refuse() -> None:
    for handler in logging.root.handlers:
        handler.setLevel(logging.CRITICAL)
        handler.addFilter(lambda _record: False)
        handler.setFormatter(logging.Formatter("%(of_a_filter)s"))


def add_a_handler_that_is_of_no_use_afterwards() -> None:
    with open(os.devnull, "w") as file:  # noqa: PTH123
        logging.getLogger().addHandler(logging.StreamHandler(file))


def add_handlers_that_log_everything_twice() -> None:
    logging.basicConfig(force=True)
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))


def disable_root() -> None:
    logging.root.disabled = True
    logging.root.addFilter(lambda _record: False)


def silence_scaler() -> None:
    logging.getLogger("scaler").setLevel(logging.CRITICAL)
    logging.getLogger("scaler").propagate = False


HARM: list[Callable[[], Any]] = [
    close_streams,
    drop_streams,
    delete_streams,
    write_to_a_file_and_close_it,
    replace_and_raise,
    wrap,
    detach,
    leave_a_redirection,
    lambda: os.close(0),
    lambda: os.close(1),
    lambda: os.close(2),
    lambda: os.closerange(0, 3),
    lambda: os.closerange(0, 1000),
    redirect_descriptors,
    close_and_open,
    lambda: logging.basicConfig(force=True, level="CRITICAL", handlers=[logging.NullHandler()]),
    configure,
    configure_silence,
    configure_by_file,
    lambda: logging.disable(logging.CRITICAL),
    logging.shutdown,
    clear_handlers,
    lambda: setattr(logging.root, "handlers", []),
    lambda: logging.getLogger().setLevel("CRITICAL"),
    have_handlers_refuse,
    add_a_handler_that_is_of_no_use_afterwards,
    add_handlers_that_log_everything_twice,
    disable_root,
    silence_scaler,
]


@pytest.mark.processes
@pytest.mark.parametrize("harm", HARM)
def test_streams_and_logging_are_restored_after_each_task(scene: Scene, harm: Callable[[], Any]) -> None:
    _, travelled, logged = scene.usual
    texts = ["printed", "complained", "WARNING:library: logged", "WARNING:root: logged"]
    assert [text for _, text in travelled] == texts
    assert logged == ["printed", "complained", "logged", "logged", "logged"]
    scene.driver.call(harm)
    assert scene.look() == scene.usual


def print_and_close() -> None:
    print("of this task", end="")
    sys.stdout = io.StringIO()
    print("elsewhere")
    os.close(1)


@pytest.mark.processes
def test_lines_printed_before_a_task_closes_its_streams_are_not_lost(scene: Scene) -> None:
    scene.driver.output.clear()
    value_of(scene.driver.call(print_and_close))
    assert [line.text for line in scene.driver.output] == ["of this task"]
    assert "of this task" in scene.driver.log_text


def add_a_log(path: str) -> None:
    logging.getLogger().addHandler(logging.FileHandler(path))
    logging.getLogger("library").setLevel(logging.DEBUG)


@pytest.mark.processes
def test_a_log_handler_that_a_task_adds_for_its_own_file_stays(scene: Scene, tmp_path: Path) -> None:
    own_log = tmp_path / "own"
    value_of(scene.driver.call(add_a_log, str(own_log)))
    scene.look()
    scene.look()
    assert own_log.read_text().splitlines() == ["logged"] * 6
    assert value_of(scene.driver.call(lambda: logging.getLogger("library").level)) == logging.DEBUG


# What an initializer does stays


def prepare() -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "handlers": {"own": {"class": "logging.FileHandler", "filename": os.environ["OWN_LOG"]}},
            "loggers": {"application": {"level": "INFO", "handlers": ["own"], "propagate": False}},
            "root": {"level": "INFO", "handlers": ["own"]},
        }
    )
    logging.getLogger("quiet").disabled = True
    sys.stdout = io.StringIO()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.close(1)


def undo_it() -> None:
    configure_silence()
    logging.config.dictConfig({"version": 1, "loggers": {"application": {"handlers": [], "level": "ERROR"}}})
    close_and_open()
    drop_streams()


def use_what_was_prepared(text: str) -> Any:
    for name in ("application", "library", "scaler.of_ours", "quiet"):
        logging.getLogger(name).info("%s %s", name, text)
    print(text)
    names = [str(Path(f"/proc/self/fd/{number}").readlink()).partition(":")[0] for number in range(3)]
    return type(sys.stdout).__name__, sys.stdout.getvalue(), names  # type: ignore[attr-defined]


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
def test_the_state_after_the_initializer_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_log = tmp_path / "own"
    monkeypatch.setenv("OWN_LOG", str(own_log))
    driver = Driver(tmp_path, stdout=subprocess.PIPE, initializer=initializer_text(prepare))
    try:
        first = value_of(driver.call(use_what_was_prepared, "first"))
        assert first == ("StringIO", "first\n", [first[2][0], "pipe", os.devnull])
        driver.call(undo_it)
        again = value_of(driver.call(use_what_was_prepared, "again"))
    finally:
        driver.close()
    assert again == ("StringIO", "first\nagain\n", first[2])
    names = ("application", "library", "scaler.of_ours")
    assert own_log.read_text().splitlines() == [f"{name} {text}" for text in ("first", "again") for name in names]
    travelled = [line.text for line in driver.output if line.stream == OutputStream.LOGGING]
    assert travelled == [f"INFO:library: library {text}" for text in ("first", "again")]


# How often the whole state is checked


def test_the_whole_state_is_checked_only_periodically_for_short_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    state = ProcessState(lambda _name: None, KeptDescriptors(), logging.NullHandler())
    monkeypatch.setattr(KeptDescriptors, "restore", lambda _self: None)
    start, step = 10**12, PAUSE_NS // 100
    looks, look_at = [], 0
    for started_ns in range(start, start + 10 * CHECKS_IN_A_ROW * step, step):
        if started_ns >= look_at:
            looks.append(started_ns)
            _, _, look_at = state.restore(started_ns)
    assert looks[:CHECKS_IN_A_ROW] == list(range(start, start + CHECKS_IN_A_ROW * step, step))
    assert len(looks) <= 1.2 * CHECKS_IN_A_ROW
