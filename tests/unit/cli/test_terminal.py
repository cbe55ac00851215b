"""Lines that commands print: they contain no control sequences."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import pytest
from wcwidth import wcswidth

from scaler.cli import options
from scaler.cli.terminal import TableColumn, fail, say, say_lines, say_table

HOSTILE = "a\x1b[2J\r\n[ERROR] forged\x9b\u202e\0"
SHOWN = r"a\x1b[2J\r\n[ERROR] forged\x9b\u202e\x00"


def test_a_printed_line_stays_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    say(HOSTILE)
    say(HOSTILE, stream)
    say("größe 数")
    assert (capsys.readouterr().out, stream.getvalue()) == (f"{SHOWN}\ngröße 数\n", f"{SHOWN}\n")


def test_a_printed_text_keeps_its_line_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    say_lines("one\n\x1b[1mtwo")
    assert capsys.readouterr().out == "one\n\\x1b[1mtwo\n"


def test_an_error_is_printed_as_one_line() -> None:
    with pytest.raises(SystemExit) as ended:
        fail("scaler_jobs", ValueError(HOSTILE))
    assert ended.value.code == f"scaler_jobs: {SHOWN}"


def test_an_error_about_an_option_is_printed_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.new_parser("scaler_jobs", "", "").error(HOSTILE)
    assert capsys.readouterr().err.endswith(f"scaler_jobs: error: {SHOWN}\n")


WIDE = "\u65e5"
COLUMNS = (
    TableColumn("JOB", least=16),
    TableColumn("OWNER", least=8, rank=2),
    TableColumn("ROWS", is_number=True),
    TableColumn("AT", rank=1),
)
LINES = [("n" * 87, "alice", "1,000", "2m"), (WIDE * 40, "bob", "7", "now"), ("a\x1b[2Jb", "eve\n", "0", "9d")]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def table_at(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    terminal = Terminal()
    with monkeypatch.context() as changed:
        changed.setenv("COLUMNS", str(width))
        changed.setattr(sys, "stdout", terminal)
        say_table(COLUMNS, LINES)
    return terminal.getvalue().splitlines()


@pytest.mark.parametrize("width", [1, 10, 20, 28, 40, 80, 120, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = table_at(width, monkeypatch)
    assert len(lines) == 4
    assert max(map(wcswidth, lines)) <= width
    assert "\x1b" not in "".join(lines)


def test_a_narrow_table_shortens_long_texts_and_then_leaves_out_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table_at(40, monkeypatch) == [
        "JOB                    OWNER   ROWS  AT",
        f"{'n' * 20}\u2026  alice  1,000  2m",
        f"{WIDE * 10}\u2026  bob        7  now",
        "a\\x1b[2Jb              eve\\n      0  9d",
    ]
    assert table_at(30, monkeypatch)[:2] == ["JOB               OWNER   ROWS", "nnnnnnnnnnnnnnn\u2026  alice  1,000"]
    assert table_at(26, monkeypatch)[:2] == ["JOB                   ROWS", "nnnnnnnnnnnnnnnnnn\u2026  1,000"]


def test_a_table_in_a_pipe_is_complete(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    say_table(COLUMNS, LINES)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"{'n' * 87}  alice  1,000  2m"
    assert wcswidth(lines[2]) == 87 + len("  bob        7  now")


ENDS = """
import os, signal, sys
from scaler.cli.terminal import ends_in_order

@ends_in_order
def main(argv):
    try:
        print("begun", flush=True)
        {}
    finally:
        print("cleaned up", flush=sys.argv[1] == "flush")

main()
"""


def test_an_interrupted_command_cleans_up_and_dies_of_the_signal() -> None:
    program = [sys.executable, "-c", ENDS.format("os.kill(os.getpid(), signal.SIGINT)"), ""]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "begun\ncleaned up\n", "")


@pytest.mark.parametrize("when", ["flush", "end"])
def test_a_command_whose_output_pipe_was_closed_ends_without_an_error(when: str) -> None:
    wait = "sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", ENDS.format(wait), when],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.stdout.close()
        process.stdout = None
        assert process.communicate(timeout=30)[1] == b""
    assert process.returncode == 0


def test_an_interrupt_ends_a_server_that_is_starting() -> None:
    program = """
import os, signal
from scaler.cli.terminal import interrupt_ends_process

with interrupt_ends_process():
    pass
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
with interrupt_ends_process():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "the server has set it"
with interrupt_ends_process():
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "as nohup has it"
signal.signal(signal.SIGINT, signal.default_int_handler)
with interrupt_ends_process():
    os.kill(os.getpid(), signal.SIGINT)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
