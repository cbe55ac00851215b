"""What real user code does to the process that runs it, seen by a client."""

from __future__ import annotations

import bdb
import faulthandler
import logging
import multiprocessing
import os
import pdb  # noqa: T100 - what users import
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, DeserializeObjectError, SerializeObjectError
from tests.support.processes import complaints, descendants, run_python, scheduler, without_streams


def fork_and_come_back(number: int) -> int:
    """The usual recipe of a daemon: the child leaves by `sys.exit`."""
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    return number


def test_tasks_that_fork_have_their_own_results_and_leave_nothing_behind(client: Client) -> None:
    futures = [client.submit(fork_and_come_back, number) for number in range(60)]
    assert [future.result(60) for future in futures] == list(range(60))
    assert len(set(client.map(lambda _: os.getpid(), [(number,) for number in range(50)]))) <= 2


def harm_and_look(row: int) -> tuple[int, Any]:
    """Return what the process of this row has, and spoil it for the next one."""
    descriptors = [os.fstat(number)[:3] for number in range(3)]
    print("printed", file=sys.stderr)
    has = descriptors, sys.stdout.fileno(), sys.stdin.closed, logging.root.manager.disable, len(logging.root.handlers)
    os.close(row % 3)
    logging.disable(logging.CRITICAL)
    logging.root.handlers.clear()
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stdout.close()
    sys.stdin.close()
    if row % 2:
        raise ValueError(os.getpid(), has)
    return os.getpid(), has


def test_rows_that_spoil_streams_descriptors_and_logging_harm_no_other_row(client: Client) -> None:
    ended = client.map(harm_and_look, [(row,) for row in range(40)], return_exceptions=True)
    found = [each.args if isinstance(each, ValueError) else each for each in ended]
    assert all(isinstance(each, tuple) for each in found), found
    for process, has in found:
        assert has == dict(found)[process]


class Leaves:
    """Ends the program where it is read."""

    def __init__(self, size: int = 0) -> None:
        self.ballast = bytes(size)

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (self.ballast or 3,)


@pytest.mark.parametrize("size", [0, 100_000])
def test_values_that_would_end_the_process_that_reads_them_fail_alone(client: Client, size: int) -> None:
    value = Leaves(size)
    processes = client.run_on_all(os.getpid)
    unread = r"argument 1 \('obj'\) of id\(\) cannot be read by worker .*: SystemExit: "
    with pytest.raises(DeserializeObjectError, match=unread):
        client.submit(id, value).result(60)
    with pytest.raises(DeserializeObjectError, match=unread):
        client.submit(id, client.send_object(value)).result(60)
    with pytest.raises(DeserializeObjectError, match=unread):
        client.get({"value": value, "id": (id, "value")}, ["id"])
    with pytest.raises(DeserializeObjectError, match=unread):
        client.get({"value": (Leaves, size), "id": (id, "value")}, ["id"])
    with pytest.raises(DeserializeObjectError, match=r"the function cannot be read by worker .*: SystemExit: "):
        client.submit(partial(print, value)).result(60)
    assert client.run_on_all(os.getpid) == processes


def break_into_pdb() -> int:
    pdb.set_trace()  # noqa: T100 - what users do
    return 1


def read_input() -> str:
    return sys.stdin.read()


def break_by(variable: str) -> str:
    """Call `breakpoint()` with PYTHONBREAKPOINT, and return what came of it."""
    os.environ["PYTHONBREAKPOINT"] = variable
    try:
        return str(breakpoint())  # noqa: T100 - what users do
    except RuntimeError as error:
        return str(error)
    finally:
        del os.environ["PYTHONBREAKPOINT"]


def test_code_that_needs_a_terminal_gets_an_error(client: Client) -> None:
    wrong: tuple[tuple[Callable[..., Any], type[Exception], str], ...] = (
        (breakpoint, RuntimeError, "breakpoint"),
        (break_into_pdb, bdb.BdbQuit, "pdb"),
        (input, EOFError, "EOF when reading a line: input"),
    )
    for function, kind, what in wrong:
        error = client.submit(function).exception(60)
        assert type(error) is kind
        assert re.match(
            rf"{what}(\(\))? needs a terminal, and this task runs in a worker process: use Client\(", str(error)
        )
    assert client.submit(read_input).result(60) == ""
    found = client.map(break_by, [("0",), ("",), ("pdb.set_trace",), ("os.getcwd",)])
    assert [each.partition(" ")[0] for each in found] == ["None", "breakpoint()", "breakpoint()", str(Path.cwd())]


