from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from scaler.process.files import OpenFiles


@pytest.fixture
def limit() -> Iterator[int]:
    """A limit of open files of which about half are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * lowest + 20, hard))
    yield 2 * lowest + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def all_that_are_left() -> list[int]:
    opened = []
    while True:
        try:
            opened.append(os.dup(0))
        except OSError:
            return opened


def test_each_time_that_few_are_left_it_is_said_once(limit: int) -> None:
    files = OpenFiles()
    assert files.warning() == ""
    for _ in range(2):
        opened = all_that_are_left()
        assert f"nearly all of the {limit} files" in files.warning()
        assert files.warning() == ""
        os.close(opened.pop())
        assert files.warning() == ""
        for descriptor in opened:
            os.close(descriptor)
        assert files.warning() == ""
