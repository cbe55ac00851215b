"""What viewers cost a loaded scheduler: `scaler_top` in a terminal of 200x50, and three browsers at `scaler_ui`.

A real scheduler with 1,000 workers behind 50 agents and as many tasks as it can do, 10,000 of them open at any time;
the agents answer at once. In every second block of time the viewers are there. Needs Chromium and the packages of
`make test-more`, so `make bench` leaves it out.

    python -m tests.benchmarks._viewers                     some six minutes
    python -m tests.benchmarks._viewers --blocks 5 --seconds 5

Viewers run beside the cluster here, and on other machines elsewhere. So they have the lowest priority (nice 19): what
they compute themselves is said apart, and is not what they cost the cluster.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil

from tests.benchmarks._alternated import Block, effect
from tests.benchmarks.monitor import Bench, parser_of, running
from tests.support.browser import WIDE, Watched, chromium
from tests.support.processes import REPOSITORY, command

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = ("live", "stream", "tasks")
ROWS, COLUMNS = 50, 200
NICE = 19


class Seen:
    """What the viewers got."""

    def __init__(self) -> None:
        self.bytes_of_top = 0
        self.frames = dict.fromkeys(PAGES, 0)
        self.viewer_seconds = 0.0
        self.seconds = 0.0
        self.complaints: list[str] = []

    def read(self, master: int) -> None:
        with contextlib.suppress(OSError):  # its other end was closed
            while said := os.read(master, 65536):
                self.bytes_of_top += len(said)

    def count(self, page: str) -> None:
        self.frames[page] += 1


@contextlib.contextmanager
def top(address: str, seen: Seen) -> Iterator[None]:
    """`scaler_top` in a terminal, as long as the block lasts."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = (sys.executable, "-m", "scaler.cli.top", address)
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(program, stdin=slave, stdout=slave, stderr=slave, cwd=REPOSITORY, env=env) as process:
        os.close(slave)
        reader = threading.Thread(target=seen.read, args=(master,))
        reader.start()
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
            reader.join()
            os.close(master)


@contextlib.contextmanager
def viewers(address: str, browser: Browser, home: str, seen: Seen) -> Iterator[None]:
    """All viewers, each with something to show."""
    with top(address, seen), command("ui", address, "--port", "0", env={"XDG_STATE_HOME": home}) as running:
        url = running.wait_for("?token=").strip()
        contexts = [browser.new_context(viewport=WIDE) for _ in PAGES]
        try:
            for context, name in zip(contexts, PAGES, strict=True):
                watched = Watched(context)
                watched.complaints = seen.complaints
                watched.page.on(
                    "websocket", lambda socket, name=name: socket.on("framereceived", lambda _: seen.count(name))
                )
                watched.page.goto(url)
                watched.go(f"#/{name}")
                watched.wait_for("live", "#strip")
            yield
            for context in contexts:
                context.pages[0].evaluate("0")  # hear what was counted
        finally:
            for context in contexts:
                context.close()


def lower(known: set[int]) -> list[psutil.Process]:
    """Give all children but the known ones the lowest priority, and return them."""
    found = [child for child in psutil.Process().children(recursive=True) if child.pid not in known]
    for child in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.nice(NICE)
    return found


def processor_seconds(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:2])
    return total


def watched_block(bench: Bench, browser: Browser, known: set[int], seconds: float, seen: Seen) -> Block:
    with tempfile.TemporaryDirectory() as home, viewers(bench.monitor_address, browser, home, seen):
        processes = lower(known)
        before, began = processor_seconds(processes), time.monotonic()
        block = bench.measure(seconds)
        seen.viewer_seconds += processor_seconds(processes) - before
        seen.seconds += time.monotonic() - began
    return block


def main() -> None:
    options = parser_of(__doc__, workers=20, rate=0, blocks=21, seconds=10.0).parse_args()
    seen, blocks = Seen(), []
    with running(options, 5.0) as bench:
        known = {child.pid for child in psutil.Process().children(recursive=True)}
        with chromium() as browser:
            for number in range(options.blocks):
                if number % 2:
                    blocks.append(watched_block(bench, browser, known, options.seconds, seen))
                else:
                    blocks.append(bench.measure(options.seconds))
    show(blocks, seen)


def show(blocks: list[Block], seen: Seen) -> None:
    print("| | tasks per second: median | least | most | us of processor time of the scheduler per task |")
    print("|---|--:|--:|--:|--:|")
    for name, each in (("nobody watches", blocks[::2]), ("scaler_top and three browsers", blocks[1::2])):
        rates = [block.rate for block in each]
        us = statistics.median(block.us for block in each)
        print(f"| {name} | {statistics.median(rates):,.0f} | {min(rates):,.0f} | {max(rates):,.0f} | {us:.2f} |")
    print()
    print(
        f"time of a task, from one to the next, while they watch: {effect([Block(1e6 / each.rate) for each in blocks])}"
    )
    print(f"processor time of the scheduler for a task: {effect(blocks)}")
    print(f"viewers: {seen.viewer_seconds / seen.seconds:.2f} of a core")
    frames = ", ".join(f"{name} {count / seen.seconds:.1f}" for name, count in seen.frames.items())
    print(f"frames per second: {frames}; to the terminal {seen.bytes_of_top / seen.seconds / 1000:.1f} kB per second")
    print(f"complaints of the browsers: {seen.complaints or 'none'}")


if __name__ == "__main__":
    main()
