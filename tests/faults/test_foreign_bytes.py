"""Who knows the id of a result can put nothing in its place; real processes over TCP with keys."""

from __future__ import annotations

import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, MissingObjects
from scaler.ids import ID_BYTES, PREFIX_BYTES, GraphId, ObjectId, TaskId, content_id, random_id
from scaler.pickling.serialization import VALUE, DefaultSerializer, argument_block, function_to_frames
from scaler.wire.messages.client import InputResult, Task, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest, ObjectResponse, TaskStatus
from tests.integration.test_keys import Site
from tests.integration.test_owners import RawClient

pytestmark = pytest.mark.faults

PATIENCE_SECONDS = 60.0
SIZE = 3_000_000
ROWS = 4000
TAKEN = b"another client has an object with the id of this task"


def large(letter: bytes) -> bytes:
    return letter * SIZE


class Rival:
    """A client that speaks the protocol by itself, and has heard of ids of others."""

    def __init__(self, address: str, file: str, stack: ExitStack) -> None:
        self.raw = RawClient(address, file, stack)
        frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), large)]
        self.function_id = content_id(frames)
        self.raw.say(ObjectInstruction(InstructionKind.CREATE_FUNCTION, self.function_id, "large", frames))

    @property
    def arguments(self) -> bytes:
        return argument_block(VALUE, DefaultSerializer().serialize(b"f"))

    def store(self, object_id: bytes) -> None:
        """Store something else in all ways, and wait until that was handled."""
        for kind in (InstructionKind.CREATE, InstructionKind.CREATE_FOR_TASK, InstructionKind.KEEP_RESULT):
            self.raw.say(ObjectInstruction(kind, ObjectId(object_id), "", (pickle.dumps("forged"),)))
            self.raw.say(ObjectInstruction(kind, ObjectId(object_id), "", (), os.urandom(48)))
        self.raw.say(ObjectRequest(ObjectId(random_id())))
        self.raw.hear(ObjectResponse, 1)
        self.raw.heard.clear()

    def run(self, task_id: bytes, *further: InputResult, **about: Any) -> TaskResult:
        """Have a large result made by a task with this id."""
        self.raw.say(Task(TaskId(task_id), self.function_id, self.arguments, b"", **about), *further)
        [result] = self.raw.hear(TaskResult, 1)
        self.raw.heard.clear()
        assert isinstance(result, TaskResult)
        return result


@pytest.mark.parametrize("role", ["the same owner", "another owner", "an admin"])
def test_a_client_cannot_replace_a_large_result_of_another(site: Site, role: str) -> None:
    files = {"the same owner": site.allow("alice"), "another owner": site.allow("eve")}
    files["an admin"] = str(site.folder / "admin.json")
    site.cluster()
    with Client(site.address, key_file=files["the same owner"]) as alice, ExitStack() as stack:
        futures = [alice.submit(large, letter) for letter in (b"a", b"b", b"c")]
        wait(futures, PATIENCE_SECONDS)
        rival = Rival(site.address, files[role], stack)
        for future in futures:
            object_id = future.task_id
            rival.store(object_id)
            result = rival.run(object_id)
            assert (result.status, result.payload) == (TaskStatus.MISSING_OBJECTS, TAKEN)
            result = rival.run(object_id, graph_id=GraphId(random_id()), graph_tasks=1)
            assert (result.status, result.payload) == (TaskStatus.MISSING_OBJECTS, TAKEN)
            rival.raw.say(ObjectInstruction(InstructionKind.DELETE, ObjectId(object_id), "", ()))
        rival.store(random_id())
        assert futures[0].result(PATIENCE_SECONDS) == large(b"a")
        assert futures[2].result(PATIENCE_SECONDS) == large(b"c")
        assert alice.submit(bytes.upper, futures[1]).result(PATIENCE_SECONDS) == large(b"B")


