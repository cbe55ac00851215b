"""Owners of connections: shares between them and not between their clients; real processes over TCP with keys."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler import AsyncClient, AuthenticationError, Client, JobError, MissingObjects, NotAllowedError
from scaler.cli.jobs import main
from scaler.client.object_reference import ObjectReference
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId, content_id, public_id, random_id
from scaler.keys.folder import KeyPair
from scaler.keys.key_file import KeyFile
from scaler.pickling.serialization import OBJECT, VALUE, DefaultSerializer, argument_block, function_to_frames
from scaler.scheduler.audit import BURST_SECONDS, STRANGERS_PER_SECOND
from scaler.wire.codec.codec import decode, encode_message
from scaler.wire.messages.client import (
    ClientHello,
    ExplainRequest,
    ExplainResponse,
    OutputLine,
    OutputRequest,
    Task,
    TaskResult,
)
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    RETURNING,
    HelloReply,
    InstructionKind,
    ObjectInstruction,
    TaskStatus,
)
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.messages.rows import pack as pack_rows
from tests.integration.test_keys import Site
from tests.support.keys import show
from tests.support.processes import called, wait_until

PATIENCE_SECONDS = 60.0
TASK_SECONDS = 0.002
TASKS = 2400
"""of the one whose share is 2; the other one has half of that"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("SCALER_AUDIT_FILE", str(tmp_path / "audit.log"))
    site = Site(tmp_path)
    yield site
    site.end()


def spend(seconds: float) -> float:
    """Take so long, and return when that was over."""
    time.sleep(seconds)
    return time.time()


