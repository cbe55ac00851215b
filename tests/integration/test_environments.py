"""Ways to start programs: each has a cluster of its own, which knows what is defined there, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import zipapp
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler import AsyncClient
from tests.support.processes import complaints, marked, run_python, wait_until
from tests.support.terminal import CTRL_C, ENTER, terminal

pytestmark = pytest.mark.processes

PROGRAM = """\
from scaler import Client


def square(number):
    return number * number


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


client = Client(n_workers=1)
print(client.map(lambda number: square(number) + 1, [(number,) for number in range(4)]))
print(client.submit(lambda pair: Pair(pair.right, pair.left), Pair(2, 3)).result().left)
"""
"""without a guard, and without an end: its cluster ends with it"""

BESIDE = PROGRAM + "from beside import cube\nprint(client.submit(cube, 3).result())\n"
"""the same, with a function of a module that is where the program is"""


def in_a_folder(folder: Path) -> Path:
    source = folder / "source"
    source.mkdir()
    (source / "__main__.py").write_text(BESIDE)
    (source / "beside.py").write_text("def cube(number):\n    return number ** 3\n")
    return source


def as_text(_folder: Path) -> tuple[list[str], str]:
    return ["-c", PROGRAM], ""


def from_standard_input(_folder: Path) -> tuple[list[str], str]:
    return ["-"], PROGRAM


def as_a_package(folder: Path) -> tuple[list[str], str]:
    package = in_a_folder(folder).rename(folder / "package")
    (package / "__main__.py").write_text(BESIDE.replace("from beside", "from package.beside"))
    return ["-m", "package"], ""


def as_a_zip(folder: Path) -> tuple[list[str], str]:
    zipapp.create_archive(in_a_folder(folder), folder / "program.pyz")
    return [str(folder / "program.pyz")], ""


BESIDE_IT = (as_a_package, as_a_zip)


MORE = [pytest.param(way, marks=pytest.mark.more) for way in (as_text, as_a_package, from_standard_input)]
"""what the others show as well"""


@pytest.mark.parametrize("way", [as_a_zip, *MORE])
def test_a_program_may_be_started_in_any_way(
    way: Callable[[Path], tuple[list[str], str]], tmp_path: Path, mark: str
) -> None:
    arguments, text = way(tmp_path)
    done = run_python(*arguments, folder=tmp_path, text=text, MARK=mark)
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert done.stdout.splitlines() == ["[1, 2, 5, 10]", "3", *(["27"] if way in BESIDE_IT else [])]
    wait_until(lambda: not marked(mark), "nothing is left")


SHELLS = {
    "python": (["-q"], ">>>"),
    "IPython": (["-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"], "In ["),
}


@pytest.mark.more
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_new_definitions_and_an_interrupt_gives_the_prompt_back(
    shell: str, tmp_path: Path, mark: str
) -> None:
    arguments, prompt = SHELLS[shell]
    if shell == "IPython":
        pytest.importorskip("IPython")
    began = tmp_path / "began"
    own = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "MARK": mark}
    with terminal(sys.executable, *arguments, width=120, height=80, env=own) as screen:

        def enter(line: str, answer: str) -> None:
            screen.press(line + ENTER)
            screen.wait_for(answer)

        screen.wait_for(prompt)
        enter("import time, pathlib; from scaler import Client; client = Client(n_workers=1); print(40 + 2)", "42")
        enter(f"def f(x): return x + 100{ENTER}{ENTER}client.submit(f, 11).result()", "111")
        enter(f"def f(x): return x + 200{ENTER}{ENTER}client.submit(f, 22).result()", "222")
        screen.press(f"def rest(): pathlib.Path({str(began)!r}).touch(); time.sleep(60){ENTER}{ENTER}")
        screen.press(f"client.submit(rest).result(){ENTER}")
        wait_until(began.exists, "the task runs")
        screen.press(CTRL_C)
        screen.wait_for("KeyboardInterrupt")
        enter("client.clear(); client.submit(f, 133).result()", "333")
        screen.press(f"exit(){ENTER}")
        assert screen.end() == 0
    wait_until(lambda: not marked(mark), "nothing is left")


CHILDREN = """\
import multiprocessing
from scaler import Client, DisconnectedError, SchedulerClusterCombo


def triple(number):
    return 3 * number


def child(address, answers):
    with Client(address) as client:
        answers.send(client.map(triple, [(number,) for number in range(4)]))


