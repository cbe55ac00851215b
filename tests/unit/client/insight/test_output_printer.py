"""OutputPrinter: a thread of its own prints the output of tasks."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from scaler.client.insight import output_printer
from scaler.client.insight.output_printer import OutputPrinter
from scaler.ids import TaskId
from scaler.wire.messages.client import OutputLine
from scaler.wire.messages.common import OutputStream


def line(text: str, stream: OutputStream = OutputStream.STANDARD_OUTPUT, dropped: int = 0) -> OutputLine:
    return OutputLine(1, TaskId(b"1" * 16), stream, 7, dropped, "price", "rome07-3", text)


class Stuck(io.StringIO):
    """A terminal that blocks writes until `may_go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.is_stuck = threading.Event()

    def write(self, text: str) -> int:
        self.is_stuck.set()
        self.may_go_on.wait()
        return super().write(text)


def test_lines_are_printed_to_the_stream_that_the_task_has_used(capsys: pytest.CaptureFixture[str]) -> None:
    printer = OutputPrinter(lambda _: None)
    printer.take(line("a"))
    printer.take(line("b", OutputStream.STANDARD_ERROR, dropped=2))
    printer.take(line("c", OutputStream.LOGGING))
    printer.finish()
    printer.finish()
    assert tuple(capsys.readouterr()) == (
        "rome07-3 price: a\n",
        "(2 lines were left out)\nrome07-3 price: b\nrome07-3 price: c\n",
    )


def test_a_slow_terminal_delays_no_client_and_its_lost_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_printer, "WAITING_MOST", 10)
    terminal = Stuck()
    monkeypatch.setattr(sys, "stdout", terminal)
    printer = OutputPrinter(lambda _: None)
    printer.take(line("first"))
    assert terminal.is_stuck.wait(60)
    for number in range(25):
        printer.take(line(str(number)))
    terminal.may_go_on.set()
    printer._lines.put(None)
    printer._thread.join(60)
    assert len(terminal.getvalue().splitlines()) == 11
    assert printer._dropped == 15


def test_a_closed_stream_does_not_end_the_output_printer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    printer = OutputPrinter(lambda _: None)
    printer.take(line("lost"))
    printer.take(line("b", OutputStream.STANDARD_ERROR))
    printer.finish()
    assert capsys.readouterr().err == "rome07-3 price: b\n"
