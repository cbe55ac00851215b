"""What `scaler_top` shows of jobs, in a real terminal; the page is in `test_ui_in_browser`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from scaler import Client
from tests.support.processes import command, free_address, scheduler, wait_until
from tests.support.terminal import ENTER, ESCAPE, terminal

pytestmark = pytest.mark.thorough


def price(number: int, folder: Path) -> int:
    if number % 10 == 3:
        raise ValueError(f"bad strike {number}\nand more of it")
    if number >= 50:
        wait_until((folder / "go").exists, "it may go on")
    return number


def test_a_job_is_shown_with_its_rows_its_failures_and_its_end(tmp_path: Path) -> None:
    with (
        scheduler(free_address(), "--keep", str(tmp_path / "jobs")) as (address, _),
        command("cluster", address, "-n", "2"),
        Client(address, name="nightly") as client,
        terminal(sys.executable, "-m", "scaler.cli.top", address) as top,
    ):
        job = client.start(price, [(number, tmp_path) for number in range(80)], name="prices-23")
        top.press("7")
        top.wait_for("prices-23")
        wait_until(lambda: re.search(r"prices-23 +open +45 +80 +5 ", top.text), "45 done")
        top.press(ENTER)
        top.wait_for("job prices-23")
        top.wait_for("row 3: ValueError: bad strike 3")
        assert not any("and more of it" in line for line in top.lines)
        top.press(ESCAPE)
        (tmp_path / "go").touch()
        assert job.wait(60).done == 72
        wait_until(lambda: re.search(r"prices-23 +done +72 +80 +8 ", top.text), "its end")
        job.forget()
        top.wait_for("No jobs: client.map")
