from __future__ import annotations

from dataclasses import replace
from typing import Any

from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import ClientHeartbeat, ClientResting, InputResult, Task, TaskCancel
from scaler.wire.messages.common import Chunk, InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER
from scaler.wire.session.lane import LARGE_BYTES, BulkLane

LARGE = LARGE_BYTES + 1000


def numbered(number: int) -> bytes:
    return number.to_bytes(16, "big")


def stored(number: int, kind: int = InstructionKind.CREATE_FOR_TASK) -> ObjectInstruction:
    return ObjectInstruction(kind, ObjectId(numbered(number)), "", (bytes(LARGE),))


def task(number: int, *objects: int) -> Task:
    return Task(TaskId(numbered(number)), ObjectId(numbered(99)), b"", b"".join(map(numbered, objects)))


def in_graph(number: int, graph: int, *objects: int) -> Task:
    return replace(task(number, *objects), graph_id=GraphId(numbered(graph)))


def needing(number: int, *inputs: int) -> Task:
    return replace(task(number), inputs=b"".join(map(numbered, inputs)))


def cancel(number: int) -> TaskCancel:
    return TaskCancel(TaskId(numbered(number)))


def cancel_graph(number: int, graph: int) -> TaskCancel:
    return TaskCancel(TaskId(numbered(number)), graph_id=GraphId(numbered(graph)))


def ended(number: int) -> InputResult:
    return InputResult(TaskId(numbered(number)), TaskStatus.SUCCESS, b"value")


def lane(*items: Any) -> BulkLane:
    made = BulkLane(CLIENT_TO_SCHEDULER, None)
    for item in items:
        made.put(item, LARGE if item.frames else 100) if hasattr(item, "frames") else made.put(item, 100)
    return made


def left(bulk: BulkLane) -> list[Any]:
    """Return all items that the lane sends, only whole ones."""
    gone: list[Any] = []
    while bulk:
        gone += bulk.take(10_000)[1]
    assert bulk.n_bytes == 0
    return gone


def test_no_item_follows_an_empty_lane() -> None:
    bulk = lane()
    assert not bulk
    assert not bulk.is_followed_by(task(1, 2))
    assert not bulk.is_followed_by(ClientResting(1, 2))


def test_an_item_follows_the_item_that_it_names_until_that_is_sent() -> None:
    bulk = lane(stored(1), task(2, 1))
    delete = ObjectInstruction(InstructionKind.DELETE, ObjectId(numbered(1)), "", ())
    followers = (task(3, 1), cancel(2), delete, ClientResting(1, 2))
    assert all(map(bulk.is_followed_by, followers))
    assert not any(map(bulk.is_followed_by, (task(3), task(3, 99), cancel(3), ClientHeartbeat(1))))
    left(bulk)
    assert not any(map(bulk.is_followed_by, followers))


def test_a_graph_stays_together() -> None:
    bulk = lane(stored(1), in_graph(2, 7, 1))
    assert bulk.is_followed_by(in_graph(3, 7))
    assert bulk.is_followed_by(cancel_graph(4, 7))
    assert not bulk.is_followed_by(in_graph(3, 8))
    assert not bulk.is_followed_by(cancel_graph(4, 8))
    assert not bulk.is_followed_by(task(3))


def test_sending_many_tasks_of_a_graph_takes_linear_time() -> None:
    bulk = lane(stored(1), *[in_graph(number, 7) for number in range(2, 20_000)])
    assert len(left(bulk)) == 19_999


def test_a_task_follows_its_inputs_and_the_results_of_its_other_inputs_follow_it() -> None:
    bulk = lane(stored(1), task(2, 1), needing(3, 2, 8))
    assert bulk.is_followed_by(needing(4, 9, 3))
    assert bulk.is_followed_by(ended(8))
    assert not bulk.is_followed_by(needing(4, 8))
    assert not bulk.is_followed_by(ended(9))
    left(bulk)
    assert not any(map(bulk.is_followed_by, (needing(4, 3), ended(8))))


def test_large_items_are_sent_in_chunks_and_small_items_together() -> None:
    bulk = lane(stored(1), task(2, 1), task(3, 1), stored(4))
    kinds = []
    while bulk:
        items, done = bulk.take(LARGE)
        kinds.append((list(map(type, items)), len(done)))
    assert kinds == [([Chunk], 0), ([Chunk], 1), ([Task, Task], 2), ([Chunk], 0), ([Chunk], 1)]


def test_a_cancel_withdraws_a_task_and_the_objects_created_only_for_it() -> None:
    bulk = lane(stored(1), task(2, 1), stored(3), stored(4), task(5, 3, 4), task(6, 4))
    assert bulk.withdraw(cancel(5))
    assert left(bulk) == [stored(1), task(2, 1), stored(4), task(6, 4)]


def test_tasks_of_a_graph_are_not_withdrawn() -> None:
    """Otherwise the positions of later tasks would be wrong."""
    bulk = lane(stored(1), in_graph(2, 7, 1), task(3, 1))
    assert not bulk.withdraw(cancel(2))
    assert not bulk.withdraw(cancel_graph(2, 7))
    assert not bulk.withdraw(cancel_graph(3, 7))
    assert left(bulk) == [stored(1), in_graph(2, 7, 1), task(3, 1)]


def test_all_items_of_a_lane_can_be_withdrawn() -> None:
    bulk = lane(stored(1), task(2, 1))
    assert bulk.withdraw(cancel(2))
    assert not bulk
    assert list(bulk.items()) == []
    assert left(bulk) == []


def test_a_task_whose_object_is_being_sent_or_is_elsewhere_is_not_withdrawn() -> None:
    bulk = lane(stored(1), task(2, 1), stored(3), task(4, 3, 77))
    bulk.take(1000)
    assert not bulk.withdraw(cancel(2))
    assert not bulk.withdraw(cancel(4))
    assert not bulk.withdraw(cancel(5))
    assert len(left(bulk)) == 4


def test_a_kept_object_stays_when_its_task_is_withdrawn() -> None:
    kept = stored(3, InstructionKind.CREATE)
    bulk = lane(stored(1), kept, task(4, 3))
    assert bulk.withdraw(cancel(4))
    assert left(bulk) == [stored(1), kept]


def test_a_large_task_that_is_partly_sent_is_not_withdrawn() -> None:
    large = replace(task(1), frames=(bytes(LARGE),))
    bulk = lane(large, task(2, 1))
    assert bulk.take(10_000)[1] == ()
    assert not bulk.withdraw(cancel(1))
    assert left(bulk) == [large, task(2, 1)]
    waiting = lane(stored(3), large)
    assert waiting.withdraw(cancel(1))
    assert left(waiting) == [stored(3)]


def test_an_item_put_back_is_sent_first_and_items_that_name_it_follow() -> None:
    bulk = lane(task(1), task(2), stored(3), task(4, 3))
    items, done = bulk.take(LARGE)
    assert items is done
    bulk.put_back(items)
    assert bulk.is_followed_by(cancel(1))
    assert left(bulk) == [task(1), task(2), stored(3), task(4, 3)]


def test_keep_drops_all_other_items_except_partly_sent_ones() -> None:
    bulk = lane(stored(1), task(2, 1), stored(3), task(4, 3))
    bulk.take(10_000)
    bulk.keep(lambda item: type(item) is Task)
    assert not bulk.is_followed_by(task(5, 3))
    assert left(bulk) == [stored(1), task(2, 1), task(4, 3)]