@pytest.mark.more
@pytest.mark.parametrize("sessions", [1, 20])
def test_shares_of_two_to_one_hold_however_many_sessions_an_owner_has(site: Site, sessions: int) -> None:
    """Counted while both wait: from when all have begun until the first has nothing left."""
    alice, bob = site.allow("alice", "client", "--share", "2"), site.allow("bob")
    site.cluster()
    with ExitStack() as stack:
        of_alice = stack.enter_context(Client(site.address, key_file=alice))
        of_bob = [stack.enter_context(Client(site.address, key_file=bob)) for _ in range(sessions)]
        of_alice.submit(spend, 0.0).result(timeout=60)  # a worker is there, and has the function
        gate = site.elsewhere / "open"
        first = of_alice.submit(wait_for_file, str(gate))  # until all others are there
        mine = [of_alice.submit(spend, TASK_SECONDS) for _ in range(TASKS)]
        theirs = [each.submit(spend, TASK_SECONDS) for _ in range(TASKS // sessions) for each in of_bob]
        last = [mine[-1], *theirs[-sessions:]]
        wait_until(lambda: all(each.story().waits_for == "no room" for each in last), "all are at the scheduler")
        gate.touch()
        assert first.result(PATIENCE_SECONDS) == "done"
        ends = [sorted(future.result(timeout=120) for future in some) for some in (mine, theirs)]
    begin = max(each[40] for each in ends)
    end = min(each[-1] for each in ends)
    of_two, of_one = (sum(begin <= at <= end for at in each) for each in ends)
    assert of_one > TASKS // 4
    assert of_two / of_one == pytest.approx(2.0, rel=0.05), (of_two, of_one)


def wait_for_file(path: str) -> str:
    while not Path(path).exists():
        time.sleep(0.01)
    return "done"


def audited(site: Site) -> list[dict[str, str]]:
    """Return what the audit of the scheduler has kept."""
    return [json.loads(line) for line in (site.elsewhere.parent / "audit.log").read_text().splitlines()]


def test_tasks_over_a_quota_wait_explain_why_and_run_later(site: Site) -> None:
    alice = site.allow("alice", "client", "--tasks", "2")
    site.cluster()
    gate = site.elsewhere / "open"
    with ExitStack() as stack:
        client = stack.enter_context(Client(site.address, key_file=alice))
        held = [client.submit(wait_for_file, str(gate)) for _ in range(2)]
        here = {"worker", "no room"}
        wait_until(lambda: all(each.story().waits_for in here for each in held), "the first two are there")
        # Only now: clients of one owner share its quota as windows, and a window of one would hold the second task.
        other = stack.enter_context(Client(site.address, key_file=alice))
        third = other.submit(pow, 2, 10)
        found = wait_until(lambda: (story := third.story()).waits_for == "quota" and story, "the quota is full")
        assert found.sentence.startswith("its owner, alice, has 2 open tasks, and may have 2; it starts when")
        assert third.explain() == found.sentence
        gate.touch()
        assert [future.result(PATIENCE_SECONDS) for future in held] == ["done"] * 2
        assert third.result(PATIENCE_SECONDS) == 1024
        assert client.map(pow, [(2, n) for n in range(300)]) == [2**n for n in range(300)]
    over = [line for line in audited(site) if line["event"] == "over quota"]
    assert over
    assert {line["owner"] for line in over} == {"alice"}


def test_a_value_over_a_quota_is_refused_with_a_sentence(site: Site) -> None:
    alice = site.allow("alice", "client", "--bytes", "1M")
    site.cluster()
    with Client(site.address, key_file=alice) as client:
        small, large = client.send_object(bytes(500_000)), client.send_object(bytes(600_000))
        assert client.submit(len, small).result(PATIENCE_SECONDS) == 500_000
        with pytest.raises(MissingObjects, match="over the quota of its owner: the values of alice take"):
            client.submit(len, large).result(PATIENCE_SECONDS)
        del small, large
        again = client.send_object(bytes(700_000))
        assert client.submit(len, again).result(PATIENCE_SECONDS) == 700_000


class RawClient:
    """A client that keeps to no window: what it says goes to the socket at once."""

    def __init__(self, address: str, file: str, stack: ExitStack, **hello_fields: Any) -> None:
        self._socket = stack.enter_context(stack.enter_context(zmq.Context()).socket(zmq.DEALER))
        self._socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE_SECONDS * 1000))
        self._socket.setsockopt(zmq.LINGER, 0)
        show(self._socket, KeyFile.read(Path(file)))
        self._socket.connect(address)
        self._said, self.heard = 0, list[Any]()
        hello = ClientHello(PROTOCOL_VERSION, "0", "", "", random_id(), **hello_fields)
        self._socket.send(encode_message(CLIENT_TO_SCHEDULER, [hello])[0])
        self.reply = self.hear(HelloReply, 1)[0]

    def say(self, *items: Any) -> None:
        self._said += 1
        header, frames = encode_message(CLIENT_TO_SCHEDULER, list(items), self._said)
        self._socket.send_multipart([header, *frames])

    def hear(self, kind: type, count: int) -> list[Any]:
        """Return the items of a kind, as soon as there are so many."""
        while sum(type(each) is kind for each in self.heard) < count:
            header, *frames = self._socket.recv_multipart()
            self.heard += [item for batch in decode(SCHEDULER_TO_CLIENT, header, frames) for item in batch]
        return [each for each in self.heard if type(each) is kind]


def note_and_wait(notes: str, gate: str) -> None:
    fd, _ = tempfile.mkstemp(dir=notes)
    os.close(fd)
    wait_for_file(gate)


