"""The schemas and the message classes say the same, and the schemas say what everything is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import capnp
import pytest

from scaler.wire.codec.codec import camel_case, union_name
from scaler.wire.codec.columns import column_kinds
from scaler.wire.codec.schemas import schema_directory
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages import client, common, monitor, processor, worker
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.directions import DIRECTIONS, Direction
from scaler.wire.messages.worker import HELD_RUN

SCHEMAS = {path.stem: path for path in sorted(schema_directory().glob("*.capnp"))}
LOADED = {name: capnp.load(str(path), imports=[str(schema_directory())]) for name, path in SCHEMAS.items()}
COLUMN_TYPES = {
    "u8": "data",
    "u16": "data",
    "u32": "data",
    "u64": "data",
    "i32": "data",
    "id": "data",
    "bytes": "list of data",
    "text": "list of text",
    "frames": "data",
}
BATCHES = {batch for direction in DIRECTIONS for batch in direction.batches}


def type_name(kind: Any) -> str:
    which = str(kind.which())
    return f"list of {kind.list.elementType.which()}" if which == "list" else which


def schema_fields(struct: Any) -> dict[str, str]:
    """Name -> type, in the order of the ordinals."""
    fields = sorted(struct.node.struct.fields, key=lambda field: field.ordinal.explicit)
    return {field.name: type_name(field.slot.type) for field in fields}


def union(direction: Direction) -> Any:
    return getattr(LOADED[direction.schema], direction.name).Batch.schema


def struct_of(batch: type[Batch[Any]]) -> Any:
    for direction in DIRECTIONS:
        if batch in direction.batches:
            return union(direction).fields[union_name(batch.item)].schema
    raise AssertionError(f"{batch.__name__} is in no direction")


def structs(schema: Any) -> Iterator[str]:
    return (node.name for node in schema.schema.node.nestedNodes)


@pytest.mark.parametrize("batch", sorted(BATCHES, key=lambda b: b.item.__name__), ids=lambda b: b.item.__name__)
def test_struct_equals_its_class_field_by_field(batch: type[Batch[Any]]) -> None:
    struct = struct_of(batch)
    assert struct.node.displayName.rpartition(":")[2] == batch.item.__name__
    columns = {camel_case(name): COLUMN_TYPES[kind] for name, (kind, _) in column_kinds(batch.item).items()}
    assert list(schema_fields(struct).items()) == [("count", "uint32"), *columns.items()]


WIDTHS = {"i32": "Int32", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64", "frames": "UInt32"}


@pytest.mark.parametrize("batch", sorted(BATCHES, key=lambda b: b.item.__name__), ids=lambda b: b.item.__name__)
def test_the_schema_documents_the_width_of_columns(batch: type[Batch[Any]]) -> None:
    """Cap'n Proto does not know: to it they are bytes."""
    text = next(text for path in SCHEMAS.values() if f"struct {batch.item.__name__} {{" in (text := path.read_text()))
    body = text.partition(f"struct {batch.item.__name__} {{")[2].partition("}")[0]
    for name, (kind, _) in column_kinds(batch.item).items():
        said = re.search(rf"^  {camel_case(name)} @\d+ :Data; *# (U?Int\d+) column: ", body, re.MULTILINE)
        assert (said and said[1]) == WIDTHS.get(kind), name


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_union_of_a_direction_is_the_messages_that_travel_it(direction: Direction) -> None:
    members = [field.name for field in union(direction).node.struct.fields]
    assert sorted(members) == sorted(map(union_name, direction.items))


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_a_direction_is_a_union_of_batches_with_numbers(direction: Direction) -> None:
    struct = getattr(LOADED[direction.schema], direction.name).schema
    numbers = {} if direction.schema == "processor" else {"number": "uint64", "heard": "uint64"}
    assert schema_fields(struct) == {"batches": "list of struct", "direction": "uint16", **numbers}
    body = re.search(rf"struct {direction.name} {{(.+?)struct Batch", SCHEMAS[direction.schema].read_text(), re.DOTALL)
    assert body is not None
    assert f"# always {direction.number}:" in body[1]


def test_directions_have_different_numbers_and_none_is_zero() -> None:
    numbers = [direction.number for direction in DIRECTIONS]
    assert sorted(numbers) == list(range(1, len(DIRECTIONS) + 1))


def test_every_message_class_is_in_a_direction() -> None:
    modules = (client, common, monitor, processor, worker)
    named = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    items = {item for item in named if dataclasses.is_dataclass(item)}
    assert items == {batch.item for batch in BATCHES}


def test_every_struct_is_a_direction_or_a_message_class() -> None:
    items = {batch.item.__name__ for batch in BATCHES} | {TaskFailure.__name__, RunOptions.__name__}
    directions = {direction.name for direction in DIRECTIONS}
    for schema in LOADED.values():
        assert set(structs(schema)) <= items | directions


@pytest.mark.parametrize("struct", [RunOptions, TaskFailure])
def test_what_lies_inside_a_column_equals_its_struct(struct: type[RunOptions | TaskFailure]) -> None:
    columns = schema_fields(getattr(LOADED["common"], struct.__name__).schema)
    behind = {TaskFailure: ["place"]}  # it follows the message
    assert [*columns, *behind.get(struct, ())] == [camel_case(name) for name in struct._fields]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_has_a_comment(name: str) -> None:
    """On its line; the members of a union say it where their struct is."""
    inside_union = False
    for number, line in enumerate(SCHEMAS[name].read_text().splitlines(), 1):
        inside_union = (inside_union or line.strip() == "union {") and line.strip() != "}"
        if re.match(r"\s+\w+ @\d+ :", line) and not inside_union:
            assert re.search(r";\s+# \S", line), f"{name}.capnp:{number}: {line.strip()}"


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_struct_has_a_comment(name: str) -> None:
    text = SCHEMAS[name].read_text()
    directions = {direction.name for direction in DIRECTIONS}
    for struct, following in re.findall(r"^struct (\w+) {\n(.*)", text, re.MULTILINE):
        assert struct in directions or following.strip().startswith("# "), f"{name}.capnp: {struct}"


def test_statuses_are_listed_in_the_schema_and_in_the_readme() -> None:
    listed = re.search(r"status @2 :Data;(.+?)payload", SCHEMAS["client"].read_text(), re.DOTALL)
    assert listed is not None
    names = dict(re.findall(r"(\d+) ([a-z ]+)", listed[1].replace("#", "").replace("\n", " ")))
    assert {int(number): name.strip() for number, name in names.items()} == {
        status.value: status.name.lower().replace("_", " ") for status in TaskStatus
    }
    readme = (Path(schema_directory()) / "README.md").read_text()
    for status in TaskStatus:
        assert f"| {status.value} | {status.name.lower().replace('_', ' ')} |" in readme


def test_held_runs_match_the_schema() -> None:
    assert "16 bytes id, UInt32 attempt, UInt16 worker, UInt32 rows, little-endian" in SCHEMAS["worker"].read_text()
    assert HELD_RUN.format == "<16sIHI"
