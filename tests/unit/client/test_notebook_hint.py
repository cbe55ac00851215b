"""Kept: a client that the outputs of a notebook still hold is said, and no other."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.client import notebook_hint


class Owner:
    """Has a cluster."""


class Unwilling:
    """Cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, Any]]:
    values: dict[int, Any] = {1: Unwilling(), 2: "text"}
    shell = SimpleNamespace(user_ns={"Out": values})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    yield values
    values.clear()


def noted() -> tuple[Owner, weakref.finalize[..., Any]]:
    owner = Owner()
    finalizer = weakref.finalize(owner, str)
    notebook_hint.note(owner, finalizer)
    return owner, finalizer


def test_only_a_client_that_an_output_keeps_is_said(outputs: dict[int, Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "scaler.client"):
        first, finalizer = noted()
        second, _ = noted()
        assert caplog.messages == []
        outputs[7] = first
        noted()
        (said,) = caplog.messages
        assert "the one of Out[7] is still there" in said
        assert said.endswith("end it with Out[7].disconnect() if it is not needed")
        caplog.clear()
        finalizer()  # it was disconnected
        noted()
        assert caplog.messages == []
        outputs[8] = second
        noted()
        assert "the one of Out[8]" in caplog.text


def test_outside_of_notebooks_there_is_nothing_to_say(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeps = noted()
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    noted()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # type: ignore[arg-type]
    noted()
    assert caplog.messages == []
    assert keeps[1].alive


def test_a_client_is_not_kept_alive() -> None:
    owner, finalizer = noted()
    seen = weakref.ref(owner)
    del owner
    assert seen() is None
    assert not finalizer.alive
