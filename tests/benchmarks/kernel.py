"""What the actor kernel costs: a message, an actor, a waiting actor, a timer, a question from another thread.

    PYTHONPATH=. python tests/benchmarks/kernel.py [--json] [--repeats N]

Results are kept in results/kernel.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from scaler.kit import Actor, ActorRef, Dispatcher, handles
from scaler.message import message
from tests.benchmarks._report import Figure, best_seconds, options, report, timed
from tests.support.virtual_clock import VirtualClock

MESSAGES = 200_000
ACTORS = 100_000
WAITING_ACTORS = 1_000_000
TIMERS = 200_000
QUESTIONS = 20_000


@message
class Ping:
    number: int


@message
class SubmitTask:
    task_id: bytes


class Listener(Actor):
    """As little as an actor can do with a message."""

    @handles(Ping)
    def _pinged(self, ping: Ping) -> None:
        pass


class Player(Actor):
    """Returns the ball until the count is down to nothing."""

    def __init__(self) -> None:
        self.partner: ActorRef | None = None

    @handles(Ping)
    def _pinged(self, ping: Ping) -> None:
        if ping.number and self.partner is not None:
            self.partner.send(Ping(ping.number - 1))


class WaitingTask(Actor):
    """What a task actor holds while it waits: identity, collaborators, state, where it is in its life."""

    def __init__(self, task_id: bytes, session: ActorRef, balancer: ActorRef, function_id: bytes) -> None:
        self._task_id = task_id
        self._session = session
        self._balancer = balancer
        self._function_id = function_id
        self._state = "waiting"
        self._attempt = 0
        self._arguments: tuple[bytes, ...] = ()
        self._missing = 0

    @handles(SubmitTask)
    def _submitted(self, submit: SubmitTask) -> None:
        self.stop_now()


def run_all(dispatcher: Dispatcher) -> None:
    while not dispatcher.run():
        pass


def many_messages_to_one_actor() -> float:
    dispatcher = Dispatcher(VirtualClock())
    listener = dispatcher.spawn(Listener())

    def program() -> None:
        send, ping = listener.send, Ping(0)
        for _ in range(MESSAGES):
            send(ping)
        run_all(dispatcher)

    return timed(program) / MESSAGES


def one_message_to_each_of_many_actors() -> float:
    dispatcher = Dispatcher(VirtualClock())
    listeners = [dispatcher.spawn(Listener()) for _ in range(ACTORS)]

    def program() -> None:
        ping = Ping(0)
        for listener in listeners:
            listener.send(ping)
        run_all(dispatcher)

    return timed(program) / ACTORS


def ping_pong() -> float:
    dispatcher = Dispatcher(VirtualClock())
    left, right = Player(), Player()
    left.partner, right.partner = dispatcher.spawn(right), dispatcher.spawn(left)
    left.partner.send(Ping(MESSAGES))
    return timed(lambda: run_all(dispatcher)) / MESSAGES


def spawn_and_end() -> float:
    """A task-like actor is made, gets one message and ends itself; a thousand are alive at a time."""
    dispatcher = Dispatcher(VirtualClock())
    session = dispatcher.spawn(Listener())

    def program() -> None:
        for _ in range(ACTORS // 1000):
            for number in range(1000):
                task_id = number.to_bytes(16, "big")
                task = dispatcher.spawn(WaitingTask(task_id, session, session, b"function"), session)
                task.send(SubmitTask(task_id))
            run_all(dispatcher)

    return timed(program) / ACTORS


def timers_add_and_fire() -> float:
    clock = VirtualClock()
    dispatcher = Dispatcher(clock)
    listener = dispatcher.spawn(Listener())

    def program() -> None:
        ping = Ping(0)
        for number in range(TIMERS):
            dispatcher.schedule(number * 1e-6, listener, ping)
        clock.advance(1.0)
        run_all(dispatcher)

    return timed(program) / TIMERS


def timers_add_and_cancel() -> float:
    dispatcher = Dispatcher(VirtualClock())
    listener = dispatcher.spawn(Listener())

    def program() -> None:
        ping = Ping(0)
        for _ in range(TIMERS):
            dispatcher.schedule(60.0, listener, ping).cancel()

    return timed(program) / TIMERS


class _DispatcherThread:
    """A shell as small as possible: runs the dispatcher whenever it is woken."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._ended = False
        self.dispatcher = Dispatcher(time.monotonic, wake=self._woken.set)
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()

    def _loop(self) -> None:
        while not self._ended:
            self._woken.wait()
            self._woken.clear()
            run_all(self.dispatcher)

    def end(self) -> None:
        self._ended = True
        self._woken.set()
        self._thread.join()
        self.dispatcher.close()


def ask_from_another_thread() -> float:
    shell = _DispatcherThread()
    listener = shell.dispatcher.spawn(Listener())

    def program() -> None:
        ping = Ping(0)
        for _ in range(QUESTIONS):
            listener.ask(ping)

    try:
        return timed(program) / QUESTIONS
    finally:
        shell.end()


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def waiting_actors(with_mail: bool) -> int:
    """Return the growth in bytes of this process by a million waiting actors."""
    dispatcher = Dispatcher(VirtualClock())
    session = dispatcher.spawn(Listener())
    waiting = []
    before = resident_bytes()
    for number in range(WAITING_ACTORS):
        task_id = number.to_bytes(16, "big")
        task = dispatcher.spawn(WaitingTask(task_id, session, session, b"function"), session)
        if with_mail:
            task.send(SubmitTask(task_id))
        waiting.append(task)
    return resident_bytes() - before


def waiting_actors_in_a_fresh_process(with_mail: bool) -> int:
    call = f"from tests.benchmarks.kernel import waiting_actors; print(waiting_actors({with_mail}))"
    return int(subprocess.run([sys.executable, "-c", call], capture_output=True, check=True, text=True).stdout)


def figures(repeats: int) -> list[Figure]:
    idle, with_mail = (waiting_actors_in_a_fresh_process(with_mail) for with_mail in (False, True))

    def microseconds(name: str, program: Callable[[], float], target: float | None = None) -> Figure:
        return Figure(name, best_seconds(program, repeats) * 1e6, "us", target)

    return [
        microseconds("send and handle: many messages to one actor", many_messages_to_one_actor, 1.5),
        microseconds("send and handle: one message to each of many actors", one_message_to_each_of_many_actors, 1.5),
        microseconds("send and handle: two actors in turn, a new message each", ping_pong, 1.5),
        microseconds("a task-like actor: spawn, one message, end", spawn_and_end, 5.0),
        microseconds("timer: add and fire", timers_add_and_fire),
        microseconds("timer: add and cancel", timers_add_and_cancel),
        microseconds("ask from another thread, there and back", ask_from_another_thread),
        Figure("a million waiting actors, idle", idle / 2**20, "MiB", 1024),
        Figure("a million waiting actors, a message in each mailbox", with_mail / 2**20, "MiB", 1024),
        Figure("one waiting actor with a message", with_mail / WAITING_ACTORS, "bytes", 2**30 / WAITING_ACTORS),
    ]


if __name__ == "__main__":
    chosen = options(__doc__)
    report(figures(chosen.repeats), chosen.json)
