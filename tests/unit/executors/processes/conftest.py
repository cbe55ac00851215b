from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.close()
