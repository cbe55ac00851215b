from __future__ import annotations

import re
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import capnp
import pytest

from scaler.errors import ProtocolError
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.wire.codec.codec import (
    MESSAGE_ITEMS,
    camel_case,
    check_item,
    decode,
    encode,
    encode_message,
    numbers,
    with_heard,
)
from scaler.wire.codec.schemas import SCHEMAS, schema_directory
from scaler.wire.messages.client import ClientDisconnect, ClientHeartbeat, GoodbyeKind, Task, TaskCancel
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import HelloRequest, InstructionKind, ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
)
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunResult, WorkerHeartbeat

ONE = TaskId(bytes(range(16)))
TWO = TaskId(bytes(range(16, 32)))


def schema(name: str) -> Any:
    return capnp.load(str(schema_directory() / f"{name}.capnp"), imports=[str(schema_directory())])


def agent_message(count: int = 1, direction: int = 3, union: str = "workerHeartbeat", **columns: Any) -> bytes:
    """Return a message of an agent with one batch, without the checks of the codec."""
    message = schema("worker").AgentToScheduler.new_message(num_first_segment_words=1 << 16, direction=direction)
    (batch,) = message.init("batches", 1)
    body = batch.init(union)
    body.count = count
    for name, value in columns.items():
        setattr(body, name, value)
    return message.to_bytes()


def hand_made(*words: bytes) -> bytes:
    """Return one segment of the given words."""
    return struct.pack("<II", 0, len(words)) + b"".join(words)


def struct_pointer(offset: int, data: int, pointers: int) -> bytes:
    return struct.pack("<iHH", offset << 2, data, pointers)


def list_pointer(offset: int, size_code: int, length: int) -> bytes:
    return struct.pack("<iI", offset << 2 | 1, length << 3 | size_code)


@contextmanager
def little_time_and_memory() -> Iterator[None]:
    started = time.process_time()
    tracemalloc.start()
    try:
        yield
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4_000_000
    assert time.process_time() - started < 1.0


def refused(header: bytes, frames: Any = (), direction: Any = AGENT_TO_SCHEDULER) -> str:
    with pytest.raises(ProtocolError) as refusal:
        decode(direction, header, frames)
    return str(refusal.value)


# Writing


def test_no_items_make_no_message() -> None:
    assert list(encode(CLIENT_TO_SCHEDULER, [])) == []


def test_runs_of_one_type_become_one_batch_each_in_order() -> None:
    items = [TaskCancel(ONE), TaskCancel(TWO), ClientHeartbeat(7), TaskCancel(ONE)]
    ((header, frames),) = encode(CLIENT_TO_SCHEDULER, items)
    assert frames == []
    assert decode(CLIENT_TO_SCHEDULER, header, frames) == [items[:2], items[2:3], items[3:]]
    assert type(decode(CLIENT_TO_SCHEDULER, header, frames)[0]) is Batch[TaskCancel]


def test_columns_of_defaults_take_no_bytes() -> None:
    plain = [RunResult(ONE, 0, 0, 0, b"", 0, ())] * 1000
    ((header, _),) = encode(AGENT_TO_SCHEDULER, plain)
    assert len(header) < 1000 * 16 + 250
    (batch,) = decode(AGENT_TO_SCHEDULER, header, [])
    assert batch == plain


def test_one_value_other_than_the_default_writes_the_whole_column() -> None:
    items = [RunCancel(ONE, 0, 1), RunCancel(NO_ID, 5, 0)]
    ((header, _),) = encode(SCHEDULER_TO_AGENT, items)
    assert decode(SCHEDULER_TO_AGENT, header, []) == [items]


def test_frames_follow_the_header_in_the_order_of_their_items() -> None:
    items = [
        ObjectResponse(ONE, 1, (b"a", b"b")),
        ObjectResponse(TWO, 0, ()),
        HelloRequest("between"),
        ObjectResponse(TWO, 1, (bytearray(b"c"), memoryview(b""))),
    ]
    ((header, frames),) = encode(SCHEDULER_TO_CLIENT, items)
    assert list(map(bytes, frames)) == [b"a", b"b", b"c", b""]
    first, _, second = decode(SCHEDULER_TO_CLIENT, header, frames)
    assert [list(map(bytes, item.frames)) for item in (*first, *second)] == [[b"a", b"b"], [], [b"c", b""]]