@pytest.mark.more
def test_a_client_that_ignores_its_window_has_no_more_than_the_quota(site: Site) -> None:
    """Of forty tasks at once three run, three wait, and the others are refused; of five values two are kept."""
    eve = site.allow("eve", "client", "--tasks", "3", "--bytes", "1M")
    for _ in range(2):
        site.start("cluster", site.address, "-n", "3")
    notes, gate = site.elsewhere / "notes", site.elsewhere / "gate"
    notes.mkdir()
    serializer = DefaultSerializer()
    with ExitStack() as stack:
        raw = RawClient(site.address, eve, stack)
        assert raw.reply.window_tasks == 3
        code, size = (function_to_frames(serializer, each) for each in (note_and_wait, len))
        stored = [(InstructionKind.CREATE_FUNCTION, content_id(each), "", each) for each in (code, size)]
        arguments = b"".join(argument_block(VALUE, serializer.serialize(str(each))) for each in (notes, gate))
        tasks = [Task(TaskId(random_id()), content_id(code), arguments, b"") for _ in range(40)]
        raw.say(*(ObjectInstruction(*each) for each in stored), *tasks)
        refused = raw.hear(TaskResult, 34)
        assert {each.status for each in refused} == {TaskStatus.NO_WORKER}
        assert {bytes(each.payload) for each in refused} == {
            b"its client has 6 open tasks, as many as the scheduler accepts"
        }
        wait_until(lambda: len(list(notes.iterdir())) == 3, "three run")
        for number, task in enumerate(tasks[:6], 1):
            raw.say(ExplainRequest(task.task_id))
            raw.hear(ExplainResponse, number)
        assert [each.waits_for for each in raw.hear(ExplainResponse, 6)].count("quota") == 3
        assert len(list(notes.iterdir())) == 3
        gate.touch()
        ended = raw.hear(TaskResult, 40)[34:]
        assert {each.status for each in ended} == {TaskStatus.SUCCESS}
        assert len(list(notes.iterdir())) == 6
        values = [(ObjectId(random_id()), serializer.serialize(bytes(400_000))) for _ in range(5)]
        uses = [Task(TaskId(random_id()), content_id(size), argument_block(OBJECT, each), each) for each, _ in values]
        raw.say(*(ObjectInstruction(InstructionKind.CREATE, each, "", [value]) for each, value in values))
        for number, use in enumerate(uses, 41):
            raw.say(use)
            raw.hear(TaskResult, number)
        results = raw.hear(TaskResult, 45)[40:]
        assert [each.status for each in results] == [TaskStatus.SUCCESS] * 2 + [TaskStatus.MISSING_OBJECTS] * 3


@pytest.mark.parametrize("seconds", [0, 4])
def test_what_clients_claim_of_their_past_changes_no_quota(site: Site, seconds: int) -> None:
    """While the scheduler waits for agents of another one, and after that: sessions with tasks, rows and graphs."""
    eve = site.allow("eve", "client", "--tasks", "5")
    time.sleep(seconds)  # the scheduler waits for 2.5 s
    with ExitStack() as stack:
        sessions = [RawClient(site.address, eve, stack, resumes=RETURNING, dial=dial) for dial in range(6)]
        function_id = ObjectId(random_id())
        for raw in sessions:
            graph_id = GraphId(random_id())
            raw.say(
                *(Task(TaskId(random_id()), function_id, b"", b"", graph_id=graph_id, graph_tasks=6) for _ in range(6))
            )
            assert {each.status for each in raw.hear(TaskResult, 6)} == {TaskStatus.NO_WORKER}
            tasks = [Task(TaskId(random_id()), function_id, b"", b"") for _ in range(3)]
            rows = Task(TaskId(random_id()[:8] + bytes(8)), function_id, pack_rows([b"", b""]), b"", rows=2)
            raw.say(*tasks, rows)
        wait_until(lambda: open_tasks(site) == 5, "five have begun")
        for raw in sessions:
            raw.say(ExplainRequest(TaskId(random_id()), GraphId(NO_ID), 0))
            raw.hear(ExplainResponse, 1)
        assert open_tasks(site) == 5


def open_tasks(site: Site) -> int:
    """Return how many tasks of all clients are at the scheduler, as it says when it is asked by a signal."""
    before = len(site.scheduler.lines)
    site.scheduler.signal(signal.SIGUSR1)
    pattern = re.compile(r"tasks +([\d,]+) wait for a worker, ([\d,]+) are at workers")
    found = wait_until(lambda: next(filter(None, map(pattern.search, site.scheduler.lines[before:])), None), "a report")
    return sum(int(count.replace(",", "")) for count in found.groups())


