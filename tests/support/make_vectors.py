"""Write protocol/vectors: messages as bytes and their meaning, for codecs in other languages and for our own.

    python -m tests.support.make_vectors

The output is always the same. tests/unit/wire/test_vectors.py fails when the files must be written again.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from scaler.ids import GraphId, ObjectId, TaskId, content_id
from scaler.pickling.serialization import FRAMES as FRAMES_OUTSIDE
from scaler.pickling.serialization import NAMED, OBJECT, RESULT, VALUE, argument_block, result_argument
from scaler.wire.codec.codec import camel_case, encode, encode_message, union_name
from scaler.wire.codec.columns import Rule, column_kinds
from scaler.wire.codec.schemas import SCHEMAS, schema_directory
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.client import InputResult, Task, TaskCancel
from scaler.wire.messages.columns import ROWS_MOST, UpperLimit
from scaler.wire.messages.common import PROFILE, TaskStatus
from scaler.wire.messages.directions import (
    AGENT_TO_PROCESSOR,
    CLIENT_TO_SCHEDULER,
    DIRECTIONS,
    PROCESSOR_TO_AGENT,
    Direction,
)
from scaler.wire.messages.monitor import BIN_ROW, FUNCTION_ROW, PROCESSOR_ROW, RUN_ROW, WORKER_ROW
from scaler.wire.messages.seeds import CallSeed, seed_words
from scaler.wire.messages.worker import HELD_RUN
from tests.support.items import default_item

FOLDER = schema_directory() / "vectors"

Json = dict[str, Any]


def sample_id(number: int) -> bytes:
    return bytes(16 * number + place & 0xFF for place in range(16))


HELD = HELD_RUN.pack(sample_id(1), 2, 0, 0) + HELD_RUN.pack(sample_id(2), 1, 3, 4)
TEXTS = {
    "capabilities": "gpu=2,licence=1",
    "package_version": "1.2.3",
    "python_version": "3.11.7",
    "cloudpickle_version": "3.1.1",
    "worker_names": "node-0,node-1,node-2,node-3",
    "name": "measure <lambda> größe",
    "reason": "because … so ist es",
}
SHORT = [bytes(range(8)), b"", bytes(range(8, 16))]
BYTES = {
    "payload": [b"the result", b"", bytes(range(20))],
    "object_ids": [sample_id(7) + sample_id(8), b"", sample_id(9)],
    "held": [HELD, b"", HELD[:26]],
    "location": [b"", bytes(range(48)), b""],
    "profile": [PROFILE.pack(1_250_000, 800_000, 3 * 2**20), b"", PROFILE.pack(0, 0, 0)],
    "options": [RunOptions(profiling=True).encode(), b"", RunOptions(retries=3, capabilities=(("gpu", 1),)).encode()],
    "sizes": [bytes((0, 2, 0, 0, 0, 0, 0, 0, 64, 226, 1, 0, 0, 0, 0, 0)), b"", bytes((8, *bytes(7)))],
    "dependencies": [bytes((0, 0, 0, 0, 2, 1, 0, 0)), b"", bytes((3, 0, 0, 0))],
    "inputs": [sample_id(5), b"", sample_id(6) + sample_id(7)],
    "durations": [struct.pack("<32I", *range(32)), b"", bytes(128)],
    "workers": [WORKER_ROW.pack(995, 3, 2, 1, 3, 2**30, SHORT[0], 1500, 77), b"", bytes(WORKER_ROW.size)],
    "processors": [
        PROCESSOR_ROW.pack(4711, 1, 3, 995, 1500, 2**28, 2**29, SHORT[0], SHORT[2]),
        b"",
        bytes(2 * PROCESSOR_ROW.size),
    ],
    "functions": [
        FUNCTION_ROW.pack(SHORT[0], 5, 4_200_000, 90, 1_500_000, *range(32)),
        b"",
        bytes(FUNCTION_ROW.size),
    ],
    "runs": [RUN_ROW.pack(bytes(range(16)), 1, 0, 1500, SHORT[0]), b"", bytes(RUN_ROW.size)],
    "bins": [BIN_ROW.pack(1, 1234, 20, 1, 0, 0, SHORT[0]), b"", bytes(BIN_ROW.size)],
}
FRAMES: list[tuple[bytes, ...]] = [(b"first frame", b"second frame"), (), (b"",)]
NUMBERS = {
    "u8": [1, 0, 255],
    "u16": [1, 0, 65535],
    "u32": [3, 0, 2**32 - 1],
    "i32": [65541, 0, -7],
    "u64": [5, 0, 2**64 - 1],
}


def value(name: str, kind: str, rule: Rule, index: int) -> Any:
    """Return a value for the field of one item: small, plain, and different for two items in a row."""
    if isinstance(rule, type):
        return list(rule)[(index + 1) % len(rule)].value
    if kind == "id":
        return sample_id(index + 1)
    if kind == "text":
        return TEXTS.get(name, f"the {name}") if index == 0 else ""
    if kind == "frames":
        return FRAMES[index % 3]
    if isinstance(rule, UpperLimit):
        return min(NUMBERS[kind][index % 3], rule.most)
    return (BYTES.get(name, SHORT) if kind == "bytes" else NUMBERS[kind])[index % 3]


def sample(item: type, index: int) -> Any:
    return item(**{name: value(name, *kind, index) for name, kind in column_kinds(item).items()})


def value_as_json(kind: str, field: Any) -> Any:
    if kind == "frames":
        return [bytes(frame).hex() for frame in field]
    return bytes(field).hex() if kind in ("id", "bytes") else field


def item_as_json(item: Any) -> Json:
    kinds = column_kinds(type(item))
    return {camel_case(name): value_as_json(kind, getattr(item, name)) for name, (kind, _) in kinds.items()}


def items_as_json(items: Iterable[Any]) -> list[Json]:
    return [{"kind": union_name(kind), "items": [*map(item_as_json, run)]} for kind, run in groupby(items, type)]


def value_from_json(kind: str, field: Any) -> Any:
    if kind == "frames":
        return tuple(map(bytes.fromhex, field))
    return bytes.fromhex(field) if kind in ("id", "bytes") else field


def items_from_json(direction: Direction, batches: list[Json]) -> list[Any]:
    classes = {union_name(batch.item): batch.item for batch in direction.batches}
    items = []
    for batch in batches:
        item = classes[batch["kind"]]
        kinds = column_kinds(item)
        items += [
            item(**{name: value_from_json(kind, fields[camel_case(name)]) for name, (kind, _) in kinds.items()})
            for fields in batch["items"]
        ]
    return items


def message(title: str, direction: Direction, items: list[Any], number: int = 0, heard: int = 0) -> Json:
    header, frames = encode_message(direction, items, number, heard)
    return {
        "title": title,
        "number": number,
        "heard": heard,
        "header": header.hex(),
        "frames": [bytes(frame).hex() for frame in frames],
        "batches": items_as_json(items),
    }


def messages(direction: Direction) -> Json:
    """Return vectors for each kind of item (one item, three, three of defaults), and for all kinds in one message."""
    vectors = []
    members = getattr(SCHEMAS[direction.schema], direction.name).Batch.schema.union_fields
    batches = sorted(direction.batches, key=lambda batch: members.index(union_name(batch.item)))
    for batch in batches:
        item, name = batch.item, union_name(batch.item)
        vectors.append(message(f"one {name}", direction, [sample(item, 0)]))
        vectors.append(message(f"three {name}", direction, [sample(item, index) for index in range(3)]))
        vectors.append(message(f"three {name}, all columns empty", direction, [default_item(item)] * 3))
    if direction is CLIENT_TO_SCHEDULER:
        vectors += [message(title, direction, items) for title, items in calls_with_needs().items()]
    mixed = [sample(batch.item, index) for batch in batches for index in range(2)]
    vectors.append(message("all kinds, and the first one once more", direction, [*mixed, mixed[0]]))
    if direction not in (AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT):
        vectors.append(message("an acknowledgement alone", direction, [], 0, 258))
        vectors.append(message("the first message", direction, mixed[:2], 1, 0))
        vectors.append(message("a later message", direction, mixed, 2**40 + 3, 2**63 + 5))
    return {"direction": direction.name, "number": direction.number, "messages": vectors}


def calls_with_needs() -> dict[str, list[Any]]:
    """Return items about calls that need results of other calls: a graph, its cancel, and a task with inputs."""
    graph_id, function_id = GraphId(sample_id(8)), ObjectId(sample_id(9))
    value = argument_block(VALUE, b"\x80\x05K\x03.")

    def call(number: int, *arguments: bytes, **needs: Any) -> Task:
        return Task(TaskId(sample_id(number)), function_id, b"".join(arguments), b"", **needs)

    def in_graph(number: int, *arguments: bytes, **needs: Any) -> Task:
        return call(number, *arguments, graph_id=graph_id, graph_tasks=3, **needs)

    both = result_argument(0), result_argument(1)
    return {
        "a graph of three tasks; the client needs the result of the last one": [
            in_graph(1, value, unwanted=1),
            in_graph(2, both[0], value, dependencies=struct.pack("<I", 0), unwanted=1),
            in_graph(3, *both, dependencies=struct.pack("<II", 0, 1)),
        ],
        "a cancel of a graph": [TaskCancel(TaskId(sample_id(3)), graph_id=graph_id)],
        "a task with two inputs, one of which has ended": [
            call(4, *both, inputs=sample_id(5) + sample_id(6)),
            InputResult(TaskId(sample_id(5)), TaskStatus.SUCCESS, b"\x80\x05K\x07."),
        ],
        "the results of two inputs, a large one and one that was cancelled": [
            InputResult(TaskId(sample_id(6)), TaskStatus.SUCCESS, b"", 80_000_000),
            InputResult(TaskId(sample_id(7)), TaskStatus.CANCELED, b""),
        ],
    }


def refused() -> Json:
    """Return messages of a client that must be refused, and why."""
    ((header, _),) = encode(CLIENT_TO_SCHEDULER, [TaskCancel(ObjectId(sample_id(1)))])
    ((two, _),) = encode(CLIENT_TO_SCHEDULER, [TaskCancel(ObjectId(sample_id(n))) for n in (1, 2)])  # type: ignore[arg-type]
    ((long, _),) = encode(CLIENT_TO_SCHEDULER, [TaskCancel(ObjectId(sample_id(1)), rows=ROWS_MOST + 1)])
    task = Task(sample_id(1), sample_id(2), b"", b"")  # type: ignore[arg-type]
    ((hello, _),) = encode(CLIENT_TO_SCHEDULER, [task])
    count_at = two.index((2).to_bytes(4, "little"), two.index(sample_id(1)) - 40)
    too_many = two[:count_at] + (3).to_bytes(4, "little") + two[count_at + 4 :]
    none = header[:24] + header[24:].replace((1).to_bytes(8, "little"), bytes(8))  # behind the direction
    return {
        "direction": CLIENT_TO_SCHEDULER.name,
        "messages": [
            {"title": "no bytes", "header": "", "frames": []},
            {"title": "no Cap'n Proto", "header": b"GET / HTTP/1.1\r\n".hex(), "frames": []},
            {
                "title": "an empty message: direction 0",
                "header": (bytes(4) + b"\1\0\0\0" + bytes(8)).hex(),
                "frames": [],
            },
            {"title": "cut off in the middle", "header": hello[: len(hello) // 16 * 8].hex(), "frames": []},
            {"title": "a payload frame that belongs to nobody", "header": header.hex(), "frames": ["00"]},
            {"title": "an id column of two for three items", "header": too_many.hex(), "frames": []},
            {"title": "a batch of no items", "header": none.hex(), "frames": []},
            {"title": "more rows than a task may have", "header": long.hex(), "frames": []},
        ],
    }


PLACE = zlib.compress(
    b'{"host":"rome07","worker":"rome07-3","python":"3.12.1","packages":{"numpy":"2.0.0"},"variables":["HOME","PATH"],'
    b'"omitted":0}'
)
"""facts about the process in which a task failed"""


def parts() -> Json:
    failure = TaskFailure(
        "builtins.ValueError",
        "größer als 3",
        "Traceback (most recent call last):\n",
        b"\x80\x05pickle",
        (),
        sample_id(9),
        PLACE,
    )
    arguments: list[Json] = [
        {"kind": VALUE, "name": "", "data": b"\x80\x05K\x03."},
        {"kind": OBJECT, "name": "", "data": sample_id(7)},
        {"kind": VALUE, "name": "länge", "data": b""},
    ]
    options = RunOptions(
        True,
        True,
        3,
        2_500,
        (("gpu", 1), ("licence", 0)),
        False,
        ("OSError", "my.Error"),
        250,
        seed=(7, 1),
        seed_spawns=True,
    )
    seeds = [CallSeed(seed_words(7)), options.seed_of(sample_id(1)), CallSeed((1, 2, 3, 4, 5), (2**32,))]
    named = (NAMED, "fläche".encode())
    frames = (b"\x80\x05the pickle", b"a buffer", b"\x80\x05another")
    outside: list[Json] = [
        {"kind": FRAMES_OUTSIDE, "name": "", "data": (2).to_bytes(4, "little") + (20).to_bytes(8, "little")},
        arguments[0],
        {"kind": FRAMES_OUTSIDE, "name": "länge", "data": (1).to_bytes(4, "little") + (9).to_bytes(8, "little")},
    ]
    with_result = [{"kind": RESULT, "name": "", "data": (258).to_bytes(4, "little")}, arguments[0]]
    return {
        "taskFailure": {
            "payload": failure.encode().hex(),
            "meaning": {
                **failure._asdict(),
                **{key: getattr(failure, key).hex() for key in ("exception", "task_id", "place")},
            },
        },
        "runOptions": {"payload": options.encode().hex(), "meaning": options._asdict()},
        "seeds": [{**each._asdict(), "state": each.state(8)} for each in seeds],
        "arguments": {
            "payload": _block(arguments).hex(),
            "meaning": [{**a, "data": a["data"].hex()} for a in arguments],
        },
        "argumentsWithFrames": {
            "payload": _block(outside).hex(),
            "meaning": [{**a, "data": a["data"].hex()} for a in outside],
            "frames": [frame.hex() for frame in frames],
            "framesOfEach": [[frame.hex() for frame in frames[:2]], [], [frames[2].hex()]],
        },
        "argumentsWithResults": {
            "payload": _block(with_result).hex(),
            "meaning": [{**a, "data": a["data"].hex()} for a in with_result],
            "whenItRuns": _block([{"kind": VALUE, "name": "", "data": b"\x80\x05K\x07."}, arguments[0]]).hex(),
            "result": b"\x80\x05K\x07.".hex(),
        },
        "held": {
            "payload": HELD.hex(),
            "meaning": [
                {"taskId": sample_id(1).hex(), "attempt": 2, "worker": 0, "rows": 0},
                {"taskId": sample_id(2).hex(), "attempt": 1, "worker": 3, "rows": 4},
            ],
        },
        "namedFunction": {
            "name": "fläche",
            "frames": [frame.hex() for frame in named],
            "id": content_id(named).hex(),
        },
    }


def _block(arguments: list[Json]) -> bytes:
    return b"".join(argument_block(each["kind"], each["data"], each["name"]) for each in arguments)


def files() -> dict[str, str]:
    contents: dict[str, Json] = {
        **{f"{direction.name}.json": messages(direction) for direction in DIRECTIONS},
        "refused.json": refused(),
        "parts.json": parts(),
    }
    return {name: _text(content) for name, content in contents.items()}


def _text(content: Json) -> str:
    """Return JSON with one line for each message and for each other part."""
    lines = []
    for key, value in content.items():
        rows = [f"  {json.dumps(row, ensure_ascii=False)}" for row in value] if isinstance(value, list) else []
        text = "[\n" + ",\n".join(rows) + "\n ]" if rows else json.dumps(value, ensure_ascii=False)
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for stale in set(FOLDER.glob("*.json")) - {FOLDER / name for name in files()}:
        stale.unlink()
    for name, content in files().items():
        Path(FOLDER / name).write_text(content)
    print(f"{len(files())} files in {FOLDER}")


if __name__ == "__main__":
    sys.exit(main())
