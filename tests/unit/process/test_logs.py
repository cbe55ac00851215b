from __future__ import annotations

import logging
import os
import re
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.process.logs import SLOW_READER_SECONDS, TASK_OUTPUT, set_up_logging, share_devices
from scaler.settings import LoggingConfig


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the root logger after each test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    task_level = logging.getLogger(TASK_OUTPUT).level
    yield
    for handler in list(root.handlers):
        root.removeHandler(handler)
        if handler not in handlers:
            handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger(TASK_OUTPUT).setLevel(task_level)
    logging.captureWarnings(False)


def test_line_has_level_time_and_text(tmp_path: Path) -> None:
    set_up_logging(LoggingConfig((str(tmp_path / "log"),)))
    logging.getLogger("scaler.anything").info("%d tasks", 3)
    assert re.fullmatch(r"\[INFO\]\d{4}-\d\d-\d\d [\d:,]+: 3 tasks\n", (tmp_path / "log").read_text())


def test_several_log_files_get_the_same_lines(tmp_path: Path) -> None:
    paths = (str(tmp_path / "one"), str(tmp_path / "two"))
    set_up_logging(LoggingConfig(paths))
    logging.warning("both")  # noqa: LOG015 - the root is what is set up
    assert Path(paths[0]).read_text() == Path(paths[1]).read_text() != ""


@pytest.mark.parametrize(("level", "heard"), [("DEBUG", 4), ("INFO", 3), ("WARNING", 2), ("ERROR", 1), ("CRITICAL", 0)])
def test_level_determines_which_lines_are_logged(tmp_path: Path, level: str, heard: int) -> None:
    set_up_logging(LoggingConfig((str(tmp_path / "log"),), level))
    logger = logging.getLogger("scaler.anything")
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("x")
    assert len((tmp_path / "log").read_text().splitlines()) == heard


def test_a_log_at_a_standard_stream_goes_to_sys_stdout_or_sys_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(LoggingConfig(("/dev/stdout", "/dev/stderr")))
    logging.getLogger("scaler").info("x")
    out, err = capsys.readouterr()
    assert out == err
    assert out.endswith(": x\n")


def test_the_processes_of_a_worker_append_to_the_files_of_their_worker(tmp_path: Path) -> None:
    for text in ("one", "two"):
        set_up_logging(LoggingConfig((str(tmp_path / "log"), "/dev/null")), worker="a/b")
        logging.getLogger("scaler").info(text)
    assert [path.name for path in tmp_path.iterdir()] == ["log.a_b"]
    assert [line.rpartition(": ")[2] for line in (tmp_path / "log.a_b").read_text().splitlines()] == ["one", "two"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LoggingConfig(("/dev/stdout",)), True),
        (LoggingConfig(("/dev/stderr", "/dev/null", "/dev/fd/3")), True),
        (LoggingConfig(("/dev/stdout", "log")), False),
        (LoggingConfig(("/dev/shm/log",)), False),
        (LoggingConfig(("/dev/stdout",), config_file=__file__), False),
    ],
)
def test_devices_are_one_log_for_all_workers(config: LoggingConfig, expected: bool) -> None:
    assert share_devices(config) is expected


def test_existing_handlers_are_replaced(tmp_path: Path) -> None:
    for _ in range(3):
        set_up_logging(LoggingConfig((str(tmp_path / "log"),)))
    logging.getLogger("scaler").info("once")
    assert (tmp_path / "log").read_text().count("once") == 1


def test_the_refusal_of_a_log_that_cannot_be_written_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no/such/folder/log.*No such file"):
        set_up_logging(LoggingConfig((str(tmp_path / "no/such/folder/log"),)))