def print_from_within(notes: str, gate: str) -> str:
    with Client() as client:
        while not Path(gate).exists():
            client.submit(print_and_note, notes).result()
    return "done"


def print_and_note(notes: str) -> None:
    print("SECRET OF ALICE", flush=True)
    with open(notes, "a", encoding="utf-8") as file:  # noqa: PTH123 - one line, also if several write
        file.write("x")


def test_after_a_restart_an_account_is_of_its_owner_also_before_that_owner_is_back(site: Site) -> None:
    """Eve comes first, and claims the account of Alice, whose nested tasks go on and print for Alice alone."""
    alice, eve = site.allow("alice"), site.allow("eve")
    site.cluster()
    site.cluster()
    notes, gate = site.elsewhere / "notes", site.elsewhere / "gate"
    code = f"""
from scaler import Client
from tests.integration.test_owners import print_from_within
with Client({site.address!r}, key_file={alice!r}, stream_output=True) as client:
    print(client.submit(print_from_within, {str(notes)!r}, {str(gate)!r}).result(), flush=True)
"""
    with ExitStack() as stack:
        heard = site.elsewhere / "heard"
        out = stack.enter_context(heard.open("w"))
        program = stack.enter_context(subprocess.Popen([sys.executable, "-c", code], stdout=out, stderr=out))
        stack.callback(program.kill)
        wait_until(lambda: notes.exists() and notes.stat().st_size > 3, "nested tasks run")
        program.send_signal(signal.SIGSTOP)
        site.scheduler.process.kill()
        site.scheduler.process.wait()
        before = notes.stat().st_size
        restarted = site.start("scheduler", site.address, "--no-protected", "--monitor-address", site.monitor)
        restarted.wait_for("only programs with a key can connect")
        spies = [RawClient(site.address, eve, stack, resumes=RETURNING, account=number) for number in (0, 0, 1)]
        for spy in spies:
            spy.say(OutputRequest(1, TaskId(NO_ID)))
        wait_until(lambda: notes.stat().st_size > before + 20, "nested tasks go on under the new scheduler")
        for spy in spies:
            spy.say(ExplainRequest(TaskId(random_id()), GraphId(NO_ID), 0))
            spy.hear(ExplainResponse, 1)
            assert [each for each in spy.heard if type(each) is OutputLine] == []
        known = heard.read_text().count("SECRET")
        program.send_signal(signal.SIGCONT)
        wait_until(lambda: heard.read_text().count("SECRET") > known + 3, "Alice hears her tasks")
        gate.touch()
        assert program.wait(PATIENCE_SECONDS) == 0
        assert "done" in heard.read_text()


def test_the_audit_has_a_line_for_each_event_and_no_secret(site: Site) -> None:
    alice = site.elsewhere / "alice.json"
    alice.touch(0o600)
    alice.write_text(Path(site.allow("alice")).read_text())
    with Client(site.address, key_file=alice):
        wait_until(lambda: "began" in {line["event"] for line in audited(site)}, "the session is in the audit")
    stranger = site.changed("stranger", public=KeyPair.new().public)
    with pytest.raises(AuthenticationError), Client(site.address, key_file=stranger) as client:
        client.submit(pow, 2, 10).result(PATIENCE_SECONDS)
    site.revoke("alice")
    wait_until(lambda: "revoked" in {line["event"] for line in audited(site)}, "the revocation is in the audit")
    with pytest.raises(AuthenticationError), Client(site.address, key_file=alice) as client:
        client.submit(pow, 2, 10).result(PATIENCE_SECONDS)
    found = audited(site)
    of_alice = [line["event"] for line in found if line.get("owner") == "alice"]
    assert of_alice[:3] == ["admitted", "began", "ended"]
    refused = [line for line in found if line["event"] == "refused"]
    assert all(line["address"] == "127.0.0.1" for line in refused)
    reasons = {line["why"].split(":")[0] for line in refused}
    assert reasons <= {"its key is not on the list", "the key of alice is no longer valid", "it has no key"}
    assert "the key of alice is no longer valid" in reasons
    text = (site.elsewhere.parent / "audit.log").read_text()
    for file in site.folder.glob("*.json"):
        assert json.loads(file.read_text())["secret"] not in text