def test_an_object_of_another_owner_is_no_input_of_a_task(site: Site) -> None:
    alice_file, eve_file = site.allow("alice"), site.allow("eve")
    site.cluster()
    with Client(site.address, key_file=alice_file) as alice, ExitStack() as stack:
        future = alice.submit(large, b"a")
        wait([future], PATIENCE_SECONDS)
        rival, needed = Rival(site.address, eve_file, stack), TaskId(future.task_id)
        result = rival.run(random_id(), InputResult(needed, TaskStatus.SUCCESS, b"", 1), inputs=needed)
        assert result.status == TaskStatus.MISSING_OBJECTS
        assert b"belongs to another owner" in result.payload
        assert future.result(PATIENCE_SECONDS) == large(b"a")


def wait_for_file(path: str) -> bytes:
    while not Path(path).exists():
        os.sched_yield()
    return large(b"a")


@pytest.mark.parametrize("rivals", [["alice"], ["eve"], ["alice", "eve"]], ids="-".join)
def test_what_was_stored_with_the_id_of_an_open_task_gives_way_to_its_result(site: Site, rivals: list[str]) -> None:
    """A task alone, and a node of a graph, whose values other tasks need."""
    files = {name: site.allow(name) for name in ("alice", "eve")}
    site.cluster()
    gate = site.elsewhere / "gate"
    with Client(site.address, key_file=files["alice"]) as alice, ExitStack() as stack:
        graph = alice.get(
            {"gate": str(gate), "x": (wait_for_file, "gate"), "y": (bytes.upper, "x")}, ["x", "y"], block=False
        )
        alone = alice.submit(large, b"b")
        alone.explain()  # the scheduler has the task: it refuses one whose id is taken before
        for name in rivals:
            rival = Rival(site.address, files[name], stack)
            for future in (graph["x"], alone):
                rival.store(future.task_id)
        gate.touch()
        assert alone.result(PATIENCE_SECONDS) == large(b"b")
        assert graph["y"].result(PATIENCE_SECONDS) == large(b"A")
        assert alice.submit(bytes.upper, alone).result(PATIENCE_SECONDS) == large(b"B")


def row(number: int, notes: str) -> int:
    """Take long now and then, so that other workers take over rows behind these."""
    if number % 500 == 7:
        Path(notes, "begun").touch()
        time.sleep(0.2)
    if number == 1500:
        time.sleep(3)
    return number


@pytest.mark.parametrize("name", ["alice", "eve"])
def test_a_map_ends_whatever_was_stored_with_the_ids_of_its_rows(
    site: Site, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranges are taken apart after that. Rows that are submitted once more may be refused."""
    files = {each: site.allow(each) for each in ("alice", "eve")}
    site.start("cluster", site.address, "-n", "2")
    notes, made, random_bytes = site.elsewhere, list[bytes](), os.urandom
    with Client(site.address, key_file=files["alice"]) as alice, ExitStack() as stack, ThreadPoolExecutor(1) as thread:
        alice.map(pow, [(1, number) for number in range(3000)])  # the rows of what follows travel together
        with monkeypatch.context() as patch:
            patch.setattr(os, "urandom", lambda size: made.append(random_bytes(size)) or made[-1])
            future = thread.submit(alice.map, row, [(number, str(notes)) for number in range(ROWS)])
            wait_for_file(str(notes / "begun"))
        rival = RawClient(site.address, files[name], stack)
        for prefix in {each[:PREFIX_BYTES] for each in made if len(each) in (PREFIX_BYTES, ID_BYTES)}:
            for number in range(ROWS // 4, ROWS):
                object_id = ObjectId(prefix + number.to_bytes(ID_BYTES - PREFIX_BYTES, "big"))
                rival.say(ObjectInstruction(InstructionKind.CREATE, object_id, "", (b"x",)))
        try:
            assert future.result(PATIENCE_SECONDS) == list(range(ROWS))
        except MissingObjects as error:
            assert TAKEN.decode() in str(error)  # noqa: PT017 - both ends are good, and there is no third one
