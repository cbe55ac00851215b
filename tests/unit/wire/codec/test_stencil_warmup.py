from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from scaler.wire.codec import codec, stencil_warmup
from scaler.wire.codec.stencil_warmup import OF_AGENTS, OF_PROCESSORS, OF_SCHEDULERS, preparing


@pytest.mark.parametrize(("direction", "items"), [*OF_AGENTS, *OF_PROCESSORS, *OF_SCHEDULERS])
def test_each_usual_message_gets_a_stencil(direction: Any, items: list[Any]) -> None:
    stencils = codec._DirectionCodec(direction).stencils
    stencils.prepare(items)
    header = stencils.write(items)
    assert header is not None
    assert stencils.read(header) == [list(run) for _, run in groupby(items, type)]


def test_each_step_prepares_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []
    monkeypatch.setattr(stencil_warmup, "prepare", lambda direction, items: prepared.append((direction, items)))
    for number, _ in enumerate(preparing(OF_AGENTS), 1):
        assert len(prepared) == number
    assert prepared == list(OF_AGENTS)