def test_a_log_file_that_cannot_be_opened_gets_lines_once_it_can(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "no" / "log"
    set_up_logging(LoggingConfig((str(log),)), is_strict=False)
    for text in ("one", "two"):
        logging.getLogger("scaler").warning(text)
    error = capfd.readouterr().err
    assert "the log cannot be written" in error
    assert "No such file" in error
    assert error.count("the first lost line: one") == 1
    assert "two" not in error
    log.parent.mkdir()
    logging.getLogger("scaler").warning("three")
    assert log.read_text().endswith(": three\n")


def test_a_new_log_file_is_readable_for_its_user_only(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        set_up_logging(LoggingConfig((str(tmp_path / "log"),)))
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_an_existing_log_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("old\n")
    (tmp_path / "log").chmod(0o640)
    set_up_logging(LoggingConfig((str(tmp_path / "log"),)))
    logging.getLogger("scaler").info("new")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o640
    assert re.fullmatch(r"old\n.*: new\n", (tmp_path / "log").read_text())


def test_a_symbolic_link_is_refused_as_a_log_file(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"log.*symbolic link"):
        set_up_logging(LoggingConfig((str(tmp_path / "log"),)))
    assert not (tmp_path / "elsewhere").exists()


def test_a_descriptor_can_be_the_log_file(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        set_up_logging(LoggingConfig((f"/dev/fd/{file.fileno()}",)))
        logging.getLogger("scaler").info("x")
    assert (tmp_path / "log").read_text().endswith(": x\n")


HOSTILE = "a\n[CRITICAL]2026-01-01: forged \x1b[2J\u202e"


def test_texts_of_other_processes_are_escaped_and_cut_in_log_lines(tmp_path: Path) -> None:
    set_up_logging(LoggingConfig((str(tmp_path / "log"),), text_characters=60))
    logger = logging.getLogger("scaler.anything")
    logger.info("workers %s connected, %r, %d", HOSTILE, ValueError(HOSTILE), 3)
    logger.info("workers %s connected, %s", "x" * 100_000, ValueError("y" * 100_000))
    logger.info(HOSTILE.replace("\n", " "))
    lines = [line.partition(": ")[2] for line in (tmp_path / "log").read_text().splitlines()]
    hostile = r"a\n[CRITICAL]2026-01-01: forged \x1b[2J\u202e"
    assert lines == [
        f"workers {hostile} connected, ValueError('{hostile}'), 3",
        f"workers {'x' * 57}... connected, {'y' * 57}...",
        hostile.replace(r"\n", " "),
    ]


def test_lines_of_users_are_unchanged_and_lines_of_tasks_are_whole_and_escaped(tmp_path: Path) -> None:
    set_up_logging(LoggingConfig((str(tmp_path / "log"),), text_characters=16))
    for name in (TASK_OUTPUT, "scalers", "theirs"):
        logging.getLogger(name).info("%s", "\x1b[1mbold\x1b[0m" * 10)
    text = (tmp_path / "log").read_text()
    assert text.count("\x1b[1mbold\x1b[0m" * 10 + "\n") == 2
    assert text.count(r"\x1b[1mbold\x1b[0m" * 10 + "\n") == 1
    logging.getLogger(TASK_OUTPUT).info("a\tb\n[CRITICAL]2026-01-01: forged \x9b\u202e\0")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[-2].endswith(": a\tb")
    assert lines[-1] == r"  [CRITICAL]2026-01-01: forged \x9b\u202e\x00"


def test_a_log_record_of_several_lines_keeps_them(tmp_path: Path) -> None:
    set_up_logging(LoggingConfig((str(tmp_path / "log"),), text_characters=16))
    try:
        raise ValueError("x")
    except ValueError:
        logging.getLogger("scaler.anything").exception("one\ntwo %(three)s", {"three": 3})
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[1:3] == ["  two 3", "  Traceback (most recent call last):"], "no line looks like a separate record"


def test_warnings_are_logged(tmp_path: Path) -> None:
    set_up_logging(LoggingConfig((str(tmp_path / "log"),)))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("odd", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert "UserWarning: odd" in (tmp_path / "log").read_text()


def test_a_logging_configuration_file_replaces_the_other_settings(tmp_path: Path) -> None:
    config_file = tmp_path / "logging.ini"
    config_file.write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=\n"
        "[logger_root]\nlevel=ERROR\nhandlers=file\n"
        f"[handler_file]\nclass=FileHandler\nargs=({str(tmp_path / 'mine')!r},)\n"
    )
    set_up_logging(LoggingConfig((str(tmp_path / "log"),), config_file=str(config_file)))
    logging.getLogger("scaler").warning("not heard")
    logging.getLogger("scaler").error("heard")
    assert (tmp_path / "mine").read_text() == "heard\n"
    assert not (tmp_path / "log").exists()


def test_a_log_that_cannot_be_written_is_reported_once(capfd: pytest.CaptureFixture[str]) -> None:
    set_up_logging(LoggingConfig(("/dev/full",)))
    for number in range(3):
        logging.getLogger("scaler").info("line %d", number)
    complaint = capfd.readouterr().err
    assert complaint.count("\n") == 1
    assert "No space left" in complaint
    assert "line 0" in complaint


def test_an_unread_output_does_not_block_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        set_up_logging(LoggingConfig(("/dev/stdout",)))
        logger = logging.getLogger("scaler.anything")
        for number in range(3000):
            logger.info("line %d of %s", number, "x" * 100)
        logger.info("x" * 10_000)
        lines = os.read(reader, 1 << 20).decode().splitlines()
        assert 100 < len(lines) < 3000
        logger.info("somebody reads again")
        lost, last = os.read(reader, 1 << 20).decode().splitlines()
    os.close(reader)
    assert lost == f"scaler: {3001 - len(lines)} lines were dropped: this output was not read"
    assert last.endswith("somebody reads again")


def test_log_lines_of_a_task_stay_whole_and_do_not_wait_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        set_up_logging(LoggingConfig(("/dev/stdout",)), worker="a")
        logger = logging.getLogger("scaler.task")
        started = time.monotonic()
        for _ in range(100):
            logger.info("x" * 7000)
        assert time.monotonic() - started < 100 * SLOW_READER_SECONDS / 4, "logging waits once"
        *lines, cut = os.read(reader, 1 << 20).decode().split("\n")
        assert {line[-7000:] for line in lines} == {"x" * 7000}
        logger.info("somebody reads again")
        assert os.read(reader, 1 << 20).decode().splitlines()[-2:][0].startswith("scaler: ")
        logger.info("short")
        [last] = os.read(reader, 1 << 20).decode().splitlines()
        assert last.endswith("short")
    os.close(reader)
    assert len(cut) < 7100


def test_a_slow_reader_gets_all_lines_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    read = b""

    def read_slowly() -> None:
        nonlocal read
        while data := os.read(reader, 8192):
            read += data
            time.sleep(0.001)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        set_up_logging(LoggingConfig(("/dev/stdout",)), worker="a")
        for number in range(3000):
            logging.getLogger("scaler.task").info("%d %s", number, "x" * 100)
    thread.join()
    os.close(reader)
    assert [int(line.split()[-2]) for line in read.decode().splitlines()] == list(range(3000))