def test_received_frames_are_passed_without_a_copy() -> None:
    frame = memoryview(bytearray(1000))
    ((header, _),) = encode(SCHEDULER_TO_CLIENT, [ObjectResponse(ONE, 1, (frame,))])
    ((item,),) = decode(SCHEDULER_TO_CLIENT, header, [frame])
    assert item.frames[0] is frame


def test_each_message_of_many_takes_its_own_frames() -> None:
    items = [ObjectResponse(ONE, 1, (b"%d" % number,)) for number in range(MESSAGE_ITEMS + 1)]
    first, second = encode(SCHEDULER_TO_CLIENT, items)
    assert second[1] == [b"%d" % MESSAGE_ITEMS]
    (batch,) = decode(SCHEDULER_TO_CLIENT, *first)
    assert batch == items[:MESSAGE_ITEMS]


def test_text_with_undecodable_characters_arrives_escaped() -> None:
    instruction = ObjectInstruction(0, ONE, "data-\udcff.bin", ())
    ((header, _),) = encode(CLIENT_TO_SCHEDULER, [instruction])
    ((arrived,),) = decode(CLIENT_TO_SCHEDULER, header, [])
    assert arrived.name == "data-\\udcff.bin"


def test_payload_larger_than_the_reader_allows_by_default_arrives() -> None:
    large = RunResult(ONE, 0, 1, TaskStatus.FAILED, bytes(80_000_000), 1, ())
    ((header, _),) = encode(AGENT_TO_SCHEDULER, [large])
    ((arrived,),) = decode(AGENT_TO_SCHEDULER, header, [])
    assert len(arrived.payload) == 80_000_000


def test_encoding_an_item_of_another_direction_raises() -> None:
    with pytest.raises(KeyError):
        list(encode(CLIENT_TO_SCHEDULER, [RecallRequest(ONE, 0, 1)]))


# Refusals


@pytest.mark.parametrize("header", [b"", b"\0" * 8, b"GET / HTTP/1.1\r\n", b"\xff" * 64, b"\0" * 4096, b"x"])
def test_bytes_that_are_not_a_message_are_refused(header: bytes) -> None:
    refused(header)


def test_the_text_of_a_refusal_is_one_line() -> None:
    assert "\n" not in refused(b"\xff" * 64)


def test_message_of_another_direction_is_refused() -> None:
    assert "direction 1" in refused(agent_message(direction=1))


def test_hand_made_message_is_read() -> None:
    assert decode(AGENT_TO_SCHEDULER, agent_message(2, sentNs=struct.pack("<2Q", 1, 2)), []) == [
        Batch[WorkerHeartbeat]([WorkerHeartbeat(1), WorkerHeartbeat(2)])
    ]


def test_an_unknown_member_of_a_union_is_refused() -> None:
    header = bytearray(agent_message())
    batch = header.index(struct.pack("<HHI", 3, 0, 0), 24)  # the discriminant of workerHeartbeat
    header[batch] = 200
    refused(bytes(header))


@pytest.mark.parametrize("count", [0, MESSAGE_ITEMS + 1, 2**32 - 1])
def test_a_batch_with_an_impossible_count_is_refused(count: int) -> None:
    with little_time_and_memory():
        assert str(count) in refused(agent_message(count))


def test_the_limit_of_items_counts_all_batches_of_a_message() -> None:
    message = schema("worker").AgentToScheduler.new_message(direction=3)
    for batch in message.init("batches", 2):
        batch.init("workerHeartbeat").count = MESSAGE_ITEMS // 2
    decode(AGENT_TO_SCHEDULER, message.to_bytes(), [])
    message.clear_write_flag()
    message.batches[1].workerHeartbeat.count += 1
    refused(message.to_bytes())


def test_endless_list_of_batches_without_bytes_is_refused_at_once() -> None:
    length = 2**29 - 1
    header = hand_made(
        struct_pointer(0, 1, 1),
        struct.pack("<Q", 3),  # the direction
        list_pointer(0, 7, 0),  # of structs without any words ...
        struct.pack("<iHH", length << 2, 0, 0),  # ... and half a billion elements without a size
    )
    with little_time_and_memory():
        refused(header)