def use_the_streams() -> tuple[str, int]:
    """Read, print, and have a child that inherits the streams."""
    faulthandler.enable()
    print("printed")
    end = "nothing was raised"
    try:
        input()
    except EOFError:
        end = "end of file"
    return end, subprocess.run(["cat"], check=False).returncode


def test_cluster_without_standard_streams_runs_tasks() -> None:
    with scheduler() as (address, _), Client(address) as client:
        cluster = without_streams(sys.executable, "-m", "scaler.cli.cluster", address, "-n", "1")
        try:
            assert client.submit(use_the_streams).result(60) == ("end of file", 0)
        finally:
            cluster.terminate()
            assert cluster.wait(60) == 0


def test_program_without_standard_streams_has_its_own_cluster(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from scaler import Client\n"
        "from tests.integration.test_user_code import use_the_streams\n"
        "pathlib.Path(sys.argv[1]).write_text(repr(Client().submit(use_the_streams).result(60)))"
    )
    assert without_streams(sys.executable, "-c", program, str(tmp_path / "note")).wait(60) == 0
    assert (tmp_path / "note").read_text() == "('end of file', 0)"


def inherited(data: bytes) -> str:
    """Start a program that gets all inheritable descriptors, as `os.posix_spawn` and C code do; say which it has."""
    assert len(data) == 1_000_000  # in a block of shared memory
    out = Path(tempfile.mkdtemp()) / "out"
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", "cd /proc/$$/fd && for n in *; do readlink $n; done"],
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(out), os.O_WRONLY | os.O_CREAT, 0o600)],
    )
    os.waitpid(pid, 0)
    return out.read_text()


def test_programs_of_a_task_get_no_descriptors_of_its_process(client: Client) -> None:
    text = client.submit(inherited, bytes(1_000_000)).result(60)
    assert "out" in text
    assert "socket" not in text
    assert "memfd" not in text


class Array:
    """As those of numpy, it is pickled with its data out of band."""

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return Array, (pickle.PickleBuffer(self.data),)


def fill(array: Array) -> tuple[bytes, bytes]:
    """Change an argument; return what it was and what it is."""
    before = bytes(array.data[:2])
    array.data[:2] = b"xy"
    return before, bytes(array.data[:2])


@pytest.mark.parametrize("size", [100, 1_000, 100_000, 5_000_000])
def test_arguments_of_any_size_can_be_changed(client: Client, size: int) -> None:
    array = Array(bytearray(size))
    assert client.submit(fill, array).result(30) == (b"\0\0", b"xy")
    assert client.map(fill, [(array,)] * 8) == [(b"\0\0", b"xy")] * 8
    assert bytes(array.data[:2]) == b"\0\0"


def test_tasks_cannot_change_shared_values(client: Client) -> None:
    array = Array(bytearray(1_000_000))
    shared = client.send_object(array)
    for _ in range(2):
        with pytest.raises(TypeError, match="read-only"):
            client.submit(fill, shared).result(30)
    graph: dict[str, Any] = {"data": array, "one": (fill, "data"), "two": (len, "data")}
    with pytest.raises(TypeError, match="read-only"):
        client.get(graph, ["one"])


def test_arrays_of_numpy_can_be_changed(client: Client) -> None:
    numpy = pytest.importorskip("numpy")

    def add_one(array: Any) -> Any:
        array += 1
        return array

    array = numpy.zeros(100_000)
    assert client.submit(add_one, array).result(30).sum() == 100_000
    with pytest.raises(ValueError, match="read-only"):
        client.submit(add_one, client.send_object(array)).result(30)


def add_one(array: Any, number: int) -> tuple[float, float]:
    before = float(array.sum())
    array += number
    return before, float(array[0])


def in_a_task(array: Any) -> list[tuple[float, float]]:
    """Map with a value that this task has changed, and change it meanwhile."""
    array[:] = 2
    ends = Client().map_unordered(add_one, [(array, number) for number in range(6)], window=1)
    first = next(ends)
    array[:] = 9
    return sorted([first, *ends])


@pytest.mark.more
@pytest.mark.parametrize("size", [20_000, 1_000_000])
def test_the_tasks_of_a_map_that_have_the_same_array_change_their_own(client: Client, size: int) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.ones(size)
    assert client.map(add_one, [(array, number) for number in range(20)]) == [(size, 1.0 + n) for n in range(20)]
    assert array.sum() == size
    assert client.submit(in_a_task, array).result(60) == [(2.0 * size, 2.0 + n) for n in range(6)]


OF_A_COMMAND = """
import sys
from scaler import Client, SerializeObjectError
def price(n):
    return 1 / n  # a line of the command
with Client(sys.argv[1]) as client:
    print(client.submit(price, 0).exception(60).__cause__)
"""


