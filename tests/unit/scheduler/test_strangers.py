"""How much strangers say."""

from __future__ import annotations

from scaler.ids import Connection
from scaler.scheduler.strangers import REMEMBERED, Strangers

ONE = Connection(b"one")


def test_each_connection_is_counted_for_itself() -> None:
    strangers = Strangers()
    assert [strangers.add_message(ONE), strangers.add_message(Connection(b"other")), strangers.add_message(ONE)] == [
        1,
        1,
        2,
    ]
    strangers.remove(ONE)
    strangers.remove(ONE)
    assert strangers.add_message(ONE) == 1


def test_only_the_last_ones_are_remembered() -> None:
    strangers = Strangers()
    strangers.add_message(Connection(b"silent"))
    strangers.add_message(ONE)
    for number in range(REMEMBERED - 1):
        strangers.add_message(Connection(b"%d" % number))
        strangers.add_message(ONE)
    assert len(strangers) == REMEMBERED
    assert strangers.add_message(ONE) == REMEMBERED + 1
    assert strangers.add_message(Connection(b"silent")) == 1