def test_a_column_that_is_a_large_list_without_bytes_is_refused_at_once() -> None:
    message = bytearray(agent_message(1, sentNs=struct.pack("<Q", 0xABCDEF)))
    value = message.index(struct.pack("<Q", 0xABCDEF))
    pointer = next(at for at in range(8, value, 8) if message[at] & 3 == 1 and at + 8 + 8 * (message[at] >> 2) == value)
    message[pointer : pointer + 8] = list_pointer(message[pointer] >> 2, 0, 2**29 - 1)
    with little_time_and_memory():
        refused(bytes(message))


def test_same_payload_in_many_places_is_refused() -> None:
    """2048 pointers to one payload would make a message of 80 KB into one of 128 MB."""
    payloads = [b"p" * 65536] + [b""] * (MESSAGE_ITEMS - 1)
    message = bytearray(agent_message(MESSAGE_ITEMS, union="runResult", payload=payloads))
    start = message.index(b"p" * 64)
    first = start - 8 * MESSAGE_ITEMS
    for place in range(MESSAGE_ITEMS):
        at = first + 8 * place
        message[at : at + 8] = list_pointer((start - at) // 8 - 1, 2, 65536)
    with little_time_and_memory():
        assert "traversal limit" in refused(bytes(message))


def test_pointer_to_itself_is_refused() -> None:
    refused(hand_made(struct_pointer(-1, 0, 1)))


@pytest.mark.parametrize(
    "columns",
    [
        {"worker": bytes(6)},
        {"worker": bytes(3)},
        {"taskId": bytes(16)},
        {"taskId": bytes(33)},
        {"status": b"\0"},
        {"payload": [b"x"]},
        {"frames": bytes(12)},
    ],
)
def test_column_with_more_or_fewer_entries_than_items_is_refused(columns: dict[str, Any]) -> None:
    refused(agent_message(2, union="runResult", **columns))


def test_text_that_is_not_utf8_is_refused() -> None:
    header = agent_message(union="disconnectRequest", reason=["abcdefgh"])
    refused(header.replace(b"abcdefgh", b"abc\xff\xfe\xfdgh"))


def test_a_number_outside_an_enumeration_is_refused() -> None:
    assert "200 is not a TaskStatus" in refused(agent_message(2, union="runResult", status=bytes([0, 200])))
    last = max(TaskStatus)
    assert "TaskStatus" in refused(agent_message(union="runResult", status=bytes([last + 1])))
    ((result,),) = decode(AGENT_TO_SCHEDULER, agent_message(union="runResult", status=bytes([last])), [])
    assert result.status == last


@pytest.mark.parametrize(
    "item",
    [
        ObjectInstruction(max(InstructionKind) + 1, NO_ID, "", ()),
        ClientDisconnect(max(GoodbyeKind) + 1),
    ],
)
def test_every_enumeration_is_checked(item: Any) -> None:
    ((header, _),) = encode(CLIENT_TO_SCHEDULER, [item])
    refused(header, (), CLIENT_TO_SCHEDULER)


def test_fewer_frames_than_announced_are_refused() -> None:
    header = agent_message(2, union="runResult", frames=struct.pack("<2I", 1, 2))
    assert "fewer" in refused(header, [b"", b""])
    with little_time_and_memory():
        refused(agent_message(1, union="runResult", frames=struct.pack("<I", 2**32 - 1)), [b""])


def test_more_frames_than_announced_are_refused() -> None:
    assert "more" in refused(agent_message(), [b""])


# Peers of another version


WRITE_LATER = """
import capnp, sys
later = capnp.load(sys.argv[1], imports=[sys.argv[2]])
message = later.ClientToScheduler.new_message(direction=1)
(batch,) = message.init("batches", 1)
task = batch.init("task")
task.count, task.taskId, task.payload, task.colour = 1, b"t" * 16, [b"arguments"], ["green"]
print(message.to_bytes().hex())
"""


@pytest.mark.processes
def test_a_column_that_the_reader_does_not_know_is_ignored(tmp_path: Path) -> None:
    """Another process writes it with a schema in which a task has one more column; the names of schemas are global in a
    process.
    """
    text = (schema_directory() / "client.capnp").read_text().replace('"common.capnp"', '"/common.capnp"')
    columns = re.findall(r"  \w+ @\d+ :", text.partition("struct Task {")[2].partition("}")[0])
    text = text.replace("struct Task {", f"struct Task {{ colour @{len(columns)} :List(Text);", 1)
    (tmp_path / "client.capnp").write_text(text)
    command = [sys.executable, "-c", WRITE_LATER, tmp_path / "client.capnp", schema_directory()]
    written = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    task = Task(TaskId(b"t" * 16), ObjectId(NO_ID), b"arguments", b"")
    assert decode(CLIENT_TO_SCHEDULER, bytes.fromhex(written), []) == [[task]]


# Dependencies of the codec


def test_pycapnp_has_the_fast_accessors_that_the_codec_uses() -> None:
    message = schema("worker").AgentToScheduler.new_message(direction=3)
    assert callable(message._set)
    field = message.schema.fields["direction"]
    assert message.as_reader()._get_by_field(field) == 3
    message.init("batches", 1)
    assert message.as_reader().batches[0]._which_str() == "workerHello"


def test_schema_directory_has_the_schemas() -> None:
    assert {path.stem for path in schema_directory().glob("*.capnp")} >= set(SCHEMAS)


def test_camel_case() -> None:
    assert [camel_case(name) for name in ("worker", "task_id", "sent_ns")] == ["worker", "taskId", "sentNs"]


# Numbers


@pytest.mark.parametrize("n_items", [0, 1, 2, 900])
def test_numbers_are_read_without_the_rest_of_the_message(n_items: int) -> None:
    """Tried with a message of one segment and of several."""
    header, _ = encode_message(CLIENT_TO_SCHEDULER, [TaskCancel(TaskId(NO_ID))] * n_items, 2**40 + 3, 2**63 + 5)
    assert numbers(CLIENT_TO_SCHEDULER, header) == (2**40 + 3, 2**63 + 5)
    again = with_heard(header, 7)
    assert numbers(CLIENT_TO_SCHEDULER, again) == (2**40 + 3, 7)
    assert decode(CLIENT_TO_SCHEDULER, again, []) == decode(CLIENT_TO_SCHEDULER, header, [])


def test_numbers_are_read_from_messages_whose_root_is_elsewhere() -> None:
    header, _ = encode_message(CLIENT_TO_SCHEDULER, [], 5, 6)
    (words,) = struct.unpack_from("<I", header, 4)
    moved = struct.pack("<II", 0, words + 1) + struct_pointer(1, 3, 1) + bytes(8) + header[16:]
    assert numbers(CLIENT_TO_SCHEDULER, moved) == (5, 6)
    assert numbers(CLIENT_TO_SCHEDULER, hand_made(struct_pointer(0, 1, 1), struct.pack("<Q", 1), bytes(8))) == (0, 0)


@pytest.mark.parametrize("header", [b"", b"x", b"\xff" * 64])
def test_numbers_of_bytes_that_are_not_a_message_are_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError) as refusal:
        numbers(CLIENT_TO_SCHEDULER, header)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"name": 23}, TypeError),
        ({"name": None}, TypeError),
        ({"payload": None}, TypeError),
        ({"payload": "text"}, TypeError),
        ({"frames": None}, TypeError),
        ({"frames": ("text",)}, TypeError),
        ({"priority": 2**31}, ValueError),
        ({"priority": 2.5}, ValueError),
        ({"rows": -1}, ValueError),
        ({"object_ids": b"x"}, ValueError),
    ],
    ids=str,
)
def test_the_error_of_an_unwritable_item_names_its_field(wrong: dict[str, Any], error: type[Exception]) -> None:
    good = Task(TaskId(b"t" * 16), ObjectId(b"f" * 16), b"payload", b"", frames=(b"frame",))
    check_item(CLIENT_TO_SCHEDULER, good)
    with pytest.raises(error, match=f"the field {camel_case(next(iter(wrong)))!r} of a Task cannot be "):
        check_item(CLIENT_TO_SCHEDULER, replace(good, **wrong))
