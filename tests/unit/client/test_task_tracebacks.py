"""Tracebacks of tasks: what pytest shows of them, and what they say of lists in graphs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scaler import AsyncClient, Client

TESTS = """
import scaler

def fail(number):
    raise ValueError(f"no {number}")

def test_submit():
    with scaler.Client(processes=False) as client:
        client.submit(fail, 1).result()

def test_map():
    with scaler.Client(processes=False) as client:
        client.map(fail, [(2,)])

def test_get():
    with scaler.Client(processes=False) as client:
        client.get({"a": (fail, 3)}, ["a"])
"""


@pytest.mark.thorough
def test_pytest_leaves_our_frames_out_of_the_error_of_a_task(tmp_path: Path) -> None:
    file = tmp_path / "test_of_a_user.py"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--tb=short", str(file)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False).stdout
    own = [line for line in shown.splitlines() if "/scaler/client/" in line]
    assert "3 failed" in shown
    assert own == []
    for line in ("client.submit(fail, 1).result()", "client.map(fail, [(2,)])", 'client.get({"a": (fail, 3)}, ["a"])'):
        assert shown.count(line) == 1, shown


def test_the_error_of_a_graph_says_that_a_list_holds_a_key() -> None:
    lists: dict[str, Any] = {"a": 1, "b": (sum, ["a", "a"])}
    texts: dict[str, Any] = {"a": 1, "b": (sum, ["c"])}

    async def of_asyncio(address: str) -> None:
        async with AsyncClient(address) as other:
            await other.get(lists, ["b"])

    with Client(n_workers=1) as client:
        for get in (lambda: client.get(lists, ["b"]), lambda: asyncio.run(of_asyncio(client._core.link.address))):
            with pytest.raises(TypeError, match="unsupported operand") as caught:
                get()
            said = "The node 'b' has the key 'a' in a list, which is not replaced by its value: make it an argument"
            assert said in str(caught.value.__cause__)
        with pytest.raises(TypeError) as caught:
            client.get(texts, ["b"])
        assert "in a list" not in str(caught.value.__cause__)
        assert client.get({"a": 1, "b": (len, ["a", "a"])}, ["b"]) == {"b": 2}
