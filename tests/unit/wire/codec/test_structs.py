from __future__ import annotations

import pytest

from scaler.errors import ProtocolError
from scaler.wire.codec.schemas import SCHEMAS
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.seeds import NO_SEED

ALL = RunOptions(
    True,
    True,
    3,
    2_500,
    (("gpu", 1), ("größe", 0)),
    True,
    ("OSError",),
    250,
    9,
    (0, 65535),
    "w",
    (7, 0, 2**32 - 1),
    True,
)


def test_a_task_failure_survives_encoding() -> None:
    failure = TaskFailure("ValueError", "schön ist anders", "Traceback\n  ...\n", b"\0pickle", ("Exception",))
    assert TaskFailure.decode(failure.encode()) == failure


def test_a_task_failure_with_an_undecodable_character_arrives_readable() -> None:
    failure = TaskFailure("FileNotFoundError", "no file \udc80", "\ud800", b"")
    assert TaskFailure.decode(failure.encode())[1:3] == ("no file \\udc80", "\\ud800")


def test_a_large_task_failure_survives_encoding() -> None:
    failure = TaskFailure("E", "", "", bytes(70_000_000))
    assert TaskFailure.decode(failure.encode()) == failure


@pytest.mark.parametrize("payload", [b"x", b"\xff" * 16, b"\0\0\0\0\1\0\0\0"])
def test_bytes_that_are_not_a_task_failure_are_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        TaskFailure.decode(payload)


def test_options_survive_encoding() -> None:
    assert RunOptions.decode(ALL.encode()) == ALL
    assert all(value for value in ALL), "each has another value than its default"


def test_the_spawn_key_of_a_row_is_the_number_in_its_id() -> None:
    row = bytes(range(8)) + (2**40).to_bytes(8, "big")
    assert ALL.seed_of(row) == (ALL.seed, (2**40,))
    assert ALL._replace(seed_spawns=False).seed_of(row) == (ALL.seed, ())
    assert RunOptions(seed_spawns=True).seed_of(row) == NO_SEED


def test_default_options_are_encoded_as_no_bytes() -> None:
    assert RunOptions().encode() == b""
    assert RunOptions.decode(b"") == RunOptions()


def test_options_of_a_later_version_are_read_without_their_new_fields() -> None:
    """The message has one word of numbers and one pointer more than this version, as an added field would make it."""
    message = SCHEMAS["common"].RunOptions.new_message(profiling=True, retries=3).to_bytes()
    size, root = int.from_bytes(message[4:8], "little"), message[8:16]
    numbers, pointers = int.from_bytes(root[4:6], "little"), int.from_bytes(root[6:8], "little")
    body = message[16 : 16 + 8 * numbers] + b"\xff" * 8 + bytes(8 * pointers) + bytes(8)
    root = root[:4] + (numbers + 1).to_bytes(2, "little") + (pointers + 1).to_bytes(2, "little")
    later = bytes(4) + (size + 2).to_bytes(4, "little") + root + body
    assert RunOptions.decode(later) == RunOptions(profiling=True, retries=3)


@pytest.mark.parametrize("data", [b"x", b"\xff" * 16, b"\0\0\0\0\1\0\0\0"])
def test_bytes_that_are_not_options_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="not the options of a task"):
        RunOptions.decode(data)
