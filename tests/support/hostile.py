"""Hostile: items with extreme values of every message class, and bytes that are nearly messages.

Run as a separate program, it plays peers: libzmq ends a process that closes a socket in the middle of a message.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import sys
from collections import Counter, deque
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import zmq

from scaler.errors import ProtocolError
from scaler.ids import ID_BYTES, NO_ID, PREFIX_BYTES
from scaler.keys.key_file import KeyFile
from scaler.wire.codec.codec import UNWRITABLE, decode, encode_message, numbers
from scaler.wire.codec.columns import Rule, column_kinds
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientHello,
    InfoRequest,
    JobRequest,
)
from scaler.wire.messages.columns import NAMES, OPTIONS, ROWS_MOST, FixedRows, UpperLimit
from scaler.wire.messages.common import PROTOCOL_VERSION, RESUMING, RETURNING, Chunk, HelloReply, HelloRequest
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    DrainRequest,
    LeaveRequest,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
)
from tests.support.keys import show

NUMBERS = {
    "u8": (0, 1, 2, 7, 255),
    "u16": (0, 0, 1, 2, 255, 65_535),
    "u32": (0, 1, 2, 3, 7, 1000, ROWS_MOST, ROWS_MOST + 1, 65_536, 2**31 - 1, 2**31, 2**32 - 1),
    "u64": (0, 1, 2, 4096, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**64 - 1),
    "i32": (0, 1, -1, 65_536, -(2**31), 2**31 - 1),
}
COUNTS = (0, 0, 0, 1, 2, 3, 100, ROWS_MOST - 1, ROWS_MOST)
TOO_MANY = (ROWS_MOST + 1, 2**31, 2**32 - 1)
TEXTS = (
    "",
    "a",
    "\x1b]0;owned\x07\n[ERROR] forged",
    "a,b,,c",
    "gpu=999999999999,a=b,=,",
    "x" * 300,
    "\u2028ß\x00",
    "../..",
)
SPOILED = 0.01
"""The part of the messages that end a session: those with changed bytes, and those with items of `_LAST`."""
KNOWN_MOST = 200
"""The number of seen ids that are used again, the latest ones."""

_ODD = (
    float("inf"),
    float("nan"),
    -1,
    10**400,
    True,
    None,
    "",
    "x" * 300,
    "\x1b]0;owned\x07\n",
    [],
    {},
    {"a": [[[{}]]]},
)
_JOBS = tuple(f"job-{number}" for number in range(20))
ANSWER_MS = 500
_LAST = (Chunk, ClientDisconnect, DisconnectRequest, DisconnectResponse, DrainRequest, HelloReply, HelloRequest)
"""Classes of items that usually end the session. A chunk does so because no first part precedes it."""

_OPTIONS = (
    RunOptions(retries=2**32 - 1, retry_on=("Exception",), retry_delay_ms=2**32 - 1),
    RunOptions(timeout_ms=2**32 - 1, no_worker_timeout_ms=1),
    RunOptions(),
    RunOptions(),
    RunOptions(profiling=True, at_most_once=True, was_submitted=True, worker="nobody"),
    RunOptions(seed=(2**32 - 1,) * 64, seed_spawns=True, devices=(2**16 - 1,)),
    RunOptions(retries=3, timeout_ms=1, retry_on=("ValueError",)),
)
_CAPABILITIES = ((("a", 1),), (("gpu", 2**32 - 1), ("", 0), ("a", 1)))
"""Requested by hostile tasks. Only hostile agents have `a`, so that no task waits forever in honest clients' slots."""
_TERMS = {"fingerprint": {"a": "b"}, "function_id": "00" * 16, "max_failures": None, "function": "f", "program": "p",
          "python": "3.11", "options": "", "priority": 0, "task_name": "", "attended": False, "keep_seconds": 1e6,
          "created": 1.0}  # fmt: skip


