"""The page under made-up traffic for long: what its server and browsers take, once a minute.

    python -m tests.benchmarks._page_hour --minutes 60 > hour.md

1,000 workers and 20,000 tasks a second. One page stays, with a filter, a row that has the focus, and scrolled down. One
goes from view to view, and is loaded a hundred times at the end. A third connection asks for frames and never reads
one. Needs Chromium and the packages of `make test-more`, so `make bench` leaves it out.

On standard error there is a line for each minute: of the server the memory and share of a core; of both pages the bytes
of scripts; of the second one the number of elements, and how many frames and bytes a second it got. On standard output
there is the table of some of them, and what has become of the page that stayed and of the hundred loads. The exit code
is 1 if a budget was passed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

from tests.support.browser import WIDE, Watched, chromium
from tests.support.processes import REPOSITORY, command, free_address

VIEWS = ("live", "tasks", "stream", "memory", "processors", "failures", "graphs")
LOADS = 100
PAUSE_SECONDS = 30
BUDGETS = {
    "server_mib": 200,
    "server_core_share": 0.10,
    "page_script_mib": 80,
    "staying_script_mib": 80,
    "frames_a_second": 4,
    "kib_a_second": 64,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=20_000)
    given = parser.parse_args()
    address = free_address()
    traffic = [sys.executable, "-m", "tests.support.monitor_traffic", address]
    traffic += ["--workers", str(given.workers), "--rate", str(given.rate)]
    source = subprocess.Popen(traffic, cwd=REPOSITORY)
    try:
        with (
            tempfile.TemporaryDirectory() as home,
            command("ui", address, "--port", "0", env={"XDG_STATE_HOME": home}) as running,
            chromium() as browser,
        ):
            url = running.wait_for("?token=").strip()
            server = psutil.Process(running.pid)
            staying, going = (Watched(browser.new_context(viewport=WIDE)) for _ in range(2))
            with stopped(url):
                wrong = Hour(server, url, staying, going).run(given.minutes)
    finally:
        source.kill()
        source.wait()
    sys.exit(1 if wrong else 0)


@contextlib.contextmanager
def stopped(url: str) -> Iterator[None]:
    """A page that was opened and is not read any more."""
    parts = urlsplit(url)
    token = parse_qs(parts.query)["token"][0]
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((parts.hostname, parts.port))
        key = base64.b64encode(os.urandom(16)).decode()
        stuck.sendall(
            f"GET /socket HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        assert stuck.recv(64).startswith(b"HTTP/1.1 101")
        wish = json.dumps({"wish": 1, "page": "live", "args": {}}).encode()
        stuck.sendall(bytes((0x81, 0x80 | len(wish))) + bytes(4) + wish)
        yield


class Hour:
    """What is looked at, and what came of it."""

    def __init__(self, server: psutil.Process, url: str, staying: Watched, going: Watched) -> None:
        self._server = server
        self._url = url
        self._staying = staying
        self._going = going
        self._received: list[int] = []
        self._lines: list[dict[str, Any]] = []
        self._wrong: list[str] = []

    def run(self, minutes: int) -> list[str]:
        """Look for so many minutes. Return what was not as it should be."""
        self._going.page.on("websocket", self._listen)
        for page in (self._staying, self._going):
            page.page.goto(self._url)
            page.wait_for("tasks/s", "#strip")
        place = self._settle()
        for minute in range(1, minutes + 1):
            self._minute(minute)
        now = self._where()
        self._check(now == place, f"filter, focus and scrolling of the page that stayed were {place} and are {now}")
        self._print_table()
        self._pause()
        self._load_often()
        self._check(not self._staying.complaints + self._going.complaints, "no console has an error")
        return self._wrong

    def _listen(self, connection: Any) -> None:
        connection.on("framereceived", lambda payload: self._received.append(len(payload)))

    def _settle(self) -> list[Any]:
        """Filter, scroll and choose a row in the page that stays. Return where it is then."""
        page = self._staying.page
        page.locator("main input[type=search]").fill("rome0")
        self._staying.wait_for("of 144", "main")
        row = page.locator("main tbody tr", has_text="rome02:7").first
        row.focus()
        row.scroll_into_view_if_needed()
        return self._where()

    def _where(self) -> list[Any]:
        found = self._staying.page.evaluate(
            "[document.querySelector('main input[type=search]').value, "
            "document.activeElement.innerText.split(/\\s/)[0], Math.round(scrollY)]"
        )
        return list(found)

    def _minute(self, minute: int) -> None:
        self._received.clear()
        began, busy = time.monotonic(), sum(self._server.cpu_times()[:2])
        for turn in range(12):
            self._going.go(f"#/{VIEWS[(minute * 12 + turn) % len(VIEWS)]}")
            self._going.page.wait_for_timeout(5000)
            self._staying.page.evaluate("0")  # hear what it says
        seconds = time.monotonic() - began
        line = {
            "minutes": minute,
            "server_mib": round(self._server.memory_info().rss / 2**20, 1),
            "server_core_share": round((sum(self._server.cpu_times()[:2]) - busy) / seconds, 3),
            "page_script_mib": round(self._going.held()[1] / 2**20, 2),
            "staying_script_mib": round(self._staying.held()[1] / 2**20, 2),
            "page_elements": self._going.page.evaluate("document.getElementsByTagName('*').length"),
            "frames_a_second": round(len(self._received) / seconds, 2),
            "kib_a_second": round(sum(self._received) / seconds / 1024, 1),
        }
        self._lines.append(line)
        sys.stderr.write(f"{json.dumps(line)}\n")
        for name, most in BUDGETS.items():
            self._check(line[name] <= most, f"minute {minute}: {name} is {line[name]}, and {most} is the budget", False)

    def _print_table(self) -> None:
        names = list(self._lines[0])
        sys.stdout.write(f"| {' | '.join(names)} |\n|{'--:|' * len(names)}\n")
        each = max(1, len(self._lines) // 12)
        for line in self._lines[each - 1 :: each]:
            sys.stdout.write(f"| {' | '.join(str(line[name]) for name in names)} |\n")
        sys.stdout.write("\n")

    def _pause(self) -> None:
        """A page that was paused shows the seconds of the pause when it goes on."""
        page = self._going
        page.go("#/live")
        page.wait_for("1,000", "main")
        page.page.evaluate("document.activeElement.blur()")
        page.page.keyboard.press(" ")
        page.wait_for("paused", "#strip")
        before = page.text("#strip .figure")
        page.page.wait_for_timeout(PAUSE_SECONDS * 1000)
        stood = page.text("#strip .figure") == before
        page.page.keyboard.press(" ")
        page.wait_for("live", "#strip")
        self._check(stood, f"a page that is paused for {PAUSE_SECONDS} s stands still, and goes on")

    def _load_often(self) -> None:
        page = self._going

        def load(times: int) -> tuple[float, float]:
            for _ in range(times):
                page.page.goto(self._url)
                page.wait_for("1,000", "main")
            return page.held()[1] / 2**20, self._server.memory_info().rss / 2**20

        heap, rss = load(10)
        heap_after, rss_after = load(LOADS - 10)
        said = f"scripts {heap:.2f} and then {heap_after:.2f} MiB, server {rss:.1f} and then {rss_after:.1f} MiB"
        is_small = heap_after - heap < 2 and rss_after - rss < 16
        self._check(is_small, f"nothing grows between the tenth and the {LOADS}th load: {said}")

    def _check(self, holds: bool, text: str, is_said: bool = True) -> None:
        if not holds:
            self._wrong.append(text)
        if not holds or is_said:
            sys.stdout.write(f"- {'' if holds else 'NOT TRUE: '}{text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
