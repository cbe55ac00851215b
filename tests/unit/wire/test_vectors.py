"""The test vectors of the protocol folder are up to date, and this codec reads and writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scaler.errors import ProtocolError
from scaler.ids import content_id
from scaler.pickling.serialization import OBJECT, VALUE, function_from_frames, put_results, read_arguments
from scaler.wire.codec.codec import decode, encode_message, numbers, union_name
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, DIRECTIONS, PROCESSOR_TO_AGENT, Direction
from scaler.wire.messages.seeds import CallSeed
from scaler.wire.messages.worker import HELD_RUN
from tests.support.items import as_sent
from tests.support.make_vectors import FOLDER, files, items_from_json


def load(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


VECTORS = [
    pytest.param(direction, vector, id=f"{direction.name}: {vector['title']}")
    for direction in DIRECTIONS
    for vector in load(direction.name)["messages"]
]


def test_vectors_equal_the_output_of_make_vectors() -> None:
    """To update them: python -m tests.support.make_vectors. If old bytes changed their meaning, raise the protocol's
    version.
    """
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == files()


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_every_kind_of_item_has_vectors(direction: Direction) -> None:
    content = load(direction.name)
    assert content["number"] == direction.number
    kinds = {batch["kind"] for vector in content["messages"] for batch in vector["batches"]}
    assert kinds == {union_name(batch.item) for batch in direction.batches}


@pytest.mark.parametrize(("direction", "vector"), VECTORS)
def test_a_vector_is_decoded_to_its_meaning(direction: Direction, vector: Any) -> None:
    frames = list(map(bytes.fromhex, vector["frames"]))
    batches = decode(direction, bytes.fromhex(vector["header"]), frames)
    assert [union_name(type(batch).item) for batch in batches] == [batch["kind"] for batch in vector["batches"]]
    meaning = items_from_json(direction, vector["batches"])
    assert [as_sent(item) for batch in batches for item in batch] == meaning


@pytest.mark.parametrize(("direction", "vector"), VECTORS)
def test_the_meaning_of_a_vector_is_encoded_to_its_bytes(direction: Direction, vector: Any) -> None:
    """Another codec may make other choices; this one has no reason to change them."""
    items = items_from_json(direction, vector["batches"])
    header, frames = encode_message(direction, items, vector["number"], vector["heard"])
    assert header.hex() == vector["header"]
    assert [bytes(frame).hex() for frame in frames] == vector["frames"]


@pytest.mark.parametrize(("direction", "vector"), VECTORS)
def test_numbers_of_a_vector_are_read_without_the_rest(direction: Direction, vector: Any) -> None:
    if direction not in (AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT):
        assert numbers(direction, bytes.fromhex(vector["header"])) == (vector["number"], vector["heard"])


@pytest.mark.parametrize("vector", load("refused")["messages"], ids=lambda vector: vector["title"])
def test_bad_vector_is_refused(vector: Any) -> None:
    (direction,) = [d for d in DIRECTIONS if d.name == load("refused")["direction"]]
    with pytest.raises(ProtocolError):
        decode(direction, bytes.fromhex(vector["header"]), list(map(bytes.fromhex, vector["frames"])))


def test_parts_of_payloads_are_decoded_to_their_meaning() -> None:
    parts = load("parts")
    failure = TaskFailure.decode(bytes.fromhex(parts["taskFailure"]["payload"]))
    meaning = {**failure._asdict(), **{key: getattr(failure, key).hex() for key in ("exception", "task_id", "place")}}
    assert json.loads(json.dumps(meaning)) == parts["taskFailure"]["meaning"]
    options = RunOptions.decode(bytes.fromhex(parts["runOptions"]["payload"]))
    assert json.loads(json.dumps(options._asdict())) == parts["runOptions"]["meaning"]
    for seed in parts["seeds"]:
        assert CallSeed(tuple(seed["seed"]), tuple(seed["spawn_key"])).state(len(seed["state"])) == seed["state"]
    positional, keywords = read_arguments(
        bytes.fromhex(parts["arguments"]["payload"]),
        lambda data: {"kind": VALUE, "data": data.hex()},
        lambda object_id, _is_own: {"kind": OBJECT, "data": object_id.hex()},
    )
    arguments = [{**read, "name": ""} for read in positional]
    arguments += [{**read, "name": name} for name, read in keywords.items()]
    assert arguments == parts["arguments"]["meaning"]
    held = [
        {"taskId": task_id.hex(), "attempt": attempt, "worker": worker, "rows": rows}
        for task_id, attempt, worker, rows in HELD_RUN.iter_unpack(bytes.fromhex(parts["held"]["payload"]))
    ]
    assert held == parts["held"]["meaning"]
    named = parts["namedFunction"]
    frames = list(map(bytes.fromhex, named["frames"]))
    assert function_from_frames(frames, {named["name"]: abs}.__getitem__)[1] is abs
    assert content_id(frames).hex() == named["id"]


def test_frames_of_arguments_are_taken_in_the_order_of_the_block() -> None:
    part = load("parts")["argumentsWithFrames"]
    frames = list(map(bytes.fromhex, part["frames"]))
    positional, keywords = read_arguments(
        bytes.fromhex(part["payload"]), lambda *taken: [each.hex() for each in taken], lambda *_: None, frames
    )
    first, plain, last = part["framesOfEach"]
    assert positional == [first, plain or [part["meaning"][1]["data"]]]
    assert keywords == {part["meaning"][2]["name"]: last}


def test_results_of_other_tasks_replace_their_indexes_in_a_block() -> None:
    part = load("parts")["argumentsWithResults"]
    index = int.from_bytes(bytes.fromhex(part["meaning"][0]["data"]), "little")
    results = {index: (VALUE, bytes.fromhex(part["result"]))}
    block, object_ids = put_results(bytes.fromhex(part["payload"]), results.__getitem__)
    assert (block.hex(), object_ids) == (part["whenItRuns"], b"")
