from __future__ import annotations

import pytest

from scaler.client.calls.value_limit import ValueLimit
from scaler.errors import ObjectTooLargeError
from scaler.shared_memory import SharedFrames, can_share


def test_values_are_not_limited_before_the_scheduler_has_sent_its_limit() -> None:
    ValueLimit("tcp://there:1").check("it", [bytes(10_000_000)])


def test_the_error_for_a_large_value_names_it_the_limit_and_a_remedy() -> None:
    limit = ValueLimit("tcp://there:1")
    limit.n_bytes = 10
    limit.check("it", [bytes(4), bytes(6)])
    with pytest.raises(
        ObjectTooLargeError, match=r"it is too large: it has 11 bytes, and .* takes at most 10"
    ) as raised:
        limit.check("it", [bytes(5), bytes(6)])
    error = raised.value
    assert (error.value, error.size, error.host, error.budget) == ("it", 11, "the scheduler at tcp://there:1", 10)
    assert "value_bytes" in error.cure


@pytest.mark.skipif(not can_share(), reason="no shared memory")
def test_values_in_shared_memory_are_not_limited() -> None:
    limit = ValueLimit("tcp://there:1")
    limit.n_bytes = 10
    limit.check("it", SharedFrames([bytes(5000)]))
