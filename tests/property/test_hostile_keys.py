"""Lists of keys and key files with any content are read or refused by a `ConfigError`, in bounded time and memory."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import KeyFile

SEED = 35
SLOW_SECONDS = 10.0
GROWTH_BYTES = 128 << 20
SIZES = [
    pytest.param(3_000, marks=[pytest.mark.more, pytest.mark.timeout(600)]),
    pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
]
SEPARATORS = [
    b"\n",
    b"\r\n",
    b"\r",
    b"\x0b",
    b"\x0c",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\x00",
    b" ",
    b"#",
    b"=",
    b":",
    b",",
]
NUMBERS = [b"9" * 5000, b"1" * 20, b"-1", b"1e999", b"\xd9\xa3", b"\xc2\xb2", b"NaN", b"Infinity", b"null", b"true"]
JSON = [
    b"[]",
    b"{}",
    b'""',
    b"[" * 100_000,
    b'{"":' * 20_000,
    b'"\\ud800"',
    b'"ipc:///\\ud800"',
    b'"tcp://h:' + b"9" * 5000 + b'"',
]
WORDS = [
    b"client ",
    b"admin ",
    b"share=",
    b"tasks=8T",
    b"bytes=9T",
    b"until=9999-12-31",
    b"until=2027-W01",
    b"revoked=0000-00-00",
]
PIECES = [*SEPARATORS, *NUMBERS, *JSON, *WORDS, b"x" * 70_000, b"tcp://*:*", b"\xff", b"\xed\xa0\x80", b"\x1b]0;x\x07"]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a content with a few random changes; now and then noise instead."""
    if chance.random() < 0.02:
        return chance.randbytes(chance.randrange(400))
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((0, 0, 1, 1, 2, 10, 50)))
        new = chance.choice(PIECES) if chance.random() < 0.5 else chance.randbytes(chance.randrange(4))
        content = content[:at] + new + content[end:]
    return content


def check(count: int, file: Path, read: Callable[[], object]) -> None:
    """Read mutations of a file, and assert that each is read or refused within bounds."""
    chance, original, n_read, slowest = random.Random(SEED), file.read_bytes(), 0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        content = mutated(original, chance)
        file.write_bytes(content)
        began = time.monotonic()
        try:
            read()
            n_read += 1
        except ConfigError as error:
            length = len(str(error))
            assert length < 2000, f"the error of input {number}"
        slowest = max(slowest, time.monotonic() - began)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(f"{count:,} inputs, {n_read:,} read, slowest {slowest:.3f} s, grown by {grown >> 20} MiB")
    assert 0 < n_read < count
    assert slowest < SLOW_SECONDS
    assert grown < GROWTH_BYTES


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    return KeyFolder.make(tmp_path / "keys", ["tcp://127.0.0.1:2345", "ipc:///tmp/scaler"])


@pytest.mark.parametrize("count", SIZES)
def test_any_list_is_read_or_refused(count: int, keys: KeyFolder) -> None:
    text = keys.list_path.read_text().replace("\nworker ", " share=2 tasks=100K bytes=20G until=2027-01-31\nworker ")
    keys.list_path.write_text(text)
    check(count, keys.list_path, keys.allowed)


@pytest.mark.parametrize("count", SIZES)
def test_any_key_file_is_read_or_refused(count: int, keys: KeyFolder) -> None:
    file = keys.path / "client.json"
    check(count, file, lambda: KeyFile.read(file))


@pytest.mark.parametrize("count", SIZES)
def test_any_key_of_a_scheduler_is_read_or_refused(count: int, keys: KeyFolder) -> None:
    check(count, keys.path / "scheduler.key", keys.pairs)
