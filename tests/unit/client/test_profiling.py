from __future__ import annotations

import pytest

from scaler.client.profiling import ProfilingInfo, read_profile
from scaler.wire.messages.common import PROFILE


def test_a_profile_is_read_as_it_was_packed() -> None:
    assert read_profile(PROFILE.pack(3, 2, 1)) == ProfilingInfo(duration_us=3, cpu_time_us=2, peak_memory=1)


@pytest.mark.parametrize("data", [b"", b"x", bytes(25)])
def test_what_is_no_profile_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_profile(data)
