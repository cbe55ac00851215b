from __future__ import annotations

from scaler.graph.positions import positions


def test_a_row_has_its_positions_in_their_order() -> None:
    assert positions(b"\2\0\0\0\0\1\0\0") == (2, 256)
    assert positions(b"") == ()
