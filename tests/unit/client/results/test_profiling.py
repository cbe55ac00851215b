from __future__ import annotations

from scaler.client.results.profiling import ProfilingInfo, read_profile
from scaler.wire.messages.common import PROFILE


def test_a_profile_is_read_as_it_was_packed() -> None:
    assert read_profile(PROFILE.pack(3, 2, 1)) == ProfilingInfo(duration_us=3, cpu_time_us=2, peak_memory=1)
