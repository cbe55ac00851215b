"""Positions: rows of positions of nodes, as messages have them: UInt32, little-endian, one after the other."""

from __future__ import annotations

import struct


def positions(row: bytes) -> tuple[int, ...]:
    """Return the positions in a row of them."""
    return struct.unpack(f"<{len(row) // 4}I", row)
