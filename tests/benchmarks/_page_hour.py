"""The page under made-up traffic for long: what its server and a browser take, once a minute.

    python -m tests.benchmarks._page_hour --minutes 60

1,000 workers and 20,000 tasks a second, one page that stays and one that goes from view to view. Needs Chromium and the
packages of `make test-more`, so `make bench` leaves it out. Each line: minutes, and of the server the memory and share
of a core; of the second page the bytes of scripts, the number of elements, and how many frames and bytes a second it
got. It ends with an error if a budget is passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil

from tests.support.browser import WIDE, Watched, chromium
from tests.support.processes import REPOSITORY, command, free_address

VIEWS = ("live", "tasks", "stream", "memory", "processors", "failures", "graphs")
BUDGET_SERVER_BYTES = 200 << 20
BUDGET_HEAP_BYTES = 80 << 20


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
            command("ui", address, "--port", "0", env={"XDG_STATE_HOME": home}) as server,
            chromium() as browser,
        ):
            url = server.wait_for("?token=").strip()
            pages = [Watched(browser.new_context(viewport=WIDE)) for _ in range(2)]
            for page in pages:
                page.page.goto(url)
                page.wait_for("tasks/s", "#strip")
            look(psutil.Process(server.pid), pages[0], given.minutes)
    finally:
        source.kill()
        source.wait()


def look(server: psutil.Process, page: Watched, minutes: int) -> None:
    received: list[int] = []

    def listen(socket: Any) -> None:
        socket.on("framereceived", lambda payload: received.append(len(payload)))

    page.page.on("websocket", listen)
    page.page.reload()
    page.wait_for("tasks/s", "#strip")
    for minute in range(1, minutes + 1):
        received.clear()
        seconds, busy = time.monotonic(), sum(server.cpu_times()[:2])
        for turn in range(12):
            page.go(f"#/{VIEWS[(minute * 12 + turn) % len(VIEWS)]}")
            page.page.wait_for_timeout(5000)
        seconds = time.monotonic() - seconds
        _, heap, _ = page.held()
        line = {
            "minutes": minute,
            "server_mib": round(server.memory_info().rss / 2**20, 1),
            "server_core_share": round((sum(server.cpu_times()[:2]) - busy) / seconds, 3),
            "page_script_mib": round(heap / 2**20, 2),
            "page_elements": page.page.evaluate("document.getElementsByTagName('*').length"),
            "frames_a_second": round(len(received) / seconds, 2),
            "kib_a_second": round(sum(received) / seconds / 1024, 1),
        }
        print(json.dumps(line), flush=True)
        assert line["server_mib"] * 2**20 < BUDGET_SERVER_BYTES, "the server takes too much memory"
        assert heap < BUDGET_HEAP_BYTES, "the page takes too much memory"


if __name__ == "__main__":
    main()
