"""Notebook hint: a warning about clients that only the outputs of a notebook still hold."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.client import notebook_hint


class Owner:
    """An object that stands for a client with a cluster."""


class Unwilling:
    """A value that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


class Shell:
    """The part of IPython's shell that is used here."""

    def __init__(self) -> None:
        self.outputs: dict[int, Any] = {1: Unwilling(), 2: "text"}
        self.user_ns: dict[str, Any] = {"Out": self.outputs, "x": Unwilling()}
        self.events = self
        self.after: list[Callable[[object], None]] = []

    def register(self, event: str, function: Callable[[object], None]) -> None:
        assert event == "post_run_cell"
        self.after.append(function)

    def unregister(self, event: str, function: Callable[[object], None]) -> None:
        assert event == "post_run_cell"
        self.after.remove(function)

    def end_cell(self) -> None:
        for function in list(self.after):
            function(None)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    made = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: made))  # type: ignore[arg-type]
    yield made
    made.outputs.clear()
    made.user_ns.clear()


def noted() -> tuple[Owner, weakref.finalize[..., Any]]:
    owner = Owner()
    finalizer = weakref.finalize(owner, str)
    notebook_hint.note(owner, finalizer)
    return owner, finalizer


def test_only_a_client_that_an_output_of_the_notebook_holds_is_warned_about(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "scaler.client"):
        first, finalizer = noted()
        second, _ = noted()
        shell.end_cell()
        assert caplog.messages == []
        shell.outputs[7] = first
        noted()
        assert caplog.messages == []  # the cell may still assign another value to the variable
        shell.end_cell()
        (said,) = caplog.messages
        assert "the one of Out[7] still runs" in said
        assert said.endswith("call Out[7].disconnect() if you do not need it")
        caplog.clear()
        shell.end_cell()
        assert caplog.messages == []
        finalizer()  # it was disconnected
        noted()
        shell.end_cell()
        assert caplog.messages == []
        shell.outputs[8] = second
        noted()
        shell.end_cell()
        assert "the one of Out[8]" in caplog.text


def test_a_client_that_a_variable_holds_is_not_warned_about(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "scaler.client"):
        owner, _ = noted()
        shell.outputs[3] = shell.user_ns["client"] = shell.user_ns["_3"] = owner
        noted()
        shell.end_cell()
        assert caplog.messages == []
        other = noted()
        shell.user_ns["client"] = other[0]  # the cell that has made the first one was run again
        shell.end_cell()
        assert "the one of Out[3]" in caplog.text
        del other


def test_a_client_that_its_own_cell_shows_is_not_warned_about(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    before = noted()
    shown, _ = noted()
    shell.outputs[4] = shown
    shell.end_cell()
    assert caplog.messages == []
    assert before[1].alive


def test_outside_notebooks_there_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeps = noted()
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    noted()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # type: ignore[arg-type]
    noted()
    assert caplog.messages == []
    assert keeps[1].alive


def test_a_client_is_not_kept_alive_by_the_notebook_hint() -> None:
    owner, finalizer = noted()
    seen = weakref.ref(owner)
    del owner
    assert seen() is None
    assert not finalizer.alive
