"""scaler_top in a real terminal: its keys, its sizes, its ends; most of it against a made-up stream."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from itertools import count
from pathlib import Path

import pytest

from scaler import Client
from tests.support import monitored_cluster as cluster
from tests.support.monitored import Publisher
from tests.support.monitored_stream import Stream, publishing
from tests.support.processes import command, scheduler, wait_until
from tests.support.terminal import CTRL_C, CTRL_Z, ENTER, ESCAPE, Terminal, terminal
from tests.support.timing import at_best

TOP = (sys.executable, "-m", "scaler.cli.top")
TOTAL = "Total 16 worker(s), 16 busy"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/monitor"


@pytest.fixture
def stream(address: str) -> Iterator[Stream]:
    with publishing(address) as stream:
        yield stream


@pytest.fixture
def top(stream: Stream) -> Iterator[Terminal]:
    with terminal(*TOP, stream.address) as shown:
        shown.wait_for(TOTAL)
        yield shown


def test_keys_show_views_details_and_help(top: Terminal) -> None:
    top.press("c")
    top.wait_for("[cpu]")
    top.press("2")
    top.wait_for("[2 functions]")
    top.wait_for("all others")
    top.press("4" + ENTER)
    top.wait_for('raise ValueError("bad strike")')
    top.press(ENTER)
    top.wait_for("history, while it is watched")
    top.wait_for("state     failed")
    top.press(ESCAPE)
    top.wait_for("count     180")
    top.press("8" + ENTER)
    top.wait_for("value spot prices   (Esc back)")
    top.wait_for("readers   47,787")
    top.press(ESCAPE)
    top.wait_for("xresult of price")
    top.press("1")
    top.wait_for("[1 workers]")
    top.press("/gpu")
    top.wait_for("/gpu_")
    top.wait_for("Nothing matches the filter.")
    top.press(ESCAPE)
    top.wait_for(TOTAL)
    top.press("nj" + ENTER)
    top.wait_for("4801")
    top.press("?")
    top.wait_for("and changes nothing")
    top.press("q")
    top.wait_for("worker rome07:0")
    top.press("q")
    assert top.end() == 0
    top.check_left_as_before()


def test_keys_that_are_typed_before_there_is_a_screen_or_a_row_are_not_lost(address: str) -> None:
    with terminal(*TOP, address) as shown:
        shown.press("4" + ENTER)  # the terminal still keeps lines
        shown.wait_for("Waiting for the first message")
        with publishing(address):
            shown.wait_for('raise ValueError("bad strike")')
            shown.press("q")
            assert shown.end() == 0


def unchanged(top: Terminal) -> list[str]:
    """Return what is shown if it stays so for half a second: news come ten times a second. Else nothing."""
    picture = top.lines
    time.sleep(0.5)
    return picture if top.lines == picture else []


def test_sizes_change_while_it_runs_and_a_paused_screen_stands_still(top: Terminal) -> None:
    top.resize(200, 50)
    top.wait_for("tasks/s, last 60 s")
    top.wait_for("failures 2")
    top.resize(39, 9)
    top.wait_for("Too small: 39x9, needs 40x10")
    top.resize(80, 24)
    top.wait_for(TOTAL)
    top.wait_for("[1 workers]")
    assert top.lines[0].startswith("scheduler       | task_manager")
    assert top.lines[23].startswith("[1 workers]")
    top.press(" ")
    top.wait_for("paused")
    picture = wait_until(lambda: unchanged(top), "it stands still")
    assert top.lines == picture
    top.press(" ")
    top.wait_for("live")
    wait_until(lambda: top.lines[:10] != picture[:10], "other numbers")


@pytest.mark.parametrize(
    "way",
    [pytest.param(CTRL_C, marks=pytest.mark.more), signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.more)],
    ids=["ctrl-c", "term", "hup"],
)
def test_each_end_leaves_the_terminal_as_it_was(top: Terminal, way: str | signal.Signals) -> None:
    assert top.settings != top.settings_before
    if isinstance(way, str):
        top.press(way)
    else:
        top.process.send_signal(way)
    assert top.end() == 0
    top.check_left_as_before()


def test_ctrl_z_restores_the_terminal_until_the_program_continues(top: Terminal) -> None:
    top.press(CTRL_Z)
    _, status = os.waitpid(top.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    top.check_left_as_before()
    top.process.send_signal(signal.SIGCONT)
    wait_until(lambda: top.settings != top.settings_before, "the terminal is taken again")
    top.wait_for(TOTAL)
    top.press("q")
    assert top.end() == 0
    top.check_left_as_before()


def test_an_exception_leaves_the_terminal_as_it_was() -> None:
    text = "from scaler.monitor.top.screen import Screen\nwith Screen().taken():\n    1 / 0"
    with terminal(sys.executable, "-c", text) as shown:
        assert shown.end() == 1
        shown.check_left_as_before()
        shown.wait_for("ZeroDivisionError")


@pytest.mark.more
def test_an_idle_screen_writes_few_bytes(address: str) -> None:
    publisher, seconds = Publisher(address), count()
    with terminal(*TOP, address) as shown:
        publisher.await_topic("scheduler", 30)

        def bytes_of_a_second() -> float:
            before, began = len(shown.written), time.monotonic()
            for news in list(cluster.idle())[-2 if next(seconds) else 0 :]:
                publisher.say(news.topic, *[item for batch in news.batches for item in batch])
            shown.wait_for("idle: nothing is open")
            time.sleep(1)
            return (len(shown.written) - before) / (time.monotonic() - began)

        wait_until(lambda: 0 < bytes_of_a_second() <= 200, "the whole screen has been shown")
        per_second = [bytes_of_a_second() for _ in range(4)]
        assert all(0 < each <= 200 for each in per_second), per_second
    publisher.close()


@pytest.mark.more
def test_without_color_there_are_no_codes_of_colors(stream: Stream) -> None:
    with terminal(*TOP, stream.address, env={"NO_COLOR": "1"}) as shown:
        shown.wait_for(TOTAL)
        shown.press("4j")
        shown.wait_for("[4 failures]")
        assert re.findall(rb"\x1b\[[0-9;]*(?:3[0-7]|4[0-7]|[34]8|9[0-7])[0-9;]*m", shown.written) == []
        assert b"\x1b[1m" in shown.written or b"\x1b[0;1m" in shown.written


@pytest.mark.more
def test_without_utf8_everything_is_ascii(stream: Stream) -> None:
    with terminal(*TOP, stream.address, width=200, height=50, env={"PYTHONIOENCODING": "ascii"}) as shown:
        shown.wait_for("tasks/s, last 60 s")
        shown.wait_for(TOTAL)
        assert shown.written.isascii()


@pytest.mark.more
@pytest.mark.parametrize("kind", ["xterm", "screen", "linux", "tmux-256color"])
def test_usual_terminals_show_it(stream: Stream, kind: str) -> None:
    with terminal(*TOP, stream.address, env={"TERM": kind}) as shown:
        shown.wait_for(TOTAL)
        shown.press("q")
        assert shown.end() == 0
        assert shown.settings == shown.settings_before


@pytest.mark.more
def test_a_dumb_terminal_is_refused_politely(stream: Stream) -> None:
    with terminal(*TOP, stream.address, env={"TERM": "dumb"}) as shown:
        assert shown.end() == 1
        shown.wait_for("print one page")
        assert b"\x1b" not in shown.written


@pytest.mark.more
def test_a_wrong_address_gives_advice_in_time_and_the_right_one_later(address: str) -> None:
    def wait() -> float:
        with terminal(*TOP, address, "-t", "2") as shown:
            shown.wait_for("Waiting for the first message")
            began = time.monotonic()
            shown.wait_for("Is scaler_scheduler running?")
            seconds = time.monotonic() - began
            shown.wait_for("There is no socket")
            with publishing(address):
                shown.wait_for(TOTAL)
            shown.wait_for("NO NEWS for")
            with publishing(address):
                shown.wait_for("Scheduler restarted")
                shown.wait_for("16 of 16 workers back")
            return seconds

    assert at_best(wait, 2.5) < 2.5


def fail_sometimes(number: int) -> int:
    if number % 10 == 7:
        raise ValueError("bad strike")
    return number


@pytest.mark.more
def test_a_real_cluster_is_counted_exactly_and_a_restart_is_seen(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/scheduler"
    with contextlib.ExitStack() as stack:
        _, first = stack.enter_context(scheduler(address))
        shown = stack.enter_context(terminal(*TOP, address))
        shown.wait_for("no workers: start scaler_cluster")
        stack.enter_context(command("cluster", address, "-n", "2"))
        shown.wait_for("Total 2 worker(s), 0 busy | idle")
        with Client(address) as client:
            ended = client.map(fail_sometimes, [(number,) for number in range(200)], return_exceptions=True)
            assert sum(isinstance(each, ValueError) for each in ended) == 20
            shown.wait_for("success       180")
            shown.wait_for("failed         20")
            shown.wait_for("client_manager 1: ")
            shown.press("2")
            shown.wait_for("fail_sometimes")
            shown.press("4")
            shown.wait_for("!ValueError: bad strike")
            shown.press(ENTER)
            shown.wait_for('raise ValueError("bad strike")')
            shown.wait_for("count     20")
            shown.press("6")
            shown.wait_for("came: client")
            reference = client.send_object(b"3" * (3 << 20), name="three")
            unread = client.submit(bytes, 5 << 20)
            wait([unread, client.submit(len, reference)])
            shown.press("8")
            wait_until(
                lambda: re.search(r"result of bytes +5\.0m agent .*\n.*value three +3\.0m", shown.text), "objects"
            )
            assert unread.result() == bytes(5 << 20)
            wait_until(lambda: "result of bytes" not in shown.text, "the result was read")
            shown.press("1")
        first.kill_all()
        shown.wait_for("NO NEWS for")
        stack.enter_context(scheduler(address))
        shown.wait_for("Scheduler restarted")
        shown.wait_for("2 of 2 workers back")
        shown.press("q")
        assert shown.end() == 0
        shown.check_left_as_before()


def hold(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - it travels to a worker
        file.write(f"{os.getpid()}\n")
    while True:
        time.sleep(0.1)


@pytest.mark.more
def test_a_stopped_process_and_a_task_that_no_worker_can_take_are_named(tmp_path: Path) -> None:
    address, file = f"ipc://{tmp_path}/scheduler", tmp_path / "pid"
    with contextlib.ExitStack() as stack:
        stack.enter_context(scheduler(address))
        stack.enter_context(command("cluster", address, "-n", "2"))
        shown = stack.enter_context(terminal(*TOP, address))
        shown.wait_for("Total 2 worker(s), 0 busy | idle")
        client = stack.enter_context(Client(address))
        client.options(capabilities={"tpu": 1}).submit(abs, -1)
        shown.wait_for("1 needs tpu=1: no worker has it")
        client.submit(hold, str(file))
        wait_until(lambda: file.exists() and file.read_text().endswith("\n"), "the task runs")
        pid = int(file.read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            shown.wait_for("look stuck: 1 [*]")
            shown.press("*" + ENTER)
            shown.wait_for("* stuck? its process has been stopped")
            shown.press("2")
            shown.wait_for("tpu=1: no worker")
        finally:
            os.kill(pid, signal.SIGCONT)
        shown.press("q")
        assert shown.end() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.usefixtures("stream")
def test_a_page_for_which_the_disk_has_no_room_is_an_error_in_words(address: str) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - as a shell opens it
        done = subprocess.run(
            [sys.executable, "-m", "scaler.cli.top", address, "--once"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "scaler_top: the output cannot be written: No space left on device\n")
