"""What others on the machine can reach, and what they cannot."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from scaler import Client, SchedulerClusterCombo
from scaler.ids import TaskId, content_id, random_id
from scaler.keys.key_file import WORKER
from scaler.pickling.serialization import DefaultSerializer, function_to_frames
from scaler.shared_memory import SharedBlock
from scaler.wire.codec.codec import decode, encode_message
from scaler.wire.messages.client import ClientHello, Task, TaskResult
from scaler.wire.messages.common import PROTOCOL_VERSION, InstructionKind, ObjectInstruction, ObjectRequest, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import DisconnectRequest, WorkerHello
from tests.support.keys import connect
from tests.support.processes import Command, command, complaints, descendants, free_address, scheduler, wait_until

PROGRAM = "from scaler import Client\nwith Client() as client:\n    print(client.submit(pow, 2, 5).result())\n"


def test_a_module_of_the_working_directory_is_not_taken_for_one_of_the_standard_library(tmp_path: Path) -> None:
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("json", "socket", "struct"):
        (folder / f"{name}.py").write_text("raise SystemExit('a module of the working directory was imported')\n")
    done = subprocess.run([sys.executable, program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.stdout, complaints(done.stderr), done.returncode) == ("32\n", "", 0)


def test_a_scheduler_raises_its_limit_of_open_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with command("scheduler", free_address(), preexec_fn=few_files) as running:
        running.wait_for("address tcp")
        assert psutil.Process(running.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (min(hard, 65_536), hard)


@pytest.mark.parametrize("name", ["scheduler", "cluster"])
def test_a_limit_of_open_files_that_is_too_low_is_named(name: str) -> None:
    with command(
        name, free_address(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    ) as running:
        running.wait_for(f"the limit of open files is 40, and a {name} needs")
        assert running.end() == 2


@pytest.mark.parametrize("name", ["s", "s_monitor"])
def test_a_scheduler_refuses_connections_while_few_files_can_be_opened(tmp_path: Path, name: str) -> None:
    """ZeroMQ, which has the monitor stream, ends a process that cannot take such a connection. With a limit of 1,024,
    that needs 256 connections between two looks of the scheduler, so each 50 connections wait for an answer.
    """
    door = tmp_path / name
    with command("scheduler", f"ipc://{tmp_path}/s", preexec_fn=files_for_ever) as running:
        with Client(f"ipc://{tmp_path}/s") as client:
            client.info()
            with many_connections(door, client.info):
                running.wait_for("nearly all of the 1024 files")
                client.info()  # who is there stays
            wait_until(door.exists, "others can connect again")
        running.signal(signal.SIGTERM)
        assert running.end() == 0
    assert list(tmp_path.iterdir()) == []


WITHOUT_FILES = """
import os, resource, sys
from scaler.scheduler.scheduler import SchedulerProcess
from scaler.settings import SchedulerConfig
from scaler.wire.codec.codec import prepare
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR
from scaler.wire.codec.stencil_warmup import OF_SCHEDULERS, preparing
process = SchedulerProcess(SchedulerConfig(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 4096))
assert len(list(preparing(OF_SCHEDULERS))) == len(OF_SCHEDULERS)
prepare(SCHEDULER_TO_MONITOR)
os._exit(0)
"""


def test_a_scheduler_needs_no_more_files_for_its_messages_once_it_listens(tmp_path: Path) -> None:
    """Strangers may have used them up by then, and Cap'n Proto aborts a process that cannot open a schema."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FILES, f"ipc://{tmp_path}/s"], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


@contextlib.contextmanager
def many_connections(door: Path, ask: Callable[[], object]) -> Iterator[None]:
    """Connect, one after the other, until the door is shut. `ask` waits for an answer of the process behind it."""
    connect = connect_viewer if "monitor" in door.name else connect_peer
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        context.max_sockets = 4096
        for number in itertools.count(1):
            if not door.exists():
                break
            connect(door, stack, context)
            if number % 50 == 0:
                ask()
        yield


def connect_peer(door: Path, stack: contextlib.ExitStack, _context: zmq.Context[zmq.Socket[bytes]]) -> None:
    one = stack.enter_context(socket.socket(socket.AF_UNIX))
    with contextlib.suppress(FileNotFoundError):  # it was shut just now
        one.connect(str(door))


def connect_viewer(door: Path, stack: contextlib.ExitStack, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    one = stack.enter_context(context.socket(zmq.SUB))
    one.linger = 0
    one.subscribe("anything")
    with one.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as taken:
        one.connect(f"ipc://{door}")
        wait_until(lambda: taken.poll(10) or not door.exists(), "it is taken")
        one.disable_monitor()


def test_a_scheduler_warns_when_nearly_all_files_are_open(tmp_path: Path) -> None:
    """Its monitor is where no viewer looks."""
    monitor = f"ipc://{tmp_path}/monitor"
    with (
        command("scheduler", free_address(), "-ma", monitor, preexec_fn=few_files_for_ever) as running,
        contextlib.ExitStack() as stack,
    ):
        port = int(running.wait_for("address tcp").rpartition("address tcp://127.0.0.1:")[2].partition(",")[0])
        for _ in range(256):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        running.wait_for("nearly all of the 256 files")


def files_for_ever() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


def few_files_for_ever() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_no_setting_is_in_the_command_line_of_any_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hush_module.py").write_text("def hush_start(): pass\n")
    others = set(descendants())  # of tests before this one
    monkeypatch.syspath_prepend(tmp_path)
    with SchedulerClusterCombo(
        2,
        preload=["hush_module"],
        initializer="hush_module:hush_start",
        logging_paths=[str(tmp_path / "hush.log")],
        scheduler_io_threads=2,
    ) as combo:
        with Client(combo.get_address()) as client:
            client.submit(pow, 2, 5).result()
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in set(descendants()) - others}
    assert len(lines) >= 5  # scheduler, agent, fork server, two processors
    for hidden in (b"hush", os.fsencode(tmp_path), combo.get_address().encode(), b"site-packages"):
        assert [line for line in lines.values() if hidden in line] == []


