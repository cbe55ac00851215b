"""Checks that a session of tests leaves nothing in the folder in which it runs, and no sockets of its schedulers."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.monitor import discovery
from scaler.transport import private
from tests.support.processes import REPOSITORY

MADE_BY_TOOLS = {"build", "dist", "htmlcov"}


class Leftovers:
    """The files at the start, and the new files at the end."""

    def __init__(self) -> None:
        self._before = _names()
        self._sockets = _sockets()
        self._new: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for socket in _sockets() - self._sockets:
            if not private._listens(socket):  # of a scheduler that a test has killed
                socket.unlink(missing_ok=True)
        self._new = sorted(_names() - self._before)
        if self._new and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._new:
            terminalreporter.write_line(f"ERROR a test has written into {REPOSITORY}: {', '.join(self._new)}", red=True)


def _names() -> set[str]:
    """Return the names in the folder in which the programs of tests run, except those that tools make."""
    return {path.name for path in REPOSITORY.iterdir() if not path.name.startswith(".")} - MADE_BY_TOOLS


def _sockets() -> set[Path]:
    return {path for path in discovery.FOLDER.glob("*_monitor") if path.is_socket()}
