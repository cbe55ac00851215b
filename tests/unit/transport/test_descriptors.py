from __future__ import annotations

from scaler.ids import Connection
from scaler.transport.descriptors import Descriptors


def test_a_descriptor_that_is_used_again_may_mean_both_connections() -> None:
    """The news of a loss may be read after the first message of the connection that has the descriptor now."""
    one, other, third = (Connection(name) for name in (b"one", b"other", b"third"))
    descriptors = Descriptors()
    descriptors.add(one, 7)
    descriptors.add(third, 8)
    descriptors.add(other, 7)
    assert descriptors.of(7) == [one, other]
    descriptors.remove(one)
    descriptors.remove(one)
    assert descriptors.of(7) == [other]
    descriptors.remove(other)
    assert descriptors.of(7) == []
    assert descriptors.known == {third: 8}


def test_a_connection_whose_descriptor_was_closed_has_none_though_it_is_used_again() -> None:
    """Its messages may still be read then, and to hang up on it must not cost the next one."""
    one, other = Connection(b"one"), Connection(b"other")
    descriptors = Descriptors()
    assert descriptors.present(one) is None
    descriptors.add(one, 7)
    assert descriptors.present(one) == 7
    descriptors.end(7)
    assert descriptors.present(one) is None
    descriptors.add(other, 7)
    assert descriptors.present(other) == 7
    descriptors.end(7)
    assert descriptors.present(other) is None
    descriptors.end(7)
    descriptors.remove(one)
    descriptors.add(one, 8)
    assert descriptors.present(one) == 8
