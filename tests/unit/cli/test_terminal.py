"""Lines that commands print: nothing in them that a terminal obeys."""

from __future__ import annotations

import io

import pytest

from scaler.cli import options
from scaler.cli.terminal import fail, say, say_lines

HOSTILE = "a\x1b[2J\r\n[ERROR] forged\x9b\u202e\0"
SHOWN = r"a\x1b[2J\r\n[ERROR] forged\x9b\u202e\x00"


def test_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    say(HOSTILE)
    say(HOSTILE, stream)
    say("größe 数")
    assert (capsys.readouterr().out, stream.getvalue()) == (f"{SHOWN}\ngröße 数\n", f"{SHOWN}\n")


def test_a_text_of_several_lines_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    say_lines("one\n\x1b[1mtwo")
    assert capsys.readouterr().out == "one\n\\x1b[1mtwo\n"


def test_an_error_is_one_line() -> None:
    with pytest.raises(SystemExit) as ended:
        fail("scaler_jobs", ValueError(HOSTILE))
    assert ended.value.code == f"scaler_jobs: {SHOWN}"


def test_what_is_wrong_with_an_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.new_parser("scaler_jobs", "", "").error(HOSTILE)
    assert capsys.readouterr().err.endswith(f"scaler_jobs: error: {SHOWN}\n")
