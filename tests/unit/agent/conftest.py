from __future__ import annotations

import pytest

from tests.support.link_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
