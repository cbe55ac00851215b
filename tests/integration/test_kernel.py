"""A real notebook kernel with a cluster: cells, an interrupt, a restart and a kill. Nothing of it is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import marked, wait_until

pytestmark = [pytest.mark.more, pytest.mark.foreign, pytest.mark.processes]

START = """\
import pathlib, time
from scaler import Client
client = Client(n_workers=1)
def f(x): return x + 1
client.submit(f, 1).result()
"""
ONE = """\
import os
from scaler import Client
client = Client(n_workers=1)
print(client.submit(os.getpid).result())
"""
AGAIN = "def f(x): return x + 100\nclient.map(f, [(n,) for n in range(3)])"
AWAIT = "await client.submit(f, 5)"
REST = """\
def rest():
    pathlib.Path({path!r}).touch()
    time.sleep(60)
client.submit(rest).result()
"""
AFTER = "client.clear()\nclient.submit(f, 900).result()"
WHERE = "str(client.submit(lambda: 1 / 0).exception().__cause__)"


async def until(condition: Callable[[], Any]) -> None:
    await asyncio.to_thread(wait_until, condition, "it is so", pause_seconds=0.05)


@pytest.mark.filterwarnings("ignore")  # those of the libraries of notebooks
def test_a_cell_with_a_client_that_is_run_again(mark: str) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    texts = [ONE, "client", "Out[2].disconnect()"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in texts])
    notebook = nbclient.NotebookClient(book, timeout=60, kernel_name="python3")

    async def said_by(number: int) -> str:
        cell = await notebook.async_execute_cell(book.cells[number], number)
        return "".join(output.get("text", "") for output in cell.outputs)

    async def main() -> None:
        async with notebook.async_setup_kernel(env={**os.environ, "MARK": mark}):
            first = int(await said_by(0))  # and nothing else is said
            await said_by(1)  # Out[2]
            assert "the one of Out[2] still runs, because the notebook keeps its client" in await said_by(0)
            assert first in marked(mark)
            second = set(marked(mark))
            await said_by(2)
            await until(lambda: first not in marked(mark))
            third = int(await said_by(0))  # nothing keeps the second one, so it ends
            await until(lambda: len(marked(mark)) < len(second) and third in marked(mark))

    asyncio.run(asyncio.wait_for(main(), 100))


@pytest.mark.filterwarnings("ignore")  # those of the libraries of notebooks
def test_a_kernel_and_its_cluster(tmp_path: Path, mark: str) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    began = tmp_path / "began"
    texts = [START, AGAIN, AWAIT, REST.format(path=str(began)), AFTER, START, WHERE]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in texts])
    notebook = nbclient.NotebookClient(book, timeout=100, startup_timeout=100, kernel_name="python3")

    async def value_of(number: int) -> str:
        cell = await notebook.async_execute_cell(book.cells[number], number)
        return str(cell.outputs[-1]["data"]["text/plain"])

    async def main() -> None:
        async with notebook.async_setup_kernel(env={**os.environ, "MARK": mark}):
            assert await value_of(0) == "2"
            assert await value_of(1) == "[100, 101, 102]"
            assert await value_of(2) == "105"

            waiting = asyncio.ensure_future(value_of(3))
            await until(began.exists)
            await notebook.km.interrupt_kernel()
            with pytest.raises(nbclient.exceptions.CellExecutionError, match="KeyboardInterrupt"):
                await waiting
            assert await value_of(4) == "1000"
            assert "client.submit(lambda: 1 / 0)" in await value_of(6)  # only the kernel has the lines of its cells

            before = set(marked(mark))
            assert len(before) > 3  # the kernel, a scheduler, an agent, a worker process
            await notebook.km.restart_kernel()
            await notebook.kc.wait_for_ready(100)
            await until(lambda: not before & set(marked(mark)))

            assert await value_of(5) == "2"
            await notebook.km.signal_kernel(signal.SIGKILL)
            await until(lambda: not marked(mark))

    asyncio.run(asyncio.wait_for(main(), 200))
