"""Functions of maps whose rows travel together, for tests of both clients: usual ones, and some with a special row."""

from __future__ import annotations

import os


def double(row: int) -> int:
    return 2 * row


def odd_ones_raise(row: int) -> int:
    if row % 2:
        raise ValueError(row)
    return row


def one_ends_its_process(row: int) -> int:
    if row == 700:
        os._exit(3)
    return row


def one_is_large(row: int) -> object:
    return bytes(300_000) if row == 700 else row