def test_strangers_from_many_addresses_have_a_bound_in_the_audit_and_hide_no_owner(site: Site) -> None:
    """All of 127/8 is this machine: each stranger comes from an address of its own."""
    pair, alice = KeyPair.new(), site.allow("alice")
    stranger = KeyFile.read(Path(site.changed("stranger", public=pair.public, secret=pair.secret)))
    numbers, began = iter(range(10_000)), time.monotonic()

    def knock(stack: ExitStack, n_strangers: int) -> None:
        context = stack.enter_context(zmq.Context())
        for number in itertools.islice(numbers, n_strangers):
            socket = stack.enter_context(context.socket(zmq.DEALER))
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RECONNECT_IVL, -1)
            show(socket, stranger)
            own = f"127.1.{number // 250}.{number % 250 + 1}"
            socket.connect(site.address.replace("tcp://", f"tcp://{own}:0;"))

    def n_counted() -> int:
        """Return how many refusals were written or counted: the line of a further stranger has the last counts."""
        knock(stack, 1)
        found = audited(site)
        left_out = sum(line.get("unsaid", 0) + line.get("unsaid_of_others", 0) for line in found)
        return left_out + sum(line["event"] == "refused" for line in found)

    with ExitStack() as stack:
        knock(stack, 800)
        with Client(site.address, key_file=alice) as client:
            assert client.info().workers == 0
        wait_until(lambda: n_counted() >= 800, "each stranger was written or counted", pause_seconds=0.5)
    found = audited(site)
    seconds = time.monotonic() - began
    n_refused = sum(line["event"] == "refused" for line in found)
    assert n_refused <= STRANGERS_PER_SECOND * (seconds + BURST_SECONDS) + 1
    assert [line["event"] for line in found if line.get("owner") == "alice"] == ["admitted", "began", "ended"]


def test_what_one_owner_has_stored_is_no_argument_of_another(site: Site) -> None:
    alice, bob = site.allow("alice"), site.allow("bob")
    site.cluster()
    with (
        Client(site.address, key_file=alice) as of_alice,
        Client(site.address, key_file=alice) as also_of_alice,
        Client(site.address, key_file=bob) as of_bob,
    ):
        own = of_alice.send_object(b"secret" * 1000)
        told = ObjectReference(own.name, own.object_id, own.size)  # as one that has heard of it can make it
        assert also_of_alice.submit(len, told).result(PATIENCE_SECONDS) == 6000
        with pytest.raises(MissingObjects, match="belongs to another owner, who alone may read it"):
            of_bob.submit(len, told).result(PATIENCE_SECONDS)
        assert of_bob.submit(len, b"own").result(PATIENCE_SECONDS) == 3


def cancel_from_a_task(task_id: bytes) -> None:
    with Client() as client:
        client.cancel_tasks(task_id)


async def cancel_from_asyncio(address: str, *tasks: bytes | str) -> None:
    async with AsyncClient(address) as client:
        await client.cancel_tasks(*tasks)


