from __future__ import annotations

from typing import Any

import pytest

from scaler.processor.usual import USUAL
from scaler.wire import codec


@pytest.mark.parametrize(("direction", "item"), [(direction, item) for direction, items in USUAL for item in items])
def test_each_usual_message_gets_a_stencil(direction: Any, item: Any) -> None:
    stencils = codec._DirectionCodec(direction).stencils
    stencils.prepare(item)
    header = stencils.write([item])
    assert header is not None
    assert stencils.read(header) == [[item]]