class Hostile:
    """Makes the messages of one direction, without the message classes `never`.

    Args:
        seed: the same seed makes the same messages, as long as the received messages are the same.
    """

    def __init__(self, direction: Direction, seed: int, never: tuple[type, ...] = ()) -> None:
        self._direction = direction
        self.chance = random.Random(seed)
        kinds = [each.item for each in direction.batches if each.item not in (ClientHello, WorkerHello, *never)]
        self._kinds = [each for each in kinds if each not in _LAST]
        self._last = [each for each in kinds if each in _LAST]
        self.known: deque[bytes] = deque(maxlen=KNOWN_MOST)
        self.known_numbers: deque[int] = deque(maxlen=KNOWN_MOST)

    def learn(self, item: Any) -> None:
        """Record the ids and numbers of a received item: messages that use them are processed further."""
        for name, (kind, _) in column_kinds(type(item)).items():
            value = getattr(item, name)
            if kind == "id" and value != NO_ID:
                self.known.append(bytes(value))
            elif kind == "u32" and value:
                self.known_numbers.append(value)

    def item(self, kind: type | None = None, **fixed: Any) -> Any:
        if kind is None:
            kind = self.chance.choice(self._last if self.chance.random() < SPOILED else self._kinds)
        fields = {name: self._value(name, *each) for name, each in column_kinds(kind).items()}
        if kind is ClientDisconnect:
            fields["kind"] = 0  # an admin may end the scheduler
        if kind is InfoRequest:
            fields["restart"], fields["leave"] = (
                0,
                self.chance.choice(("", "nobody,,")),
            )  # an admin may restart agents and make them leave
        if kind is JobRequest:
            fields["name"] = self.chance.choice((fields["name"], *_JOBS))
            if self.chance.random() < 0.5:
                fields["body"] = self._json()
        return kind(**(fields | fixed))

    def message(self, number: int, heard: int = 0, items: list[Any] | None = None) -> tuple[list[bytes], int]:
        """Return the parts of a message, and the number of its items."""
        chance = self.chance
        while True:
            sent = items or [self.item() for _ in range(chance.choice((1, 1, 2, 4, 9)))]
            try:
                header, frames = encode_message(self._direction, sent, number, heard)
            except UNWRITABLE:
                items = None
                continue
            if chance.random() < SPOILED:
                header = self._spoiled(header)
            if chance.random() < SPOILED / 10:
                frames = [*frames, b"one more"]
            return [header, *map(bytes, frames)], len(sent)

    def _spoiled(self, header: bytes) -> bytes:
        chance, spoiled = self.chance, bytearray(header)
        for _ in range(chance.choice((1, 1, 2, 8))):
            spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            del spoiled[chance.randrange(len(spoiled)) :]
        return bytes(spoiled)

    def _value(self, name: str, kind: str, rule: Rule) -> Any:
        if rule is not None and (rule == OPTIONS or not isinstance(rule, str)):
            return self._of_rule(rule)
        makers = {"id": self._id, "frames": self._frames, "bytes": self._bytes, "text": lambda: self._text(rule)}
        return makers[kind]() if kind in makers else self._number(name, kind)

    def _of_rule(self, rule: Rule) -> Any:
        chance = self.chance
        if isinstance(rule, FixedRows):
            n_rows = chance.choice((0, 0, 1, 2, 50))
            return b"".join(self._row(rule.size) for _ in range(min(n_rows, rule.most)))
        if isinstance(rule, UpperLimit):
            return chance.choice(TOO_MANY if chance.random() < SPOILED else COUNTS)
        if isinstance(rule, type):
            return chance.choice((*(each.value for each in rule), len(rule) if chance.random() < 0.01 else 0))
        return chance.choice(_OPTIONS)._replace(capabilities=chance.choice(_CAPABILITIES)).encode()

    def _text(self, rule: Rule) -> str:
        chance = self.chance
        return ",".join(map(str, range(1000))) if rule == NAMES and chance.random() < 0.01 else chance.choice(TEXTS)

    def _frames(self) -> tuple[bytes, ...]:
        return tuple(self._bytes() for _ in range(self.chance.choice((0, 0, 0, 1, 2, 20))))

    def _number(self, name: str, kind: str) -> int:
        chance = self.chance
        if name in ("worker", "processor", "account", "position") and chance.random() < 0.7:
            return 0
        if self.known_numbers and kind in ("u32", "u64") and chance.random() < 0.4:
            return chance.choice(self.known_numbers)
        return chance.choice(NUMBERS[kind])

    def _json(self) -> bytes:
        """Return the terms of a job, some of which may be invalid."""
        chance = self.chance
        odd = {chance.choice([*_TERMS]): chance.choice(_ODD) for _ in range(chance.choice((0, 1, 1, 3)))}
        return chance.choice(
            (b"[" * 10_000, b'{"priority": ' + b"9" * 5_000 + b"}", *[json.dumps(_TERMS | odd).encode()] * 8)
        )

    def _row(self, size: int) -> bytes:
        if size == ID_BYTES:
            return self._id()
        return self.chance.choice((bytes(size), b"\xff" * size, self.chance.randbytes(size)))

    def _id(self) -> bytes:
        chance = self.chance
        way = chance.random()
        if way < 0.6 and self.known:
            return chance.choice(self.known)
        if way < 0.65:
            return chance.choice((NO_ID, b"\xff" * ID_BYTES, bytes(PREFIX_BYTES) + b"\xff" * 8))
        made = chance.randbytes(PREFIX_BYTES) + chance.choice((bytes(8), b"\xff" * 8, chance.randbytes(8)))
        self.known.append(made)
        return made

    def _bytes(self) -> bytes:
        """Return bytes that are not a pickle, because peers that accept values from a scheduler run its code."""
        chance = self.chance
        length = chance.choice((0, 0, 3, 8, 48, 100, 2000, 70_000 if chance.random() < 0.02 else 16))
        return b"\xff" + chance.randbytes(length - 1) if length else b""


