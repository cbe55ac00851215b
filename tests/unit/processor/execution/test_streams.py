"""Streams: each line that a task prints is logged once, whatever the task does to `logging` and the streams."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.process.logs import TASK_OUTPUT, set_up_logging
from scaler.processor.execution.streams import LINE_BYTES, TaskStreams
from scaler.settings import LoggingConfig
from tests.support.processor import Driver, value_of


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the root logger and the logger of tasks after each test."""
    loggers = [logging.getLogger(name) for name in (None, TASK_OUTPUT)]
    before = [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagates) in zip(loggers, before, strict=True):
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.handlers[:], logger.propagate = handlers, propagates
        logger.setLevel(level)
    logging.captureWarnings(False)


class Task:
    """The streams of a task in this process, and the lines that they have logged."""

    def __init__(self, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log = log
        self._monkeypatch = monkeypatch
        set_up_logging(LoggingConfig((str(log),), "CRITICAL"))
        self.streams = TaskStreams()

    def enter(self) -> None:
        """Install the streams. The test itself calls this, because pytest installs its own streams before."""
        self._monkeypatch.setattr(sys, "stdout", sys.stdout)
        self._monkeypatch.setattr(sys, "stderr", sys.stderr)
        self.streams.enter()

    def lines(self) -> list[str]:
        """Return the texts that were logged."""
        return [line.partition(": ")[2] for line in self._log.read_text().splitlines()]

    def levels(self) -> list[str]:
        return [line.partition("]")[0][1:] for line in self._log.read_text().splitlines()]


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    return Task(tmp_path / "log", monkeypatch)


def test_each_line_is_logged_when_it_is_complete_and_the_rest_after_the_task(task: Task) -> None:
    task.enter()
    print("one", "two\nthree %s")
    print("unfinished", end="", flush=True)
    assert task.lines() == ["one two", "three %s"]
    task.streams.after_task()
    task.streams.after_task()
    assert task.lines() == ["one two", "three %s", "unfinished"]


def test_forwarded_lines_are_logged_unless_the_log_excludes_tasks(task: Task) -> None:
    takes = [True]
    task.streams.forward = lambda _stream, _line: takes[0]
    task.enter()
    print("one")
    task.streams.logs_tasks = False
    print("two")
    takes[0] = False
    print("of no task")
    assert task.lines() == ["one", "of no task"]


def test_standard_error_is_logged_as_a_warning(task: Task) -> None:
    task.enter()
    print("printed")
    print("complaint", file=sys.stderr)
    assert task.levels() == ["INFO", "WARNING"]


def test_a_long_line_is_logged_in_parts_before_its_end(task: Task) -> None:
    task.enter()
    for _ in range(3 * LINE_BYTES):
        print(".", end="")
    assert 2 * LINE_BYTES <= sum(map(len, task.lines())) <= 3 * LINE_BYTES
    task.streams.after_task()
    assert "".join(task.lines()) == "." * (3 * LINE_BYTES)


@pytest.mark.thorough
def test_many_short_pieces_of_a_line_take_linear_time(task: Task) -> None:
    task.enter()

    def seconds(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            print(".", end="")
        task.streams.after_task()
        return time.perf_counter() - start

    assert seconds(200_000) < 100 * min(seconds(20_000) for _ in range(3))
    assert sum(map(len, task.lines())) == 260_000


def test_a_progress_bar_is_logged_as_one_line(task: Task) -> None:
    task.enter()
    for done in range(2000):
        sys.stderr.write(f"\r{done / 20:.0f}% of the work")
        sys.stderr.flush()
    sys.stderr.write("\n")
    for done in range(5):
        print(f"{done} of 5", end="\r")
    task.streams.after_task()
    sys.stderr.write("\r100%\r    \r\n")
    print("windows\r\nlines\r")
    assert task.lines() == ["100% of the work", "4 of 5", "windows", "lines"]


def test_undecodable_characters_are_logged_as_escapes(task: Task) -> None:
    task.enter()
    print("\udcff and ä")
    sys.stdout.buffer.write(b"\xff\n")
    assert task.lines() == ["\\udcff and ä", "\\xff"]


def test_streams_have_the_interface_that_libraries_expect(task: Task) -> None:
    task.enter()
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        assert stream.fileno() == stream.buffer.fileno() == descriptor
        assert (stream.encoding, stream.mode, stream.isatty(), stream.closed) == ("utf-8", "w", False, False)
        assert stream.writable()
        assert not stream.readable()
        assert not stream.seekable()
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(encoding="latin-1", errors="strict", line_buffering=False)
        assert stream.encoding == "utf-8"
        assert stream.write("abc\nde") == 6
        assert stream.buffer.write(bytearray(b"fgh\n")) == 4
        stream.writelines(["x", "\n"])
    assert task.lines() == 2 * ["abc", "defgh", "x"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda: (sys.stdout.close(), sys.stderr.close()),
        lambda: (sys.stdout.buffer.close(), sys.stderr.buffer.close()),
        lambda: (sys.stdout.detach(), sys.stderr.detach()),
        lambda: io.TextIOWrapper(sys.stdout.buffer, "ascii") and None,
        lambda: (sys.stderr.detach(), sys.stderr.flush()),
    ],
)
def test_a_stream_that_a_task_detached_or_closed_works_for_the_next_task(task: Task, harm: Callable[[], Any]) -> None:
    task.enter()
    with contextlib.suppress(ValueError):
        harm()
    task.streams.after_task()
    print("printed")
    print("complaint", file=sys.stderr)
    assert task.lines() == ["printed", "complaint"]


def test_lines_of_several_threads_are_not_mixed(task: Task) -> None:
    task.enter()

    def speak(name: str) -> None:
        for _ in range(500):
            sys.stdout.write(name * 50 + "\n")

    threads = [threading.Thread(target=speak, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(task.lines()) == sorted(name * 50 for name in "abcdefgh" for _ in range(500))


def test_a_logging_configuration_file_sets_the_level_and_handlers_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "logging.ini"
    file.write_text(
        "[loggers]\nkeys=root,task\n[handlers]\nkeys=all,task\n[formatters]\nkeys=\n"
        "[logger_root]\nlevel=INFO\nhandlers=all\n"
        "[logger_task]\nqualname=scaler.task\nlevel=WARNING\nhandlers=task\npropagate=0\n"
        f"[handler_all]\nclass=FileHandler\nargs=({str(tmp_path / 'all')!r},)\n"
        f"[handler_task]\nclass=FileHandler\nargs=({str(tmp_path / 'task')!r},)\n"
    )
    set_up_logging(LoggingConfig(config_file=str(file)))
    streams = TaskStreams()
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    streams.enter()
    print("not heard")
    print("heard", file=sys.stderr)
    assert (tmp_path / "task").read_text() == "heard\n"
    assert (tmp_path / "all").read_text() == ""


# In a processor


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    yield driver
    driver.close()


def speak() -> str:
    print("printed")
    print("complaint", file=sys.stderr)
    return "done"


def harm_basic_config() -> None:
    logging.basicConfig(force=True)


def harm_handler() -> None:
    logging.getLogger().addHandler(logging.StreamHandler())
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))


def harm_dict_config() -> None:
    import logging.config

    logging.config.dictConfig({"version": 1, "root": {"level": "ERROR", "handlers": []}})
    logging.disable(logging.CRITICAL)


@pytest.mark.processes
@pytest.mark.parametrize("harm", [harm_basic_config, harm_handler, harm_dict_config])
def test_changes_of_a_task_to_logging_do_not_affect_its_prints(driver: Driver, harm: Callable[[], None]) -> None:
    def harm_and_speak(harm: Callable[[], None]) -> str:
        harm()
        logging.getLogger("mine").warning("logged")
        return speak()

    assert value_of(driver.call(harm_and_speak, harm)) == "done"
    assert value_of(driver.call(speak)) == "done"
    text = driver.log_text
    assert (text.count("printed"), text.count("complaint")) == (2, 2)
    assert text.count("logged") <= 3  # by each handler of the root logger


@pytest.mark.processes
def test_prints_do_not_fail_when_the_log_cannot_be_written(tmp_path: Path) -> None:
    driver = Driver(tmp_path, logging=LoggingConfig(("/dev/full", "/dev/stdout")), stdout=subprocess.PIPE)
    assert driver.process.stdout is not None
    driver.process.stdout.close()  # the reader is closed

    def log_and_speak() -> str:
        logging.getLogger("mine").error("logged")
        return speak()

    for _ in range(3):
        assert value_of(driver.call(log_and_speak)) == "done"
    value_of(driver.call(harm_basic_config))
    assert value_of(driver.call(speak)) == "done"
    driver.close()


@pytest.mark.processes
def test_descriptors_of_the_streams_are_those_of_the_process(tmp_path: Path) -> None:
    driver = Driver(tmp_path, stdout=subprocess.PIPE)

    def use_them() -> int:
        import faulthandler

        faulthandler.enable()
        faulthandler.dump_traceback()
        return subprocess.run([sys.executable, "-c", "print('a child')"], stdout=sys.stdout, check=True).returncode

    assert value_of(driver.call(use_them)) == 0
    assert driver.process.stdout is not None
    assert driver.process.stderr is not None
    assert os.read(driver.process.stdout.fileno(), 100) == b"a child\n"
    assert b"in use_them" in os.read(driver.process.stderr.fileno(), 10_000)
    driver.close()


@pytest.mark.processes
def test_lines_that_a_forked_process_prints_are_logged(driver: Driver) -> None:
    def speak_in_a_child() -> int:
        print("of the parent", end="")
        pid = os.fork()
        if pid == 0:
            print("of the child", end="", flush=True)
            os._exit(0)
        return os.waitpid(pid, 0)[1]

    assert value_of(driver.call(speak_in_a_child)) == 0
    assert "of the parent" in driver.log_text
    assert driver.log_text.count("of the child") == 1
