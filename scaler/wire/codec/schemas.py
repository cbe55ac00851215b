"""Schemas: loads each schema file of the protocol once, and opens messages with them.

Used by the codec and by the structs inside columns. No part of a message can be read more than twice.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import capnp

from scaler.errors import ProtocolError

_SPARE_WORDS = 64
_SEGMENT_TABLE = struct.Struct("<II")


def schema_directory() -> Path:
    """Return the directory of the schema files: in the installed package, or next to the package in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "protocol"
    return installed if installed.is_dir() else package.parent / "protocol"


def read(schema: Any, data: bytes) -> Any:
    """Open a message. Each part can be read at most twice, so that a malicious message cannot make reading endless."""
    return schema.from_segments(_segments(data)[0], traversal_limit_in_words=len(data) // 4 + _SPARE_WORDS)


def first_line(error: Exception) -> str:
    """Return the message of an error, without the stack that the library appends."""
    return str(error).partition("\n")[0]


def utf8(text: str) -> bytes:
    """Return any `str` as bytes, even a text with lone surrogates, as in file names and exceptions."""
    return text.encode("utf-8", "backslashreplace")


def behind(data: bytes) -> bytes:
    """Return the bytes of `data` after the message with which `data` begins, in the standard framing."""
    return data[_segments(data)[1] :]


def _segments(data: bytes) -> tuple[list[bytes], int]:
    """Return the segments of the message with which `data` begins, in the standard framing, and its end."""
    more, size = _SEGMENT_TABLE.unpack_from(data)
    if more == 0:
        return [data[8 : 8 + 8 * size]], 8 + 8 * size
    if more >= len(data) // 4:
        raise ProtocolError(f"a message of {len(data)} bytes cannot have {more + 1} segments")
    sizes = struct.unpack_from(f"<{more + 1}I", data, 4)
    start = (8 + 4 * more + 7) // 8 * 8
    segments = []
    for words in sizes:
        segments.append(data[start : start + 8 * words])
        start += 8 * words
    return segments, start


def check_working_directory() -> None:
    """Check that this process has a working directory, without which the Cap'n Proto library would abort the process.

    Raises:
        FileNotFoundError: if there is no working directory.
    """
    try:
        os.getcwd()  # noqa: PTH109 - faster, and called for each new client
    except FileNotFoundError as error:
        text = "the working directory of this process was deleted: change to one that exists, and start again"
        raise FileNotFoundError(error.errno, text) from None


class _Schemas(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        check_working_directory()
        directory = schema_directory()
        schema = self[name] = capnp.load(str(directory / f"{name}.capnp"), imports=[str(directory)])
        return schema


SCHEMAS = _Schemas()


def load_schemas(*names: str) -> None:
    """Load schema files now. A later load would abort the process if the process cannot open more files."""
    for name in names:
        SCHEMAS[name]