def test_a_traceback_shows_the_lines_of_a_function_without_a_file(address: str) -> None:
    command = [sys.executable, "-c", OF_A_COMMAND, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert "return 1 / n  # a line of the command" in done.stdout


def counts_up(limit: int) -> Any:
    return (number for number in range(limit))


def returns_a_lock() -> dict[str, Any]:
    return {"rows": [1, {"lock": threading.Lock()}]}


def submits_what_cannot_be(client: Client) -> None:
    client.submit(abs, threading.Lock()).result()


def test_a_result_that_cannot_be_serialised_raises_an_error_that_names_it(client: Client) -> None:
    with pytest.raises(
        SerializeObjectError, match=r"^task counts_up: its result cannot be sent: a value of type generator cannot be"
    ):
        client.submit(counts_up, 3).result(60)
    of_it = r"of type dict, because of its \['rows'\]\[1\]\['lock'\] \(_thread.lock\), cannot be"
    with pytest.raises(
        SerializeObjectError, match=rf"^task returns_a_lock: its result cannot be sent: a value {of_it}"
    ):
        client.submit(returns_a_lock).result(60)
    with pytest.raises(SerializeObjectError, match=r"^task submits_what_cannot_be: abs: argument 1 \('x'\): "):
        client.submit(submits_what_cannot_be, client).result(60)


def test_results_leave_the_classes_of_the_program_as_they_are(tmp_path: Path) -> None:
    """Its methods go on to see the program's own globals; and what it changes in a class reaches the workers."""
    (tmp_path / "program.py").write_text(
        "from dataclasses import dataclass\n"
        "from scaler import Client\n"
        "RATE = 1\n"
        "@dataclass\n"
        "class Price:\n"
        "    base: float\n"
        "    unit = 'EUR'\n"
        "    def value(self): return self.base * RATE\n"
        "class Refused(Exception):\n"
        "    def rate(self): return RATE\n"
        "def make(base): return Price(base)\n"
        "def refuse(base): raise Refused(base)\n"
        "def unit(price): return price.unit\n"
        "methods = Price.value, Refused.rate\n"
        "with Client(n_workers=2) as client:\n"
        "    price = client.submit(make, 3.0).result()\n"
        "    error = client.submit(refuse, 4.0).exception()\n"
        "    RATE = 2\n"
        "    print(price.value(), Price(5.0).value(), error.rate())\n"
        "    assert (Price.value, Refused.rate) == methods and type(price) is Price and type(error) is Refused\n"
        "    assert price == client.submit(make, 3.0).result()\n"
        "    assert client.map(unit, [(price,)] * 4) == ['EUR'] * 4\n"
        "    Price.unit = 'USD'\n"
        "    print(*client.map(unit, [(price,)] * 4), client.submit(unit, client.submit(make, 1.0)).result())\n"
    )
    done = run_python("program.py", folder=tmp_path)
    assert (done.stdout.split(), complaints(done.stderr)) == (["6.0", "10.0", "2"] + ["USD"] * 5, ""), done.stderr


def note(queue: Any, squares: Any, lock: Any, number: int) -> int:
    with lock:
        squares[number] = number**2
    queue.put(number)
    return number


def be_of_another_program(key: bytes) -> None:
    multiprocessing.current_process().authkey = key


@pytest.mark.thorough
def test_managers_of_this_program_let_the_tasks_of_its_own_cluster_in_and_only_these(client: Client) -> None:
    key = bytes(multiprocessing.current_process().authkey)
    with multiprocessing.Manager() as manager:
        queue, squares, lock = manager.Queue(), manager.dict(), manager.Lock()
        assert client.map(note, [(queue, squares, lock, number) for number in range(4)]) == [0, 1, 2, 3]
        assert (sorted(queue.get() for _ in range(4)), squares.copy()) == ([0, 1, 2, 3], {0: 0, 1: 1, 2: 4, 3: 9})
        for pid in descendants():
            for where in ("cmdline", "environ"):
                said = Path(f"/proc/{pid}/{where}").read_bytes()
                assert key not in said
                assert key.hex().encode() not in said
        client.run_on_all(be_of_another_program, b"another key")
        try:
            with pytest.raises(DeserializeObjectError, match=r"authkey of the program that made it.*by an initializer"):
                client.submit(note, queue, squares, lock, 5).result(60)
        finally:
            client.run_on_all(be_of_another_program, key)
        assert client.submit(note, queue, squares, lock, 6).result(60) == 6
