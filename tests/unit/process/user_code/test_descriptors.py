"""Kept descriptors lead where they did, even after user code closed or replaced them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from scaler.process.user_code.descriptors import KeptDescriptors


def lead_to() -> list[tuple[int, int]]:
    return [(status.st_dev, status.st_ino) for status in map(os.fstat, range(3))]


@pytest.fixture(autouse=True)
def _own_ones() -> Iterator[None]:
    """Replace the standard descriptors by three pipes, and restore them afterwards."""
    spares = [os.dup(number) for number in range(3)]
    for number in range(3):
        reader, writer = os.pipe()
        os.dup2(writer, number)
        os.close(reader)
        os.close(writer)
    yield
    for number, spare in enumerate(spares):
        os.dup2(spare, number)
        os.close(spare)


def close_spares(kept: KeptDescriptors) -> None:
    for _, spare in kept._saved.values():
        if spare is not None:
            os.close(spare)


def test_closed_or_redirected_descriptors_are_restored() -> None:
    before = lead_to()
    kept = KeptDescriptors()
    kept.restore()
    assert lead_to() == before
    null = os.open(os.devnull, os.O_WRONLY)
    os.close(0)
    os.dup2(null, 1)
    os.close(null)
    kept.restore()
    assert lead_to() == before
    os.closerange(0, 3)
    kept.restore()
    assert lead_to() == before
    close_spares(kept)


def test_an_accepted_redirection_stays_and_closed_descriptors_are_restored() -> None:
    before = lead_to()
    kept = KeptDescriptors()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    redirected = lead_to()[1]
    os.close(2)
    kept.accept()
    os.closerange(0, 3)
    kept.restore()
    assert lead_to() == [before[0], redirected, before[2]]
    os.close(null)
    close_spares(kept)


def test_without_the_duplicates_descriptors_become_the_null_device() -> None:
    kept = KeptDescriptors()
    close_spares(kept)
    os.closerange(0, 3)
    kept.restore()
    null = os.stat(os.devnull)  # noqa: PTH116
    assert lead_to() == [(null.st_dev, null.st_ino)] * 3


HIGH = """
import os, resource, sys
from scaler.process.user_code.descriptors import high_duplicate
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
moved = high_duplicate(1)
assert moved >= min(2048, limit - 16), moved
assert not os.get_inheritable(moved)
assert os.path.sameopenfile(moved, 1)
"""
"""In a process of its own: earlier tests may have left any descriptors open in this one."""


@pytest.mark.parametrize("limit", [256, 4096])
def test_a_duplicate_has_a_number_above_the_usual_range_of_closed_descriptors(limit: int) -> None:
    ran = subprocess.run([sys.executable, "-c", HIGH, str(limit)], stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
