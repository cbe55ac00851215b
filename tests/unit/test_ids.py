from __future__ import annotations

import hashlib
import threading
from array import array

import pytest

from scaler.ids import (
    ATTEMPTS,
    ID_BYTES,
    NO_ID,
    IdSource,
    SchedulerId,
    attempt_numbers,
    content_id,
    is_later,
    random_id,
    split_ids,
)
from tests.support.processes import run_script


def test_ids_of_a_source_are_different_and_have_the_same_length() -> None:
    ids = [IdSource()() for _ in range(10)]
    source = IdSource()
    ids += [source() for _ in range(1000)]
    assert len(set(ids)) == len(ids)
    assert {len(made) for made in ids} == {ID_BYTES}
    assert NO_ID not in ids


def test_an_id_does_not_reveal_the_next_ids() -> None:
    source = IdSource()
    made = [source() for _ in range(2000)]
    for place in range(ID_BYTES):
        assert len({each[place] for each in made}) > 200


FORKS = """
import os
from scaler.ids import IdSource
source = IdSource()
source()
if os.fork() == 0:
    print(*(source().hex() for _ in range(300)), flush=True)
    os._exit(0)
os.wait()
print(*(source().hex() for _ in range(300)))
"""


@pytest.mark.processes
def test_a_forked_process_makes_ids_of_its_own() -> None:
    made = run_script(FORKS).stdout.split()
    assert len(made) == len(set(made)) == 600


def test_source_may_be_used_by_several_threads() -> None:
    source, made, lock = IdSource(), [], threading.Lock()

    def make() -> None:
        mine = [source() for _ in range(5000)]
        with lock:
            made.extend(mine)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 20_000


def test_random_ids_are_different() -> None:
    assert len({random_id() for _ in range(100)}) == 100
    assert len(random_id()) == ID_BYTES


def test_equal_content_has_one_id_as_bytes_bytearray_or_memoryview() -> None:
    data = b"some content"
    ids = {content_id([kind(data)]) for kind in (bytes, bytearray, memoryview)}
    assert len(ids) == 1
    assert len(ids.pop()) == ID_BYTES


def test_content_id_is_a_hash_of_lengths_and_bytes() -> None:
    expected = hashlib.blake2b((8).to_bytes(8, "big") + b"function" + bytes(8), digest_size=ID_BYTES).digest()
    assert content_id([b"function", b""]) == expected


def test_content_ids_depend_on_where_the_parts_end() -> None:
    assert content_id([b"ab", b"c"]) != content_id([b"a", b"bc"]) != content_id([b"abc"])
    assert content_id([]) != content_id([b""])


def test_content_id_of_an_array_is_the_id_of_its_bytes() -> None:
    words = array("I", [1, 2, 3])
    assert content_id([words]) == content_id([words.tobytes()])


def test_each_scheduler_counts_attempts_from_another_number() -> None:
    assert len({attempt_numbers(SchedulerId(random_id()))() for _ in range(100)}) == 100


def test_attempts_wrap_around_to_0_and_a_later_attempt_is_still_later() -> None:
    next_attempt = attempt_numbers(SchedulerId(b"\xff" * 16))
    numbers = [next_attempt() for _ in range(3)]
    assert numbers == [ATTEMPTS - 1, 0, 1]
    for number, one in enumerate(numbers):
        assert [is_later(other, one) for other in numbers] == [place > number for place in range(3)]


def test_packed_ids_are_split() -> None:
    ids = [random_id() for _ in range(3)]
    assert split_ids(b"".join(ids)) == ids
    assert split_ids(b"") == []
