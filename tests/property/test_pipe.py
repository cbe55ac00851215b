"""Two pipes and a line between them that loses what is on it, at any time: items arrive once, in order, in bounds."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.client import ClientHeartbeat, ClientResting, Task, TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest, ObjectResponse
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.session.lane import LARGE_BYTES, MESSAGE_BYTES
from scaler.wire.session.pipe import FAST_WINDOWS, WINDOW_LEAST_BYTES, Message, Pipe
from tests.support.examples import examples

SIZES = (0, 10, 5_000, LARGE_BYTES + 10, 3 * LARGE_BYTES, 2 * WINDOW_LEAST_BYTES + 77)
BYTES = memoryview(bytes(range(256)) * (max(SIZES) // 256 + 1))


def numbered(number: int) -> bytes:
    return number.to_bytes(16, "big")


def instruction(number: int, size: int, n_frames: int) -> ObjectInstruction:
    frames = tuple(BYTES[number % 7 : number % 7 + size // n_frames] for _ in range(n_frames))
    return ObjectInstruction(InstructionKind.CREATE, ObjectId(numbered(number)), "", frames)


class Side:
    """One side: its pipe, what it has put, what it knows to be heard, and what has come."""

    def __init__(self, incoming: Any, outgoing: Any, window_bytes: int) -> None:
        self.pipe = Pipe(incoming, outgoing, window_bytes=window_bytes, on_acknowledged=self._on_acknowledged)
        self.window_bytes = window_bytes
        self.line: deque[Message] = deque()
        self.put: list[Any] = []
        self.heard: list[Any] = []
        self.came: list[Any] = []

    def _on_acknowledged(self, items: Any) -> None:
        self.heard += items

    def say(self, item: Any) -> None:
        self.put.append(item)
        self.pipe.put(item)

    def send(self) -> None:
        self.line.extend(self.pipe.take())
        on_its_way = sum(len(header) + sum(map(len, frames)) for header, frames in self.line)
        assert on_its_way <= (FAST_WINDOWS + 1) * self.window_bytes + 3 * MESSAGE_BYTES
        if self.pipe.is_acknowledgement_due:
            self.line.append(self.pipe.unnumbered([]))

    def receive(self, message: Message) -> None:
        header, frames = message
        for batch in self.pipe.receive(header, list(map(memoryview, frames))):
            self.came += batch


def key(item: Any) -> Any:
    """An item as something that can be compared and counted."""
    frames = getattr(item, "frames", None)
    return (
        item
        if frames is None
        else (type(item), item.task_id if type(item) is Task else item.object_id, tuple(map(bytes, frames)))
    )


class Two:
    """A client's and a scheduler's side of one session."""

    def __init__(self, window_bytes: int, other_window_bytes: int) -> None:
        self.client = Side(SCHEDULER_TO_CLIENT, CLIENT_TO_SCHEDULER, window_bytes)
        self.scheduler = Side(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, other_window_bytes)
        self.number = 0

    def act(self, action: str, data: st.DataObject) -> None:
        client, scheduler = self.client, self.scheduler
        self.number += 1
        if action == "client":
            client.say(data.draw(self.items_of_client()))
        elif action == "scheduler":
            size = data.draw(st.sampled_from(SIZES))
            scheduler.say(ObjectResponse(ObjectId(numbered(self.number)), 1, (BYTES[:size],)))
        elif action == "cut":
            client.line.clear()
            scheduler.line.clear()
            client.line.extend(client.pipe.resume(scheduler.pipe.heard))
            scheduler.line.extend(scheduler.pipe.resume(client.pipe.heard))
        elif action == "send":
            client.send()
            scheduler.send()
        elif action == "beat":
            client.line.append(client.pipe.unnumbered([ClientHeartbeat(self.number)]))
        else:
            for here, there in ((client, scheduler), (scheduler, client)):
                for _ in range(data.draw(st.integers(0, len(here.line)))):
                    there.receive(here.line.popleft())

    def items_of_client(self) -> st.SearchStrategy[Any]:
        number = self.number
        known = [item.object_id for item in self.client.put if type(item) is ObjectInstruction] or [numbered(1)]
        object_ids = st.lists(st.sampled_from(known), max_size=3).map(b"".join)
        payloads = st.sampled_from([b"", b"payload", bytes(LARGE_BYTES + 5)])
        return st.one_of(
            st.builds(instruction, st.just(number), st.sampled_from(SIZES), st.integers(1, 20)),
            st.builds(Task, st.just(numbered(number)), st.sampled_from(known), payloads, object_ids),
            st.builds(ObjectRequest, st.just(numbered(number))),
            st.just(ClientResting(number, number)),
        )

    def finish(self) -> None:
        while not (self.client.pipe.is_idle and self.scheduler.pipe.is_idle):
            before = (self.client.pipe.size_bytes(), self.scheduler.pipe.size_bytes())
            self.client.send()
            self.scheduler.send()
            for here, there in ((self.client, self.scheduler), (self.scheduler, self.client)):
                while here.line:
                    there.receive(here.line.popleft())
            self.client.receive(self.scheduler.pipe.unnumbered([]))
            self.scheduler.receive(self.client.pipe.unnumbered([]))
            assert (self.client.pipe.size_bytes(), self.scheduler.pipe.size_bytes()) < before or not any(before)


WINDOWS = st.sampled_from([WINDOW_LEAST_BYTES, WINDOW_LEAST_BYTES + 1, 4 * WINDOW_LEAST_BYTES])
ACTIONS = st.lists(
    st.sampled_from(["client", "client", "scheduler", "send", "send", "deliver", "deliver", "cut", "beat"]), max_size=60
)


@examples(40)
@given(window_bytes=WINDOWS, other_window_bytes=WINDOWS, actions=ACTIONS, data=st.data())
def test_items_arrive_once_and_in_order(
    window_bytes: int, other_window_bytes: int, actions: list[str], data: st.DataObject
) -> None:
    two = Two(window_bytes, other_window_bytes)
    for action in actions:
        two.act(action, data)
    two.finish()
    for here, there in ((two.client, two.scheduler), (two.scheduler, two.client)):
        came = [key(item) for item in there.came if type(item) is not ClientHeartbeat]
        last_sent = list(map(key, here.put))
        assert len(came) == len(last_sent)
        assert all(item in last_sent for item in came)
        assert list(map(key, here.heard)) == came
        assert here.pipe.size_bytes() == 0
    note(f"{len(actions)} actions, {two.client.pipe.last_sent} and {two.scheduler.pipe.last_sent} messages")
    assert_dependencies_held(two.client.put, two.scheduler.came)


def assert_dependencies_held(put: list[Any], came: list[Any]) -> None:
    """What names an item comes after it, and rest comes after all; equal items would make this hard, there are none."""
    place = {repr(key(item)): index for index, item in enumerate(came)}
    made: dict[bytes, int] = {}
    latest = -1
    for item in put:
        here = place[repr(key(item))]
        if type(item) is ClientResting:
            assert here > latest
        if type(item) is Task:
            named = [item.function_id, *(item.object_ids[at : at + 16] for at in range(0, len(item.object_ids), 16))]
            assert all(made.get(each, -1) < here for each in named)
        if type(item) is ObjectInstruction:
            made[item.object_id] = here
        latest = max(latest, here)


@examples(30)
@given(
    st.lists(
        st.tuples(st.sampled_from(SIZES), st.booleans(), st.booleans(), st.sampled_from((0, *SIZES))), max_size=12
    ),
    st.integers(0, 3),
)
def test_what_is_cancelled_is_withdrawn_with_its_objects_or_cancelled(
    calls: list[tuple[int, bool, bool, int]], sends: int
) -> None:
    """Whatever a cancel meets, no task is left that runs, and no object that nothing will delete."""
    two = Two(WINDOW_LEAST_BYTES, WINDOW_LEAST_BYTES)
    for number, (size, is_sent, is_cancelled, carried) in enumerate(calls, 1):
        made = ObjectInstruction(
            InstructionKind.CREATE_FOR_TASK, ObjectId(numbered(1000 + number)), "", (BYTES[:size],)
        )
        two.client.say(made)
        task = Task(TaskId(numbered(number)), ObjectId(numbered(9)), b"", numbered(1000 + number))
        two.client.say(replace(task, frames=(BYTES[:carried],) if carried else ()))
        if is_sent:
            for _ in range(sends):
                two.client.send()
        if is_cancelled:
            two.client.say(TaskCancel(TaskId(numbered(number))))
    two.finish()
    came = two.scheduler.came
    tasks = {item.task_id for item in came if type(item) is Task}
    cancelled = {item.task_id for item in came if type(item) is TaskCancel}
    objects = {item.object_id for item in came if type(item) is ObjectInstruction}
    named = {ObjectId(item.object_ids) for item in came if type(item) is Task}
    assert objects == named
    assert cancelled <= tasks
    for number, (_, _, is_cancelled, _) in enumerate(calls, 1):
        if is_cancelled:
            assert (numbered(number) in tasks) == (numbered(number) in cancelled)
        else:
            assert numbered(number) in tasks
