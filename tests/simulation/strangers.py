"""Strangers: peers that do not keep to the protocol, by mistake or on purpose. Nobody else may feel them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from scaler.ids import NO_ID, ClientId, ObjectId, TaskId, content_id
from scaler.pickling.serialization import VALUE, DefaultSerializer, argument_block, function_to_frames, to_frames
from scaler.wire.codec import codec
from scaler.wire.codec.columns import column_of
from scaler.wire.messages.client import ClientHello, Task
from scaler.wire.messages.common import PROTOCOL_VERSION, InstructionKind, ObjectInstruction
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
        frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), work)]
        function_id = content_id(frames)
        block = argument_block(VALUE, bytes(to_frames(DefaultSerializer(), Script(token, 0.5))[0]))
        instruction = ObjectInstruction(InstructionKind.CREATE_FUNCTION, function_id, "work", frames)
        return [instruction, Task(TaskId(self.world.urandom(16)), ObjectId(function_id), block, object_ids)]

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
