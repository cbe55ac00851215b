"""Texts of hostile peers, in the terminals of people who run commands: names, reasons, failures, output, files."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler import Client
from scaler.ids import GraphId, ObjectId, TaskId, content_id, random_id
from scaler.keys.key_file import KeyFile
from scaler.wire.codec.codec import decode, encode_message
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.client import ClientHello, JobRequest, JobResponse, JobVerb, Task
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    HelloReply,
    InstructionKind,
    ObjectInstruction,
    TaskStatus,
)
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
)
from scaler.wire.messages.worker import DrainRequest, RunOutput, RunResult, RunTask, WorkerHello
from tests.integration.test_keys import Site
from tests.support.keys import show
from tests.support.processes import PATIENCE_SECONDS, REPOSITORY, wait_until
from tests.support.terminal import CTRL_C, terminal

HOSTILE = "x\x1b]0;owned\x07\x1b[2J\r\n[ERROR] forged\x9b31m\u202etxt\0"
"""A title, an erased screen, a line of its own, a sequence of one character (C1), another direction, an end of text."""
MARK = "forged"
_NOT_SHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def check(text: str, what: str) -> None:
    """Check that a text has nothing that a terminal obeys, and no line that only looks like one of ours."""
    found = _NOT_SHOWN.search(text)
    assert found is None, f"{what} has {found.group()!r}: {text[max(0, found.start() - 80) : found.end() + 20]!r}"
    assert "\n[ERROR] forged" not in text, what
    assert not text.startswith("[ERROR] forged"), what


class Peer:
    """A client or an agent that sends what it likes."""

    def __init__(self, site: Site, file: str, stack: ExitStack, hello: Any) -> None:
        self._is_agent = isinstance(hello, WorkerHello)
        self._socket = stack.enter_context(stack.enter_context(zmq.Context()).socket(zmq.DEALER))
        self._socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE_SECONDS * 1000))
        self._socket.setsockopt(zmq.LINGER, 0)
        show(self._socket, KeyFile.read(Path(file)))
        self._socket.connect(site.address)
        self._n_said = 0
        self._send([hello])
        assert self.hear(HelloReply).accepted

    def _send(self, items: list[Any], number: int = 0) -> None:
        direction = AGENT_TO_SCHEDULER if self._is_agent else CLIENT_TO_SCHEDULER
        header, frames = encode_message(direction, items, number)
        self._socket.send_multipart([header, *frames])

    def say(self, *items: Any) -> None:
        for item in items:
            self._n_said += 1
            self._send([item], self._n_said)

    def hear(self, kind: type) -> Any:
        direction = SCHEDULER_TO_AGENT if self._is_agent else SCHEDULER_TO_CLIENT
        while True:
            header, *frames = self._socket.recv_multipart()
            for batch in decode(direction, header, frames):
                for item in batch:
                    if type(item) is kind:
                        return item


class HostileError(Exception):
    """An error with a hostile text, also as its `repr`."""

    def __repr__(self) -> str:
        return HOSTILE


class HostileValue:
    """A result with a hostile `repr`."""

    def __repr__(self) -> str:
        return HOSTILE


def hostile(number: int) -> HostileValue:
    print(HOSTILE, flush=True)
    if number % 2:
        raise HostileError(HOSTILE)
    return HostileValue()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("SCALER_KEEP", str(tmp_path / "jobs"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site = Site(tmp_path)
    yield site
    site.end()


def run(*words: object, code: int | None = 0) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", f"scaler.cli.{words[0]}", *map(str, words[1:])],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "250"},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    text = done.stdout + done.stderr
    assert code is None or done.returncode == code, text
    check(text, f"scaler_{words[0]} {' '.join(map(str, words[1:]))}")
    return text


def come_with_hostile_names(site: Site, stack: ExitStack) -> None:
    """A client and an agent with hostile names for all that they may name. A task of one fails at the other."""
    versions = (PROTOCOL_VERSION, HOSTILE, platform.python_version(), HOSTILE)
    client = Peer(site, site.allow("mallory"), stack, ClientHello(*versions, random_id(), label=HOSTILE))
    names = f"{HOSTILE},{HOSTILE}2"
    own = (random_id(), names, b"", random_id())
    agent = Peer(
        site, str(site.folder / "worker.json"), stack, WorkerHello(*versions, *own, capabilities=f"{HOSTILE}=2")
    )
    frames = (b"no function",)
    function = ObjectInstruction(InstructionKind.CREATE_FUNCTION, content_id(frames), HOSTILE, frames)
    tasks = [Task(TaskId(random_id()), function.object_id, b"", b"", name=HOSTILE) for _ in range(10)]
    client.say(function, ObjectInstruction(InstructionKind.CREATE, ObjectId(random_id()), HOSTILE, (b"value",)), *tasks)
    graph = Task(TaskId(random_id()), function.object_id, b"", b"", name=HOSTILE)
    client.say(replace(graph, graph_id=GraphId(random_id()), graph_tasks=2))
    order = agent.hear(RunTask)
    failure = TaskFailure(HOSTILE, HOSTILE, f"Traceback\n{HOSTILE}\n", b"", (HOSTILE,))
    run_of = (order.task_id, order.worker, order.attempt)
    agent.say(RunOutput(*run_of, 0, 1, 0, HOSTILE))
    agent.say(RunResult(*run_of, TaskStatus.FAILED, failure.encode(), 1, (), failure=HOSTILE))
    texts = dict.fromkeys(("function", "program", "python", "task_name"), HOSTILE)  # a token may be left out
    numbers = {"max_failures": None, "priority": 0, "keep_seconds": 1e6, "created": 1.0, "attended": False}
    ids = {"fingerprint": {HOSTILE: HOSTILE}, "function_id": "00" * 16, "options": ""}
    terms = texts | numbers | ids
    client.say(JobRequest(1, JobVerb.OPEN, "theirs", body=json.dumps(terms).encode()))
    client.hear(JobResponse)
    agent.say(DrainRequest(HOSTILE))
    refused = ClientHello(PROTOCOL_VERSION + 1, HOSTILE, HOSTILE, HOSTILE, random_id(), label=HOSTILE)
    with pytest.raises(AssertionError):
        Peer(site, str(site.folder / "client.json"), stack, refused)


def put_hostile_files(site: Site, tmp_path: Path) -> tuple[Path, Path]:
    """Make a job that cannot be read in a folder with a hostile name, and a key. Return that, and a folder of keys."""
    of_owner = next((tmp_path / "jobs").glob("**/job.sqlite")).parent.parent.parent
    bad = of_owner / HOSTILE.replace("\0", "") / HOSTILE.replace("\0", "")
    bad.mkdir(parents=True, mode=0o700)
    (bad / "job.sqlite").write_text(HOSTILE)
    key = tmp_path / "bad.json"
    key.touch(0o600)
    known = json.loads((site.folder / "client.json").read_text())
    key.write_text(json.dumps(known | {"name": HOSTILE, "addresses": [HOSTILE]}))
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    for file in site.folder.iterdir():
        if file.is_file():
            (folder / file.name).touch(0o600)
            (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "allowed").open("a") as allowed:
        allowed.write(f"client {HOSTILE} {'a' * 40} tasks={HOSTILE}\n".replace("\n[", " ["))
    return key, folder


@pytest.mark.more
def test_no_command_hands_a_terminal_what_peers_and_files_have_chosen(site: Site, tmp_path: Path) -> None:
    hostile.__name__ = hostile.__qualname__ = HOSTILE
    alice, admin = site.allow("alice"), str(site.folder / "admin.json")
    cluster = site.cluster()
    with ExitStack() as stack:
        top = stack.enter_context(terminal(sys.executable, "-m", "scaler.cli.top", site.monitor, width=160, height=50))
        scale = stack.enter_context(
            terminal(
                *(sys.executable, "-m", "scaler.cli.scale", site.address, "--monitor-address", site.monitor),
                *("--min", "0", "--max", "1", "--up", f"exit 3 # {HOSTILE[:-1]}"),
                width=160,
            )
        )
        client = stack.enter_context(Client(site.address, key_file=alice, stream_output=False))
        job = client.start(hostile, [(number,) for number in range(6)], name="mine")
        assert job.wait(PATIENCE_SECONDS).failed == 3
        come_with_hostile_names(site, stack)
        for key in "7654321":  # pages, of which the first one has the names of workers
            seen = len(top.written)
            top.press(key)
            wait_until(lambda seen=seen: len(top.written) > seen + 100, "another page is drawn")
        wait_until(lambda: MARK in top.text, "the page of workers has hostile names")
        own = (site.address, "--key-file", admin)
        jobs = (site.address,)
        listed = run("jobs", *jobs, "list", "--key-file", admin)
        assert listed.count(MARK) >= 2
        assert MARK in run("jobs", *jobs, "show", "alice/mine", "--key-file", admin)
        run("jobs", *jobs, "show", "mallory/theirs", "--key-file", admin)
        assert run("jobs", *jobs, "results", "alice/mine", "--key-file", admin).count(MARK) >= 6
        run("jobs", *jobs, "wait", "alice/mine", "--key-file", admin, code=1)
        assert "owned" in run("jobs", *jobs, "show", "alice/" + HOSTILE[:-1], "--key-file", admin, code=1)
        run("jobs", *jobs, "cancel", "mallory/theirs", "--key-file", admin)
        key, folder = put_hostile_files(site, tmp_path)
        assert run("jobs", "--file", tmp_path / "jobs", "list", code=1).count(MARK) >= 3
        assert MARK in run("jobs", "--file", tmp_path / "jobs", "check", code=1)
        run("jobs", "--file", tmp_path / "jobs", "give", f"{HOSTILE[:-1]}/{HOSTILE[:-1]}", HOSTILE[:-1], code=1)
        assert MARK in run("top", site.monitor, "--once")
        assert MARK in run("top", site.monitor, "--once", "--json")
        assert MARK in run("keys", "check", key, code=1)
        assert "owned" in run("keys", "list", "--folder", folder, code=1)
        run("keys", "list", "--folder", site.folder)
        assert MARK in run("keys", "revoke", HOSTILE[:-1], "--folder", site.folder, code=1)
        assert MARK in run("scale", *own, "--min", HOSTILE[:-1], "--max", "1", "--up", "true", code=2)
        page = site.start("ui", site.monitor, "--port", "0")
        page.wait_for("The token is in")
        for watched, what in ((top, "scaler_top"), (scale, "scaler_scale")):
            watched.press(CTRL_C if watched is scale else "q")
            watched.end()
            assert b"]0;owned" not in watched.written.replace(rb"\x1b]0;owned", b""), what
            text = watched.written.decode("utf-8", "replace")
            assert not re.search("[\x9b\u202e\0\x07]|\n\\[ERROR\\] forged", text), what
            assert "owned" not in watched.screen.title, what
        wait_until(lambda: MARK in cluster.output, "the cluster has logged what its tasks write")
        wait_until(lambda: MARK in site.scheduler.output, "the scheduler has logged names")
    for command in (cluster, site.scheduler, page):
        check(command.output, f"scaler_{command.module}")


def test_a_client_prints_what_its_tasks_write_without_sequences(site: Site) -> None:
    code = f"""
from scaler import Client
from tests.integration.test_terminals import HOSTILE, hostile
hostile.__name__ = hostile.__qualname__ = HOSTILE
with Client({site.address!r}, stream_output=True) as client:
    client.submit(hostile, 2).result()
    client.map(hostile, [(2 * number,) for number in range(100)], progress=True)
"""
    site.cluster()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, env=dict(os.environ), check=True
    )
    assert MARK in done.stdout
    check(done.stdout, "the output of tasks")
    check(done.stderr, "the progress bar")
