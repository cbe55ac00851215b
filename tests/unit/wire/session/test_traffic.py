"""Traffic is counted by the names of messages."""

from __future__ import annotations

import pytest

from scaler.ids import ObjectId, TaskId
from scaler.wire.codec.codec import MESSAGE_ITEMS, decode, encode
from scaler.wire.messages.client import ClientHeartbeat, TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER
from scaler.wire.session.traffic import Traffic

CANCEL, HEARTBEAT = TaskCancel(TaskId(b"t" * 16)), ClientHeartbeat(7)
OBJECT = ObjectInstruction(InstructionKind.CREATE, ObjectId(b"o" * 16), "", (b"four", b"bytes"))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([HEARTBEAT], {"ClientHeartbeat": 1}),
        ([HEARTBEAT, CANCEL], {"ClientHeartbeat": 1, "TaskCancel": 1}),
        ([CANCEL, CANCEL, HEARTBEAT, OBJECT, CANCEL], {"TaskCancel": 3, "ClientHeartbeat": 1, "ObjectInstruction": 1}),
        ([CANCEL] * (MESSAGE_ITEMS + 5), {"TaskCancel": MESSAGE_ITEMS + 5}),
        ([], {}),
    ],
    ids=["one", "two", "runs", "two messages", "none"],
)
def test_both_ends_count_the_same(items: list[object], expected: dict[str, int]) -> None:
    for repeats in (1, 20):  # after some, small messages are written and read with a stencil
        sent, received = Traffic(), Traffic()
        for _ in range(repeats):
            for header, frames in encode(CLIENT_TO_SCHEDULER, items, sent.items):
                sent.add_message(header, frames)
                received.add_message(header, frames, decode(CLIENT_TO_SCHEDULER, header, frames))
        assert sent.by_name() == received.by_name() == {name: count * repeats for name, count in expected.items()}
        assert sent.n_messages == received.n_messages == -(-len(items) // MESSAGE_ITEMS) * repeats


def test_traffic_counts_the_bytes_of_headers_and_frames() -> None:
    traffic = Traffic()
    traffic.add_message(b"header", ())
    traffic.add_message(b"header", (b"four", memoryview(b"bytes")))
    assert traffic.n_bytes == 6 + 6 + 4 + 5


def test_the_most_frequent_comes_first() -> None:
    traffic = Traffic()
    traffic.items.update({ObjectInstruction: 2, TaskCancel: 9, ClientHeartbeat: 2})
    assert list(traffic.by_name()) == ["TaskCancel", "ClientHeartbeat", "ObjectInstruction"]
