"""Modules of the user's program that the workers do not have, on a real cluster that runs elsewhere."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import AsyncClient, Client, DeserializeObjectError
from scaler.config import ConfigError

SECONDS = 60

TOOL = """
class Price:
    def __init__(self, value):
        self.value = value

def double(price):
    from desk import limits
    return Price(min(2 * price.value, limits.MOST))

def nested(n):
    from scaler import Client
    with Client() as client:
        return client.submit(double, Price(n)).result().value

def fail():
    raise ValueError("no price")  # the line of the module
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package that only this process can import."""
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "tool.py").write_text(TOOL)
    (folder / "limits.py").write_text("MOST = 100\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("desk.tool")
    for name in [name for name in sys.modules if name.partition(".")[0] == "desk"]:
        del sys.modules[name]


def test_functions_and_classes_of_a_module_travel_with_it(address: str, desk: Any) -> None:
    with Client(address) as client:
        with pytest.raises(DeserializeObjectError, match=r"needs the module 'desk', .*client\.upload\(desk\)"):
            client.submit(desk.double, desk.Price(4)).result(SECONDS)
        client.upload(desk)
        result = client.submit(desk.double, desk.Price(4)).result(SECONDS)
        assert type(result) is desk.Price
        assert result.value == 8
        values = client.map(lambda n: desk.double(desk.Price(n)).value, [(n,) for n in (1, 70)])
        assert values == [2, 100]
        assert client.submit(desk.nested, 3).result(SECONDS) == 6
        with pytest.raises(ValueError, match="no price") as caught:
            client.submit(desk.fail).result(SECONDS)
        assert "# the line of the module" in str(caught.value.__cause__)


def test_an_edited_module_is_sent_again_and_running_tasks_keep_theirs(address: str, desk: Any) -> None:
    path = Path(desk.__file__).with_name("limits.py")
    with Client(address, modules=[desk]) as client, Client(address) as other:
        assert client.submit(desk.double, desk.Price(500)).result(SECONDS).value == 100
        path.write_text("MOST = 300\n")
        os.utime(path, ns=(1, 1))  # it has another time, however coarse the clock of the file system is
        importlib.reload(desk)
        tasks = [(desk.Price(500),)] * 20
        assert {price.value for price in client.map(desk.double, tasks)} == {300}
        with pytest.raises(DeserializeObjectError, match=r"needs the module 'desk', .*client\.upload\(desk\)"):
            other.submit(desk.double, desk.Price(4)).result(SECONDS)
        assert {price.value for price in client.map(desk.double, tasks)} == {300}


def test_a_path_will_do_and_asyncio_has_the_same(address: str, desk: Any) -> None:
    folder = Path(desk.__file__).parent

    async def main() -> None:
        async with AsyncClient(address, modules=[folder]) as client:
            assert (await client.submit(desk.double, desk.Price(4))).value == 8
        async with AsyncClient(address) as client:
            await client.upload(desk)
            assert (await client.submit(desk.double, desk.Price(5))).value == 10

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_what_cannot_travel_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="cannot be sent to the workers"):
        Client(modules=[os])


def test_threads_of_the_same_process_have_it_already(desk: Any) -> None:
    with Client(processes=False, modules=[desk]) as client:
        assert client.submit(desk.double, desk.Price(4)).result(SECONDS).value == 8
        assert sys.modules["desk.tool"] is desk
