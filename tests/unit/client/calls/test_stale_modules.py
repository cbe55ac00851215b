"""Stale modules: a module that was edited and reloaded is sent from then on, which is logged once."""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, SerializeObjectError
from scaler.pickling.serialization import SerializerWithModules
from scaler.pickling.shipped_modules import Shipment
from tests.support.fake_scheduler import FakeScheduler

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module; each has a different modification time."""
    monkeypatch.syspath_prepend(tmp_path)
    seconds = iter(range(1_700_000_000, 1_800_000_000, 10))
    written = set()

    def write_one(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        os.utime(path, (now := next(seconds), now))
        written.add(name)
        return path

    yield write_one
    for name in written & sys.modules.keys():
        del sys.modules[name]


@pytest.fixture
def client(scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture) -> Iterator[Client]:
    with caplog.at_level(logging.WARNING, "scaler.client"), Client(scheduler.address) as client:
        yield client


def sent_with(client: Client, function: Any) -> dict[str, str]:
    """Return the modules that are sent with a function, and their source."""
    own = bytes(client._core.functions.get(function).instruction.frames[0])
    if not own:
        return {}
    with_modules = pickle.loads(own)
    assert type(with_modules) is SerializerWithModules
    if not with_modules.modules:
        return {}
    shipment = pickle.loads(zlib.decompress(with_modules.modules))
    assert type(shipment) is Shipment
    return {name: source.text.decode() for name, source in shipment.sources.items()}


def test_an_edited_module_is_sent_and_that_is_logged_once(
    client: Client, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("edited_for_a_test", "def g():\n    return 1\n")
    edited = importlib.import_module("edited_for_a_test")
    client.submit(edited.g)
    importlib.reload(edited)  # as it was
    client.submit(edited.g)
    client.submit(lambda: 1)
    client.submit(lambda: 2)
    assert (caplog.messages, sent_with(client, edited.g)) == ([], {})
    for text in ("def g():\n    return 2\n", "def g():\n    return 3\n"):
        write("edited_for_a_test", text)
        importlib.reload(edited)
        assert sent_with(client, edited.g) == {"edited_for_a_test": text}
        assert sent_with(client, lambda: 3) == {"edited_for_a_test": text}
        (said,) = caplog.messages
        assert said.startswith("the module edited_for_a_test was edited and reloaded here: from now on it travels")
        assert "Client(modules=[edited_for_a_test])" in said


@pytest.mark.parametrize("sends", [False, True], ids=["they have it", "it is sent along"])
def test_a_function_patched_in_place_is_sent_with_its_new_code_and_helpers(
    client: Client, write: Write, sends: bool
) -> None:
    """As with `%autoreload` of IPython, which changes functions in place in the same module object."""
    before = "def _h(x): return x\ndef price(x): return _h(x)\n"
    write("patched_for_a_test", before)
    patched = importlib.import_module("patched_for_a_test")
    if sends:
        client.upload(patched)
    price, anywhere = patched.price, lambda: patched.price(1)
    ready = client._core.functions.get(price)
    assert client._core.functions.get(price) is ready
    assert (ready.least, ready.most) == (1, 1)

    write("patched_for_a_test", after := before.replace("_h(x): return x", "_h(x): return x + 1"))
    expected = {"patched_for_a_test": before} if sends else {}
    client._core.functions.look()
    assert (sent_with(client, price), sent_with(client, anywhere)) == (expected, expected)  # not loaded anew: as here
    patched._h.__code__ = (lambda x: x + 1).__code__
    client.map(price, [])
    expected = {"patched_for_a_test": after}
    assert (sent_with(client, price), sent_with(client, anywhere)) == (expected, expected)
    assert sent_with(client, partial(price, 1)) == expected

    write("patched_for_a_test", last := after.replace("price(x)", "price(x, y)"))
    price.__code__ = (lambda x, y: x).__code__
    ready = client._core.functions.get(price)  # at once: its parameters are others
    assert (ready.least, ready.most) == (2, 2)
    assert sent_with(client, price) == {"patched_for_a_test": last}


def test_an_edited_module_too_large_to_send_is_an_error_until_workers_restart(
    client: Client, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("large_for_a_test", "def g():\n    return 1\n")
    large = importlib.import_module("large_for_a_test")
    client.submit(large.g)
    monkeypatch.setattr("scaler.pickling.shipped_modules.SOURCE_BYTES_MOST", 10)
    write("large_for_a_test", "def g():\n    return 2\n")
    importlib.reload(large)
    for _ in range(2):
        with pytest.raises(SerializeObjectError, match=r"^g needs the module large_for_a_test, .*but at most 10 can"):
            client.submit(large.g)
    client.submit(abs, 1)  # it does not need that module
    client.restart_workers()
    client.submit(large.g)
    importlib.reload(large)
    client.submit(large.g)


def test_edited_modules_that_a_function_does_not_need_are_not_sent(
    client: Client, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("needed_for_a_test", "def g():\n    return 1\n")
    write("unneeded_for_a_test", "def g():\n    return 1\n")
    needed, unneeded = map(importlib.import_module, ("needed_for_a_test", "unneeded_for_a_test"))
    client.submit(needed.g)
    write("unneeded_for_a_test", "def g():\n    return 2\n")
    importlib.reload(unneeded)
    assert (caplog.messages, sent_with(client, needed.g)) == ([], {})


def test_a_module_loaded_after_an_edit_is_sent_if_tasks_may_have_the_old_one(client: Client, write: Write) -> None:
    write("outer_for_a_test", "def g():\n    import lazy_for_a_test\n    return lazy_for_a_test.X\n")
    write("lazy_for_a_test", "X = 1\n")
    outer = importlib.import_module("outer_for_a_test")
    assert sent_with(client, outer.g) == {}
    path = write("lazy_for_a_test", "X = 22\n")
    os.utime(path)  # now, and so after the first task
    importlib.import_module("lazy_for_a_test")
    client._core.functions.look()
    assert sent_with(client, outer.g) == {"lazy_for_a_test": "X = 22\n"}


def test_a_function_prepared_during_an_edit_by_another_thread_is_prepared_again(
    client: Client, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("raced_for_a_test", "def g():\n    return 1\n")
    raced = importlib.import_module("raced_for_a_test")
    client.submit(abs, 1)
    functions = client._core.functions
    note = functions._stale_modules.note

    def edit_meanwhile(*arguments: Any) -> None:
        note(*arguments)
        monkeypatch.undo()
        write("raced_for_a_test", "def g():\n    return 22\n")
        raced.g.__code__ = (lambda: 22).__code__
        with ThreadPoolExecutor() as other:
            other.submit(functions.look).result(30)

    monkeypatch.setattr(functions._stale_modules, "note", edit_meanwhile)
    assert sent_with(client, raced.g) == {}
    assert sent_with(client, raced.g) == {"raced_for_a_test": "def g():\n    return 22\n"}


@pytest.mark.parametrize("before", ["find_new", "accept"])
def test_a_module_that_another_thread_notes_meanwhile_does_not_count_as_edited(
    client: Client, write: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, before: str
) -> None:
    write("noted_for_a_test", "def g():\n    return 1\n")
    noted = importlib.import_module("noted_for_a_test")
    functions = client._core.functions
    versions = functions._stale_modules._versions
    step = getattr(versions, before)

    def look_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(versions, before, step)
        with ThreadPoolExecutor() as other:
            other.submit(functions.look).result(30)
        return step(*arguments)

    client.submit(abs, 1)
    monkeypatch.setattr(versions, before, look_meanwhile)
    client.submit(noted.g)
    assert getattr(versions, before) == step
    functions.look()
    assert (caplog.messages, sent_with(client, noted.g)) == ([], {})


def test_needed_modules_may_be_forgotten_while_another_thread_reads_them(client: Client, write: Write) -> None:
    write("asked_for_a_test", "def g():\n    return 1\n")
    asked = importlib.import_module("asked_for_a_test")
    stale = client._core.functions._stale_modules

    class Forgotten(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            stale._needed = {}

    client.submit(abs, 1)
    stale._needed = Forgotten()
    client.submit(asked.g)
    assert type(stale._needed) is dict
