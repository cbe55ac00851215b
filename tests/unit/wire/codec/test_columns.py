"""The rules for values of columns, which are the same for writing and reading."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.config import WORKERS_MOST
from scaler.errors import ProtocolError
from scaler.ids import ID_BYTES, NO_ID, ObjectId, TaskId
from scaler.scheduler.edge import FIRST_BYTES
from scaler.wire.codec import codec, columns
from scaler.wire.codec.codec import decode, encode, encode_message
from scaler.wire.codec.columns import REASON_CHARACTERS, TEXT_CHARACTERS, column_kinds
from scaler.wire.codec.stencils import SEEN_BEFORE_CUT
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import Task
from scaler.wire.messages.columns import NEEDED_MOST, ROWS_MOST, Batch, FixedRows, UpperLimit
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER, DIRECTIONS, Direction
from scaler.wire.messages.worker import HELD_MOST, HELD_RUN, DrainRequest, WorkerHello
from tests.support.items import default_item

ROWS = [
    pytest.param(direction, batch, name, rule, id=f"{direction.name}-{batch.item.__name__}-{name}")
    for direction in DIRECTIONS
    for batch in direction.batches
    for name, (_, rule) in column_kinds(batch.item).items()
    if isinstance(rule, FixedRows)
]
COUNTS = [
    pytest.param(direction, batch.item, name, rule.most, id=f"{direction.name}-{batch.item.__name__}-{name}")
    for direction in DIRECTIONS
    for batch in direction.batches
    for name, (_, rule) in column_kinds(batch.item).items()
    if isinstance(rule, UpperLimit)
]
HELLO = WorkerHello(1, "0", "3", "3", NO_ID, "a", b"")


def test_ids_and_records_are_rows() -> None:
    assert {param.values[2] for param in ROWS} == {
        *("object_ids", "inputs", "dependencies", "held", "held_owners", "profile", "sizes"),
        *("workers", "processors", "bins", "functions", "runs"),
    }


@pytest.mark.parametrize(("direction", "batch", "name", "rule"), ROWS)
def test_an_incomplete_row_is_neither_written_nor_read(
    direction: Direction, batch: type[Batch[Any]], name: str, rule: FixedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = (replace(default_item(batch.item), **{name: bytes(size)}) for size in (rule.size, rule.size - 1))
    ((header, _),) = encode(direction, [good])
    assert decode(direction, header, []) == [[good]]
    with pytest.raises(ProtocolError, match="rows"):
        encode(direction, [bad])
    careless = columns.ColumnCodec(b"", lambda values: values, lambda _reader, _count: ())
    monkeypatch.setattr(codec, "_CODECS", with_column(direction, batch, name, careless))
    ((header, _),) = encode(direction, [bad])
    monkeypatch.undo()
    with pytest.raises(ProtocolError, match="rows"):
        decode(direction, header, [])


def with_column(
    direction: Direction, batch: type[Batch[Any]], name: str, column: columns.ColumnCodec
) -> dict[str, Any]:
    """Return the codecs with one that does not check a field, as codecs of other programs need not."""
    fresh = codec._DirectionCodec(direction)
    item = fresh.by_item[batch.item]
    item._fields = [
        field._replace(column=column) if field.name == codec.camel_case(name) else field for field in item._fields
    ]
    return {direction.name: fresh}


def test_the_number_of_rows_is_bounded() -> None:
    column = columns.column_of("bytes", FixedRows(ID_BYTES, 2))
    assert column.write([bytes(32), b""]) == [bytes(32), b""]
    with pytest.raises(ProtocolError, match="at most 2 rows"):
        column.write([bytes(48)])
    with pytest.raises(ProtocolError, match="at most 2 rows"):
        column.read([bytes(48)], 1)


@pytest.mark.parametrize(
    ("direction", "item"),
    [
        (AGENT_TO_SCHEDULER, replace(HELLO, held=bytes((HELD_MOST + 1) * HELD_RUN.size))),
        (CLIENT_TO_SCHEDULER, Task(TaskId(NO_ID), ObjectId(NO_ID), b"", bytes((NEEDED_MOST + 1) * ID_BYTES))),
        (CLIENT_TO_SCHEDULER, replace(default_item(Task), dependencies=bytes((NEEDED_MOST + 1) * 4))),
        (CLIENT_TO_SCHEDULER, replace(default_item(Task), inputs=bytes((NEEDED_MOST + 1) * ID_BYTES))),
    ],
    ids=["held", "objects of a task", "dependencies", "inputs"],
)
def test_items_with_too_many_names_cannot_be_encoded(direction: Direction, item: Any) -> None:
    with pytest.raises(ProtocolError, match="rows"):
        encode(direction, [item])


def test_the_rows_of_every_task_message_are_bounded() -> None:
    known = [
        (name, rule)
        for direction in DIRECTIONS
        for batch in direction.batches
        for name, (kind, rule) in column_kinds(batch.item).items()
        if name == "rows" and kind == "u32"
    ]
    assert known
    assert set(known) == {("rows", UpperLimit(ROWS_MOST))}


@pytest.mark.parametrize(("direction", "item", "name", "most"), COUNTS)
def test_a_count_beyond_its_limit_is_written_and_not_read(
    direction: Direction, item: type, name: str, most: int
) -> None:
    """This holds for stencils too: the message has the shape of the earlier ones."""
    for _ in range(SEEN_BEFORE_CUT + 1):
        header, frames = encode_message(direction, [replace(default_item(item), **{name: most})])
        assert getattr(decode(direction, header, frames)[0][0], name) == most
    for count in (most + 1, 2**31, 2**32 - 1):
        header, frames = encode_message(direction, [replace(default_item(item), **{name: count})])
        with pytest.raises(ProtocolError, match="at most 4,096"):
            decode(direction, header, frames)


@pytest.mark.parametrize("field", ["worker_names", "capabilities"])
def test_names_are_counted_before_their_list_is_split(field: str) -> None:
    ((header, _),) = encode(AGENT_TO_SCHEDULER, [replace(HELLO, **{field: "a" + ",a" * columns.NAMES_MOST})])
    with pytest.raises(ProtocolError, match="more than 65536 names"):
        decode(AGENT_TO_SCHEDULER, header, [])


def test_a_hello_with_the_most_workers_and_the_most_runs_can_be_sent() -> None:
    names = ",".join(f"a-host-with-a-name-{number:05}" for number in range(WORKERS_MOST))
    hello = replace(HELLO, worker_names=names, held=bytes(HELD_MOST * HELD_RUN.size))
    ((header, _),) = encode(AGENT_TO_SCHEDULER, [hello])
    assert decode(AGENT_TO_SCHEDULER, header, []) == [[hello]]
    assert len(header) <= FIRST_BYTES


def test_malformed_options_are_not_read_by_a_stencil() -> None:
    good = RunOptions(profiling=True).encode()
    task = Task(TaskId(b"t" * 16), ObjectId(b"f" * 16), b"", b"", options=good)
    for _ in range(2 * SEEN_BEFORE_CUT):
        ((header, _),) = encode(CLIENT_TO_SCHEDULER, [task])
        assert decode(CLIENT_TO_SCHEDULER, header, []) == [[task]]
    assert header.count(good) == 1
    with pytest.raises(ProtocolError, match="not the options of a task"):
        decode(CLIENT_TO_SCHEDULER, header.replace(good, b"\xff" * len(good)), [])


def test_texts_are_read_as_one_short_line() -> None:
    ((header, _),) = encode(AGENT_TO_SCHEDULER, [DrainRequest("a\nb\x1b[2J" + "x" * 100_000)])
    ((drain,),) = decode(AGENT_TO_SCHEDULER, header, [])
    assert drain.reason.startswith(r"a\nb\x1b[2Jxxx")
    assert len(drain.reason) == REASON_CHARACTERS
    ((header, _),) = encode(AGENT_TO_SCHEDULER, [replace(HELLO, python_version="3\n" * 1000)])
    ((hello,),) = decode(AGENT_TO_SCHEDULER, header, [])
    assert hello.python_version.startswith(r"3\n3\n")
    assert len(hello.python_version) == TEXT_CHARACTERS


def test_each_name_of_a_list_is_cut_separately() -> None:
    names = ",".join(f"{number}\n" + "x" * 300 for number in range(100))
    ((header, _),) = encode(AGENT_TO_SCHEDULER, [replace(HELLO, worker_names=names)])
    ((hello,),) = decode(AGENT_TO_SCHEDULER, header, [])
    read = hello.worker_names.split(",")
    assert len(read) == 100
    assert read[7].startswith(r"7\nxxx")
    assert {len(name) for name in read} == {TEXT_CHARACTERS}


@pytest.mark.parametrize("direction", [CLIENT_TO_SCHEDULER, AGENT_TO_SCHEDULER])
def test_enumerations_have_only_their_numbers(direction: Direction) -> None:
    column = next(
        columns.column_of(kind, rule)
        for batch in direction.batches
        for kind, rule in column_kinds(batch.item).values()
        if isinstance(rule, type)
    )
    with pytest.raises(ProtocolError, match="is no"):
        column.read(bytes([255]), 1)