def test_only_an_admin_cancels_tasks_of_other_owners(site: Site) -> None:
    alices, bobs, gate = site.allow("alice"), site.allow("bob"), site.elsewhere / "open"
    site.cluster()
    with Client(alices) as alice, Client(bobs) as bob, Client(site.address) as admin:
        with pytest.raises(
            NotAllowedError, match="the key of worker has the role worker: only an admin may cancel tasks"
        ):
            alice.submit(cancel_from_a_task, b"t" * 16).result(PATIENCE_SECONDS)
        running, waiting, stays = (alice.submit(wait_for_file, str(gate)) for _ in range(3))
        graph = {"path": str(gate), "a": (wait_for_file, "path"), "b": (len, "a")}
        node = alice.get(graph, ["a", "b"], block=False)["b"]
        wait_until(lambda: node.story().state, "all are at the scheduler")
        wait_until(lambda: admin.story(running.task_id).state == "running", "one runs, as the admin hears")
        with pytest.raises(NotAllowedError, match="the key of bob has the role client: only an admin may cancel tasks"):
            bob.cancel_tasks(running.task_id)
        assert admin.story(running.task_id).state == "running"
        with pytest.raises(ValueError, match="has 16 hex digits, not 'abc'"):
            admin.cancel_tasks("abc")
        short = [public_id(each.task_id).hex() for each in (waiting, node)]
        asyncio.run(cancel_from_asyncio(site.address, running.task_id, *short, bytes(16)))
        for future in (running, waiting, node):
            with pytest.raises(CancelledError):
                future.result(PATIENCE_SECONDS)
        gate.touch()
        assert stays.result(PATIENCE_SECONDS) == "done"
    found = [line["why"] for line in audited(site) if line["event"] == "cancelled"]
    assert found == ["admin has cancelled 3 of its tasks"]


def jobs(site: Site, *arguments: str) -> tuple[int, str]:
    return called(main, site.address, *arguments)


@pytest.mark.thorough
def test_an_admin_transfers_jobs_of_a_revoked_owner(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.scheduler.kill_all()
    site.start("scheduler", site.address, "--no-protected", "--keep", str(tmp_path / "jobs")).wait_for("with a key")
    site.cluster()
    alices, bobs = site.allow("alice"), site.allow("bob")
    file = tmp_path / "go on"
    with Client(bobs) as bob:
        assert bob.map(pow, [(2, n) for n in range(5)], job="powers") == [1, 2, 4, 8, 16]
        bob.start(wait_for_file, [(str(file),)], name="waits")
        assert jobs(site, "give", "powers", "alice", "--key-file", bobs) == (
            1,
            "scaler_jobs: only admins may transfer jobs; bob is not an admin\n",
        )
        assert jobs(site, "give", "bob/waits", "alice")[1].startswith("scaler_jobs: the job runs: cancel it")
    site.revoke("bob")
    wait_until(lambda: "paused" in jobs(site, "list")[1], "the job to pause")
    listed = [line.split()[:2] for line in jobs(site, "list")[1].splitlines()]
    assert listed == [["JOB", "OWNER"], ["powers", "bob"], ["waits", "bob"]]
    with Client(alices) as alice, pytest.raises(JobError, match=r"there is no job 'bob/powers' of alice here"):
        alice.job("bob/powers")
    for arguments in (["give", "bob/waits", "alice"], *[["give", "bob/powers", "alice"]] * 2):
        assert jobs(site, *arguments) == (0, "")
    assert "there is no job 'bob/powers'" in jobs(site, "show", "bob/powers")[1]
    file.touch()
    with Client(alices) as alice:
        assert [each.name for each in alice.jobs()] == ["powers", "waits"]
        assert [*alice.job("powers").results()] == [1, 2, 4, 8, 16]
        assert [*alice.job("waits").results()] == ["done"]


@pytest.mark.thorough
def test_an_owner_with_the_name_of_a_lock_file_keeps_jobs(site: Site, tmp_path: Path) -> None:
    site.scheduler.kill_all()
    keep = tmp_path / "jobs"
    keep.mkdir(mode=0o700)
    (keep / "lock").touch(mode=0o600)  # of an earlier version
    site.start("scheduler", site.address, "--keep", str(keep)).wait_for("with a key")
    site.cluster()
    with Client(site.allow("lock")) as client:
        assert client.map(pow, [(2, n) for n in range(5)], job="lock") == [1, 2, 4, 8, 16]
    assert "lock  lock   pow       done" in called(main, "--file", str(keep), "list")[1]
