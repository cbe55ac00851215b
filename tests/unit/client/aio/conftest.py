from __future__ import annotations

import pytest

from scaler import AsyncClient
from tests.support.faces import Face


@pytest.fixture
def face() -> Face:
    """Run the tests of this folder with an `AsyncClient` alone."""
    return AsyncClient
