"""Folders and files whose names are no ASCII, or no text at all, also where the locale knows only ASCII."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import run_python

pytestmark = pytest.mark.processes

PROGRAM = """
import asyncio, locale, os
import own
from scaler import AsyncClient, Client, SchedulerClusterCombo
here = os.getcwd()
def größe(number):
    print("größe")
    return number + 1
def encodings():
    return locale.getpreferredencoding(False), open(os.devnull).encoding, os.getcwd()
def nested(client):
    return client.submit(own.double, 1).result() + Client().submit(own.double, 1).result()
async def use_async():
    async with AsyncClient(n_workers=1) as client:
        return await client.submit(größe, 0)
def use(client):
    assert client.submit(encodings).result(60) == encodings()
    assert client.submit(os.getenv, "SCALER_ADDRESS").result(60).startswith(f"ipc://{here}/")
    assert client.submit(nested, client).result(60) == 4
    assert client.map(own.double, [(1,), (2,)]) == [2, 4]
    future = client.options(name="grün").submit(größe, 1)
    assert future.result(60) == 2
    assert client.map(größe, [(1,), (2,)], job="jöb") == [2, 3]
    with client.trace(f"{here}/trace"):
        client.submit(abs, -1).result(60)
    assert os.path.getsize("trace")
    return future
with Client(n_workers=1, spill_folder=f"{here}/spill", object_memory_bytes=2_000_000, spill_bytes=10**8) as client:
    assert [line.text for line in use(client).logs().lines] == ["größe"]
    tables = [client.send_object(bytes([number]) * 1_500_000) for number in range(3)]
    assert [client.submit(max, table).result(60) for table in tables * 2] == [0, 1, 2] * 2
with SchedulerClusterCombo(1, f"ipc://{here}/socket", keep=f"{here}/jobs", logging_paths=f"{here}/log") as combo:
    with Client(combo.get_address()) as client:
        use(client)
with Client(processes=False, keep=f"{here}/jobs of threads") as client:
    assert client.submit(encodings).result(60) == encodings()
    assert client.map(own.double, [(1,)], job="jöb") == [2]
assert asyncio.run(use_async()) == 1
print("ok")
"""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder below which sockets have paths that are not too long, so that none lies anywhere else."""
    with tempfile.TemporaryDirectory(prefix="scaler-test-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "locale"),
    [
        ("größe", "POSIX"),
        pytest.param("gr\udcf6\udcdfe", "C.UTF-8", marks=pytest.mark.more),
        pytest.param("gr\udcf6\udcdfe", "POSIX", marks=pytest.mark.more),
    ],
    ids=["no ASCII", "no UTF-8", "neither"],
)
def test_a_program_may_live_where_names_are_no_ascii(short_folder: Path, name: str, locale: str) -> None:
    folder = short_folder / name
    for each in ("tmp", "spill", "state"):
        (folder / each).mkdir(parents=True)
    (folder / "own.py").write_text("def double(number):\n    return 2 * number\n")
    (folder / "prögramm.py").write_text(PROGRAM, encoding="utf-8")
    done = run_python(
        "prögramm.py", folder=folder, TMPDIR=str(folder / "tmp"), XDG_STATE_HOME=str(folder / "state"),
        LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="utf-8:surrogateescape",
    )  # fmt: skip
    assert done.stdout.endswith("ok\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert list((folder / "tmp").iterdir()) == []