@pytest.fixture(scope="module")
def scene() -> Iterator[tuple[str, Command]]:
    """A scheduler, with a cluster."""
    with scheduler() as (address, running), command("cluster", address, "-n", "1"):
        yield address, running


@contextlib.contextmanager
def hostile_client(address: str) -> Iterator[Callable[..., TaskResult | ObjectRequest]]:
    """A client that says what it likes: an object and a task. It returns the task's result, or that it is asked for the
    content of the object, which it never sends.
    """
    number = itertools.count(1)
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.RCVTIMEO, 30_000)
        connect(peer, address)
        peer.send(encode_message(CLIENT_TO_SCHEDULER, [ClientHello(PROTOCOL_VERSION, "0", "", "", random_id())])[0])
        assert decode(SCHEDULER_TO_CLIENT, peer.recv(), [])[0][0].accepted

        def say(create: ObjectInstruction, task: Task) -> TaskResult | ObjectRequest:
            header, frames = encode_message(CLIENT_TO_SCHEDULER, [create, task], next(number))
            peer.send_multipart([header, *frames])
            while True:
                for batch in decode(SCHEDULER_TO_CLIENT, peer.recv(), []):
                    for item in batch:
                        is_result = isinstance(item, TaskResult) and item.task_id == task.task_id
                        if is_result or (isinstance(item, ObjectRequest) and item.object_id == create.object_id):
                            return item

        yield say


def forged(*_arguments: object) -> str:
    return "forged"


def test_a_function_cannot_be_stored_with_the_id_of_another_one(scene: tuple[str, Command]) -> None:
    address, running = scene
    good, bad = (function_to_frames(DefaultSerializer(), function) for function in (pow, forged))
    function_id = content_id(good)
    with hostile_client(address) as say:
        result = say(
            ObjectInstruction(InstructionKind.CREATE_FUNCTION, function_id, "pow", bad),
            Task(TaskId(random_id()), function_id, b"", b""),
        )
        assert isinstance(result, TaskResult)
        assert result.status == TaskStatus.MISSING_OBJECTS
        running.wait_for("not the hash of its content")
        with Client(address) as client:
            assert client.submit(pow, 2, 5).result(30) == 32


def test_no_client_can_set_the_location_of_a_function(scene: tuple[str, Command]) -> None:
    """Neither in memory with something else, nor in memory of no bytes, nor where nobody can look."""
    address, _ = scene
    evil = SharedBlock.of(function_to_frames(DefaultSerializer(), forged))
    empty = SharedBlock.of([b"", b""])
    locations = [evil.location(), empty.location(), bytes(16) + evil.location()[16:]]
    functions = iter([max, min, divmod, range, slice, complex])
    with hostile_client(address) as say, Client(address) as client:
        for location in locations:
            # The second time nobody can tell that it is to be a function, until a task calls it.
            for kind, expected in (
                (InstructionKind.CREATE_FUNCTION, TaskResult),
                (InstructionKind.CREATE, ObjectRequest),
            ):
                function: Any = next(functions)
                frames = function_to_frames(DefaultSerializer(), function)
                create = ObjectInstruction(kind, content_id(frames), "f", frames, location)
                answer = say(create, Task(TaskId(random_id()), content_id(frames), b"", b""))
                assert type(answer) is expected
                assert getattr(answer, "status", TaskStatus.MISSING_OBJECTS) == TaskStatus.MISSING_OBJECTS
                assert client.submit(function, 2, 5).result(30) == function(2, 5)


def test_a_giant_hello_ends_its_connection_and_is_not_taken_apart(scene: tuple[str, Command]) -> None:
    address, running = scene
    hello = WorkerHello(PROTOCOL_VERSION, "0", "", "", random_id(), "ab" + ",ab" * 15_000_000, b"")
    before = peak_bytes(running.pid)
    with (
        zmq.Context() as context,
        context.socket(zmq.DEALER) as peer,
        peer.get_monitor_socket(zmq.EVENT_DISCONNECTED) as events,
    ):
        connect(peer, address, WORKER)
        peer.send(encode_message(AGENT_TO_SCHEDULER, [hello])[0])
        assert events.poll(60_000)
        peer.disable_monitor()
    with Client(address) as client:
        client.info()
    assert peak_bytes(running.pid) - before < 300_000_000  # the message itself, more than once


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.more
def test_a_cluster_waits_until_workers_of_another_python_have_left() -> None:
    hello = WorkerHello(PROTOCOL_VERSION, "0", "3.9.1", "3.0.0", random_id(), "idle", b"")
    with (
        scheduler() as (address, running),
        zmq.Context() as context,
        context.socket(zmq.DEALER) as agent,
    ):
        connect(agent, address, WORKER)
        agent.send(encode_message(AGENT_TO_SCHEDULER, [hello])[0])
        running.wait_for("workers idle connected")
        with command("cluster", address, "-n", "1") as cluster:
            cluster.wait_for("refuses this cluster, which keeps trying: this cluster runs Python 3.")
            agent.send(encode_message(AGENT_TO_SCHEDULER, [DisconnectRequest("")], 1)[0])
            with Client(address) as client:
                client.wait_for_workers(1, 60)
                assert client.submit(pow, 2, 5).result(60) == 32
