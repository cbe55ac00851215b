from __future__ import annotations

from scaler.ids import Connection
from scaler.wire.descriptors import Descriptors


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