def heir(client, answers):
    try:
        client.submit(triple, 1)
    except DisconnectedError as error:
        answers.send(str(error))


def answer_of(method, function, argument):
    context = multiprocessing.get_context(method)
    answers, sender = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(argument, sender))
    process.start()
    answer = answers.recv()
    process.join()
    return answer, process.exitcode


if __name__ == "__main__":
    with SchedulerClusterCombo(1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        for method in ("fork", "spawn", "forkserver"):
            print(method, *answer_of(method, child, combo.get_address()))
        print(*answer_of("fork", heir, client))
        print(client.map(triple, [(5,)]))
"""


@pytest.mark.more
def test_children_of_multiprocessing_have_clients_of_their_own(tmp_path: Path, mark: str) -> None:
    (tmp_path / "program.py").write_text(CHILDREN)
    done = run_python("-W", "ignore", "program.py", folder=tmp_path, MARK=mark)
    wait_until(lambda: not marked(mark), "nothing is left")
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    *answers, refusal, last = done.stdout.splitlines()
    assert answers == [f"{method} [0, 3, 6, 9] 0" for method in ("fork", "spawn", "forkserver")]
    assert "belongs to the parent of this forked process" in refusal
    assert last == "[15]"


FORKS = """\
import os, signal, sys
from scaler import Client

client = Client(n_workers=1)
print(client.submit(abs, -1).result())
if os.fork() == 0:
    sys.exit(7)  # with all that a program does at its end
print(os.waitstatus_to_exitcode(os.wait()[1]), client.submit(abs, -2).result())
sys.stdout.flush()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.close(1)
    os.close(2)
    signal.pause()
else:
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_end_of_a_forked_process_leaves_the_cluster_to_its_parent(tmp_path: Path, mark: str) -> None:
    (tmp_path / "program.py").write_text(FORKS)
    done = run_python("-W", "ignore", "program.py", folder=tmp_path, MARK=mark)
    *said, forked = done.stdout.split()
    try:
        assert (said, done.returncode) == (["1", "7", "2"], -signal.SIGKILL), done.stderr
        wait_until(
            lambda: marked(mark) == [int(forked)], "the cluster ends with its parent, also when a child lives on"
        )
    finally:
        os.kill(int(forked), signal.SIGKILL)


TESTS = """\
import pytest
from scaler import Client


@pytest.fixture(scope="session")
def client():
    with Client(n_workers=1) as client:
        yield client


def double(number):
    return 2 * number


class Tripler:
    def triple(self, number):
        return 3 * number


@pytest.mark.parametrize("number", range(4))
def test_of_a_user(client, number):
    class Inner:
        value = number

    assert client.submit(double, number).result() == 2 * number
    assert client.submit(Tripler().triple, number).result() == 3 * number
    assert client.map(lambda other: Inner.value + other, [(1,)]) == [number + 1]
"""


@pytest.mark.more
def test_each_process_of_xdist_has_a_cluster_of_its_own(tmp_path: Path, mark: str) -> None:
    (tmp_path / "test_of_user.py").write_text(TESTS)
    done = run_python(
        "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path), folder=tmp_path, MARK=mark
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    wait_until(lambda: not marked(mark), "nothing is left")


def rest(folder: str) -> None:
    try:
        Path(folder, "began").touch()
        threading.Event().wait(60)
    finally:
        Path(folder, "interrupted").touch()


def test_a_disconnected_web_client_cancels_its_task(address: str, tmp_path: Path) -> None:
    from aiohttp import ClientSession, ClientTimeout, web

    async def main() -> None:
        async with AsyncClient(address) as client:

            async def handle(_request: web.Request) -> web.Response:
                return web.Response(text=str(await client.submit(rest, str(tmp_path))))

            app = web.Application(handler_args={"handler_cancellation": True})
            app.router.add_get("/", handle)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            async with ClientSession(timeout=ClientTimeout(60)) as session:
                request = asyncio.ensure_future(session.get(f"http://{host}:{port}/"))
                await asyncio.to_thread(wait_until, (tmp_path / "began").exists, "the task runs")
                request.cancel()
                await asyncio.to_thread(wait_until, (tmp_path / "interrupted").exists, "it is interrupted")
                assert await client.submit(abs, -1) == 1
            await runner.cleanup()

    asyncio.run(asyncio.wait_for(main(), 110))