class HostilePeer:
    """A client or an agent that sends random messages, and reconnects when it was disconnected."""

    def __init__(
        self,
        address: str,
        key: KeyFile,
        hostile: Hostile,
        directions: tuple[Direction, Direction],
        hello: type,
        **fixed: Any,
    ) -> None:
        self._address, self._key, self._hostile = address, key, hostile
        self._out, self._into = directions
        self._hello, self._fixed = hello, fixed
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._new_id()
        self._socket: zmq.Socket[bytes]
        self._dial()

    def _new_id(self) -> None:
        self._id = self._hostile.chance.randbytes(ID_BYTES)
        self._number = self._heard = self._dials = 0

    def _dial(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        show(self._socket, self._key)
        self._socket.connect(self._address)
        chance = self._hostile.chance
        self._dials += 1
        resumes = chance.choice((0, 0, RESUMING, RETURNING))
        if resumes != RESUMING:
            self._number = self._heard = 0
        own = "client_id" if self._hello is ClientHello else "agent_id"
        mostly = {own: self._id, "resumes": resumes, "heard": self._heard, "dial": self._dials}
        if chance.random() < 0.1:
            mostly.pop(chance.choice(list(mostly)))
        fixed = {"protocol_version": PROTOCOL_VERSION, **mostly, **self._fixed}
        header, _ = encode_message(self._out, [self._hostile.item(self._hello, **fixed)])
        self._socket.send(header)

    def say(self) -> int:
        """Send a message. Return the number of its items."""
        chance = self._hostile.chance
        if chance.random() < 0.01:
            self._reconnect(chance.random() < 0.5)
        numbered = chance.random() > SPOILED
        number = self._number + 1 if numbered else chance.choice((0, 1, 2**40))
        parts, count = self._hostile.message(number, self._heard)
        try:
            self._socket.send_multipart(parts, zmq.DONTWAIT)
        except zmq.Again:
            return 0
        self._number += numbered
        return count

    def hear(self) -> None:
        """Receive until a heartbeat is answered, so that all messages have arrived, or until the session has ended."""
        header, _ = encode_message(
            self._out, [ClientHeartbeat(1) if self._hello is ClientHello else WorkerHeartbeat(1)]
        )
        self._socket.send(header)
        while self._socket.poll(ANSWER_MS):
            header, *frames = self._socket.recv_multipart()
            self._heard = max(self._heard, numbers(self._into, header)[0])
            for item in chain.from_iterable(decode(self._into, header, frames)):
                self._hostile.learn(item)
                if type(item) in (ClientHeartbeatEcho, WorkerHeartbeatEcho):
                    return
                if type(item) is HelloRequest or (type(item) is HelloReply and not item.accepted):
                    self._reconnect(self._hostile.chance.random() < 0.3)
                    return
        self._reconnect(as_another=True)

    def _reconnect(self, as_another: bool) -> None:
        self._socket.close()
        if as_another:
            self._new_id()
        self._dial()


class HostileScheduler:
    """Accepts clients and agents, and sends random messages to them."""

    def __init__(self, address: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.bind(address)
        self._id = self.chance.randbytes(ID_BYTES)
        self._hostile = {
            into: Hostile(out, self.chance.randrange(2**32), _NEVER_SAID) for into, out in (_OF_CLIENTS, _OF_AGENTS)
        }
        self._peers: dict[bytes, tuple[Direction, Direction]] = {}
        """connection -> the directions of its accepted peer"""
        self._numbers: Counter[bytes] = Counter()
        self._heard: dict[bytes, int] = {}

    def hear(self, wait_ms: int = 0) -> None:
        """Receive all that has arrived, and accept new peers."""
        while self._socket.poll(wait_ms):
            wait_ms = 0
            connection, header, *frames = self._socket.recv_multipart()
            for into, out in [self._peers[connection]] if connection in self._peers else (_OF_CLIENTS, _OF_AGENTS):
                with contextlib.suppress(ProtocolError):
                    number = numbers(into, header)[0]
                    items = [*chain.from_iterable(decode(into, header, frames))]
                    self._heard[connection] = max(self._heard.get(connection, 0), number)
                    for item in items:
                        self._hostile[into].learn(item)
                        if type(item) in (ClientHello, WorkerHello):
                            self._welcome(connection, into, out)

    def _welcome(self, connection: bytes, into: Direction, out: Direction) -> None:
        fixed = {"accepted": 1, "scheduler_id": self._id, "protocol_version": PROTOCOL_VERSION, "resumed": 0}
        reply = self._hostile[into].item(HelloReply, rows=self.chance.choice(COUNTS), **fixed)
        self._peers[connection] = into, out
        self._send(connection, [*encode_message(out, [reply])[:1]])

    def say(self) -> int:
        """Send a message to a random peer. Return the number of its items."""
        if not self._peers:
            return 0
        connection = self.chance.choice([*self._peers])
        into, _ = self._peers[connection]
        number = self._numbers[connection] + 1
        parts, count = self._hostile[into].message(number, self._heard.get(connection, 0))
        if not self._send(connection, parts):
            return 0
        self._numbers[connection] = number
        return count

    def _send(self, connection: bytes, parts: list[bytes]) -> bool:
        try:
            self._socket.send_multipart([connection, *parts], zmq.DONTWAIT)
        except zmq.Again:
            return False
        except zmq.ZMQError:  # the peer has disconnected
            self._peers.pop(connection, None)
            return False
        return True


def be_scheduler(address: str, inputs: int, seed: int) -> None:
    """Run a hostile scheduler until the process is killed, and print the number of items sent so far."""
    scheduler, sent = HostileScheduler(address, seed), 0
    while True:
        count = sum(scheduler.say() for _ in range(20)) if sent < inputs else 0
        sent += count
        scheduler.hear(10)
        print(sent, flush=True)


def main(address: str, inputs: int, seed: int, keys: Sequence[str]) -> None:
    """Run several hostile peers at once, with key files (`admin=FILE`), and print the number of items sent so far."""
    chance, peers, sent = random.Random(seed), [], 0
    for role, file in (each.split("=") for each in keys):
        directions, hello, fixed = _ROLES[role]
        hostile, key = Hostile(directions[0], chance.randrange(2**32)), KeyFile.read(Path(file))
        peers.append(HostilePeer(address, key, hostile, directions, hello, **fixed))
    while sent < inputs:
        peer = chance.choice(peers)
        sent += sum(peer.say() for _ in range(20))
        peer.hear()
        print(sent, flush=True)


_OF_CLIENTS = CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
_TOKEN = b"token of agents!"
"""the token of the hostile agents, and of hostile clients inside their tasks"""
_PYTHON = platform.python_version()  # all peers must have the version of the first one
_CLIENT = {"agent_token": NO_ID, "python_version": _PYTHON}
_OF_AGENTS = AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
_NEVER_SAID = (DisconnectResponse, LeaveRequest)
"""left out, because a scheduler may tell its agents to leave"""
_AGENT = {
    "agent_token": _TOKEN,
    "worker_names": "x,y",
    "capabilities": "a=1000000",
    "takes_rows": 1,
    "python_version": _PYTHON,
    "text_hash": 0,
}
_ROLES: dict[str, tuple[tuple[Direction, Direction], type, dict[str, Any]]] = {
    "client": (_OF_CLIENTS, ClientHello, _CLIENT),
    "admin": (_OF_CLIENTS, ClientHello, _CLIENT),
    "nested": (_OF_CLIENTS, ClientHello, _CLIENT | {"agent_token": _TOKEN}),
    "agent": (_OF_AGENTS, WorkerHello, _AGENT),
}

if __name__ == "__main__":
    if len(sys.argv) == 4:
        be_scheduler(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    os._exit(0)  # do not wait for messages that can never be sent
