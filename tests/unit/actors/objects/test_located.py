"""LocatedFrames: they represent the frames of a value that is kept at an agent."""

from __future__ import annotations

import pytest

from scaler.actors.objects.located import LocatedFrames, bytes_in, local_bytes
from scaler.shared_memory import SharedBlock
from tests.support.bench import Bench


def test_located_frames_have_the_size_of_a_value_and_none_of_its_bytes(bench: Bench) -> None:
    _, host = bench.recorder()
    frames = LocatedFrames(SharedBlock.of([b"12", b"345"]).location(), host)
    assert frames
    assert (bytes_in(frames), local_bytes(frames), frames.lost) == (5, 0, "")
    with pytest.raises(TypeError, match="stored at an agent"):
        list(frames)


def test_plain_frames_count_all_their_bytes_as_local() -> None:
    assert (bytes_in([b"12", b"345"]), local_bytes([b"12", b"345"])) == (5, 5)
