"""Tracebacks of tasks: what pytest shows of them, and their hint about lists in graphs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
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
    lists: dict[str, Any] = {"a": 1, "b": (sum, ["a", "a"]), "c": (abs, "b"), "d": (len, ["a"]), "e": (abs, ["x"])}
    hint = "Argument 1 of the node 'b' is a list that contains 'a', the key of a node. A list is passed as it is: make"

    async def of_asyncio(address: str) -> None:
        async with AsyncClient(address) as other:
            await other.get(lists, ["b"])

    def all_of(error: BaseException | None) -> str:
        assert type(error) is TypeError
        return "".join(traceback.format_exception(error))

    with Client(n_workers=1) as client:
        for get in (
            lambda: client.get(lists, ["b"]),
            lambda: client.get(lists, ["c"]),
            lambda: client.options(seed=1).get(lists, ["b"]),
            lambda: client.get(lists, ["c", "b"], block=False)["b"].result(60),
            lambda: client.get(lists, ["c"], block=False)["c"].result(60),
            lambda: asyncio.run(of_asyncio(client._core.link.address)),
        ):
            with pytest.raises(TypeError, match="unsupported operand") as caught:
                get()
            assert all_of(caught.value).count(hint) == 1
        assert client.get(lists, ["d"]) == {"d": 1}
        assert "a list that contains" not in all_of(client.get(lists, ["e", "d"], block=False)["e"].exception(60))
