"""What people see, on real pseudo-terminals and in files."""

from __future__ import annotations

import io
import sys

import pytest

from scaler.client.progress.displays import Log, ProgressSummary, Terminal, Tqdm, clock, display_for
from tests.support import terminals

SHORT = ProgressSummary(3, 10, 1, 2, 1.5)
LONG = ProgressSummary(
    4, 10, 1, 3, 1.5, "no worker is connected to the scheduler; start workers with scaler_cluster ADDRESS"
)


def test_a_terminal_has_one_line_that_is_redrawn_and_truncated() -> None:
    with terminals.Terminal(60) as terminal:
        display = Terminal(terminal.stream)
        for summary in (LONG, SHORT, LONG):
            display.show(summary)
        display.end(SHORT)
        output = terminal.output()
    assert output.count("\n") == 1
    states = terminals.states_of(output)
    assert states == [LONG.line()[:59].rstrip(), SHORT.line()[:59], LONG.line()[:59].rstrip(), SHORT.line()[:59]]
    widths = [len(state) for state in output.rstrip("\n\r").split("\r") if state]
    assert max(widths) == 59
    assert widths[1] == 59, "the rest of the longer line is blanked"


def test_a_file_has_a_line_for_each_summary() -> None:
    stream = io.StringIO()
    display = display_for(stream, 10)
    assert isinstance(display, Log)
    display.show(SHORT)
    display.end(LONG)
    assert stream.getvalue() == f"{SHORT.line()}\n{LONG.line()}\n"
    stream.close()
    display.show(SHORT)


def test_a_terminal_gets_the_bar_of_tqdm_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminals.Terminal(120) as terminal:
        display = display_for(terminal.stream, 10)
        assert isinstance(display, Tqdm)
        display.show(LONG)
        display.end(SHORT)
        states = terminals.states_of(terminal.output())
    assert any("40%" in state and "1 failed, no worker" in state for state in states)
    assert "3/10" in states[-1]
    assert "1 failed" in states[-1]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with terminals.Terminal() as terminal:
        assert isinstance(display_for(terminal.stream, 10), Terminal)


def test_a_closed_terminal_is_no_error() -> None:
    for kind in (Terminal, lambda stream: Tqdm(stream, 10)):
        with terminals.Terminal() as terminal:
            display = kind(terminal.stream)
            terminal.stream.close()
            display.show(SHORT)
            display.end(SHORT)


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        (ProgressSummary(0, None, 0, 0, 0), "0 tasks  0:00 elapsed, 0.0 tasks/s"),
        (
            ProgressSummary(1203, 5000, 0, 12, 100),
            "[####................] 1,203/5,000  24%  0:12 elapsed, 100 tasks/s, 0:37 left",
        ),
        (ProgressSummary(5, 5, 2, 3, 1.5), "[####################] 5/5 100%  0:03 elapsed, 1.5 tasks/s, 2 failed"),
        (
            ProgressSummary(0, 3, 0, 7, 0, "no worker is connected; start one"),
            "[....................] 0/3   0%  0:07 elapsed, 0.0 tasks/s, no worker is connected; start one",
        ),
        (ProgressSummary(0, 0, 0, 0, 0), "[####################] 0/0 100%  0:00 elapsed, 0.0 tasks/s"),
    ],
)
def test_a_progress_line_has_counts_times_rate_and_concern(summary: ProgressSummary, line: str) -> None:
    assert summary.line() == line


def test_time_is_shown_as_on_a_clock() -> None:
    assert [clock(5.9), clock(65), clock(3725)] == ["0:05", "1:05", "1:02:05"]


def test_unfinished_progress_is_never_shown_as_100_percent() -> None:
    assert " 99%" in ProgressSummary(99_999, 100_000, 0, 1, 1).line()
