"""A real browser without a window, and the folder for its screenshots."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes import PATIENCE_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PICTURES = Path(__file__).resolve().parents[2] / "build" / "pictures"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",  # CI is root in a container of its own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)), None)
    assert program, "there is no Chromium: install it with the packages of your system"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of the browser that records all errors and requests."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_SECONDS * 1000)
        self._tools = context.new_cdp_session(self.page)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def go(self, place: str) -> None:
        self.page.evaluate("place => { location.hash = place }", place)
        self.page.wait_for_function("() => document.querySelector('main h1') !== null")

    def text(self, selector: str = "body") -> str:
        return str(self.page.inner_text(selector))

    def wait_for(self, text: str, selector: str = "body", seconds: float = PATIENCE_SECONDS) -> None:
        self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector)?.innerText.includes(text)",
            arg=[selector, text],
            timeout=seconds * 1000,
        )

    def held(self) -> tuple[int, int, int]:
        """Return the documents, bytes of scripts, and listeners after a garbage collection."""
        for _ in range(2):
            self._tools.send("HeapProfiler.collectGarbage")
        counts = self._tools.send("Memory.getDOMCounters")
        used = self._tools.send("Runtime.getHeapUsage")["usedSize"]
        return int(counts["documents"]), int(used), int(counts["jsEventListeners"])

    def chart_table(self) -> dict[str, list[str]]:
        """Return the rows below the first chart of the page, by time, the newest first."""
        self.page.evaluate("document.querySelector('main .chart ~ details').open = true")
        rows = self.page.evaluate(
            "[...document.querySelectorAll('main .chart ~ details tbody tr')]"
            ".map(row => [...row.children].map(cell => cell.innerText))"
        )
        return {time: cells for time, *cells in rows}

    def barriers(self) -> list[str]:
        """Return the accessibility problems that axe finds on the page."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]

    def picture(self, name: str) -> Path:
        PICTURES.mkdir(parents=True, exist_ok=True)
        file = PICTURES / f"{name}.png"
        self.page.screenshot(path=file)
        return file
