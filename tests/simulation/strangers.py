"""Strangers: peers that do not keep to the protocol, by mistake or on purpose. Nobody else may feel them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from scaler.ids import NO_ID, ClientId, GraphId, ObjectId, TaskId, content_id
from scaler.pickling.serialization import (
    VALUE,
    DefaultSerializer,
    argument_block,
    function_to_frames,
    result_argument,
    to_frames,
)
from scaler.wire.codec import codec
from scaler.wire.codec.columns import column_of
from scaler.wire.messages.client import NO_GRAPH, ClientHello, InputResult, Task, TaskCancel
from scaler.wire.messages.common import PROTOCOL_VERSION, InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER, Direction
from scaler.wire.messages.worker import WorkerHello
from tests.simulation.network import DialerModel, Network
from tests.simulation.programs import Script, work
from tests.simulation.world import Party, World

OUR_PYTHON, FOREIGN_PYTHON = "3.11.7", "3.9.1"


@contextlib.contextmanager
def unchecked(*names: str) -> Iterator[None]:
    """Write and read these columns of bytes without a look at them, as another implementation may."""
    changed: list[tuple[Any, int, Any]] = []
    for direction in codec._CODECS.values():
        for item_codec in direction.by_item.values():
            for index, field in enumerate(item_codec._fields):
                if field.name in names:
                    changed.append((item_codec, index, field))
                    item_codec._fields[index] = field._replace(column=column_of("bytes", None))
    try:
        yield
    finally:
        for item_codec, index, field in changed:
            item_codec._fields[index] = field


class StrangerParty(Party):
    """A program that speaks for itself."""

    def __init__(self, world: World, network: Network, name: str) -> None:
        super().__init__(world, name, name)
        self._network = network
        self._dialer: DialerModel
        self._number = 0
        self.soon(self._start)

    def _start(self) -> None:
        self._dialer = DialerModel(self._network, self)

    def wake(self, _descriptor: int) -> None:
        while self._dialer.receive() is not None:
            pass

    def say(self, direction: Direction, *items: Any) -> None:
        """Send a message: a hello without a number, all others with the next one."""
        is_hello = type(items[0]) in (ClientHello, WorkerHello)
        self._number = 0 if is_hello else self._number + 1
        self.send(*codec.encode_message(direction, items, self._number))

    def send(self, header: bytes, frames: Any = ()) -> None:
        self._dialer.send(header, frames)

    def leave(self) -> None:
        if self.is_alive:
            self.die()
            self._network.process_ended(self)

    # What it may do

    def hello(self, python: str = OUR_PYTHON) -> ClientHello:
        return ClientHello(PROTOCOL_VERSION, "9.9.9", python, "3.1.1", ClientId(self.world.urandom(16)))

    def agent_hello(self) -> WorkerHello:
        own = (PROTOCOL_VERSION, "9.9.9", OUR_PYTHON, "3.1.1", self.world.urandom(16), f"{self.name}.w0", b"")
        return WorkerHello(*own, NO_ID)  # type: ignore[arg-type]

    def has_a_task(self, token: int, object_ids: bytes = b"") -> list[Any]:
        instruction = self.has_a_function()
        block = self.has_arguments(token)
        return [instruction, Task(TaskId(self.world.urandom(16)), instruction.object_id, block, object_ids)]

    def has_a_function(self) -> ObjectInstruction:
        frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), work)]
        return ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(content_id(frames)), "work", frames)

    def has_arguments(self, token: int) -> bytes:
        return argument_block(VALUE, bytes(to_frames(DefaultSerializer(), Script(token, 0.5))[0]))

    def needs_whatever(self, token: int) -> None:
        """Tasks and graphs that need each other, themselves, what comes later and what never comes; results of these
        that are made up; and cancels.
        """
        draw, function = self.world.random, self.has_a_function()
        ids = [TaskId(self.world.urandom(16)) for _ in range(5)]
        graphs = [GraphId(self.world.urandom(16)) for _ in range(2)]
        tokens = itertools.count(1_000_000 * token)
        value = bytes(to_frames(DefaultSerializer(), token)[0])

        def task() -> Task:
            is_in_graph = draw.random() < 0.5
            inputs = draw.choices(ids, k=draw.randint(0, 3))
            needed = [] if not is_in_graph else draw.choices(range(4), k=draw.randint(0, 3))
            needs = len(inputs) + len(needed)
            named = range(needs and needs + draw.randint(-1, 1))
            return Task(
                draw.choice(ids),
                function.object_id,
                self.has_arguments(next(tokens)) + b"".join(map(result_argument, named)),
                b"",
                graph_id=draw.choice(graphs) if is_in_graph else NO_GRAPH,
                graph_tasks=draw.randint(1, 4) if is_in_graph else 0,
                dependencies=b"".join(each.to_bytes(4, "little") for each in needed),
                inputs=b"".join(inputs),
                unwanted=draw.randint(0, 1),
            )

        def result() -> InputResult:
            status, size = draw.choice((TaskStatus.SUCCESS, TaskStatus.SUCCESS, *TaskStatus)), draw.choice((0, 0, 50))
            return InputResult(draw.choice(ids), status, value, size)

        def cancel() -> TaskCancel:
            return TaskCancel(draw.choice(ids), graph_id=draw.choice((NO_GRAPH, *graphs)))

        self.say(CLIENT_TO_SCHEDULER, self.hello())
        self.soon(lambda: self.say(CLIENT_TO_SCHEDULER, function), 0.1)
        for _ in range(draw.randint(3, 25)):
            item = draw.choice((task, task, task, result, cancel))()
            self.soon(partial(self.say, CLIENT_TO_SCHEDULER, item), 0.1 + 2 * draw.random() ** 3)

    def acts(self) -> dict[str, Callable[[int], None]]:
        return {
            "changes its kind": self._changes_kind,
            "becomes an agent": self._becomes_agent,
            "names half an object": self._names_half_an_object,
            "sends garbage": self._sends_garbage,
        }

    def _changes_kind(self, _token: int) -> None:
        """An agent that becomes a client, on one connection."""
        self.say(AGENT_TO_SCHEDULER, self.agent_hello())
        self.soon(lambda: self.send(b"garbage"), 0.1)
        self.soon(lambda: self.say(CLIENT_TO_SCHEDULER, self.hello()), 0.2)

    def _becomes_agent(self, token: int) -> None:
        """A client with an open task that says an agent's hello twice."""
        self.say(CLIENT_TO_SCHEDULER, self.hello())
        self.soon(lambda: self.say(CLIENT_TO_SCHEDULER, *self.has_a_task(token)), 0.1)
        self.soon(lambda: self.say(AGENT_TO_SCHEDULER, self.agent_hello()), 0.2)
        self.soon(lambda: self.say(AGENT_TO_SCHEDULER, self.agent_hello()), 0.3)

    def _names_half_an_object(self, token: int) -> None:
        """A task whose list of objects has three bytes."""

        def submit() -> None:
            with unchecked("objectIds"):
                self.say(CLIENT_TO_SCHEDULER, *self.has_a_task(token, b"abc"))

        self.say(CLIENT_TO_SCHEDULER, self.hello())
        self.soon(submit, 0.1)

    def _sends_garbage(self, _token: int) -> None:
        self.say(CLIENT_TO_SCHEDULER, self.hello())
        for _ in range(20):
            self.soon(lambda: self.send(self.world.random.randbytes(24), [b"more"]), self.world.random.random())

    def is_foreign(self) -> None:
        """A client of another Python, which comes and goes."""
        self.say(CLIENT_TO_SCHEDULER, self.hello(FOREIGN_PYTHON))
