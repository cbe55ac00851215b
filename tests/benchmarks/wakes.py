"""What it costs an event loop to be woken by one byte: processor time beside that of the two system calls.

    python tests/benchmarks/wakes.py

A process without a loop, and one for each loop in turn, answer each byte with another one, several rounds; the least
of each counts, so the machine need not be quiet. uvloop is in the table if it is installed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial

from scaler.config import ConfigError
from scaler.process.loop import EventLoop
from scaler.process.shell import new_event_loop

WAKES = 10_000
ROUNDS = 7


def answer_without_a_loop(reader: int, writer: int) -> None:
    while os.read(reader, 1):
        os.write(writer, b"x")


def answer_in(new_loop: Callable[[], EventLoop]) -> Callable[[int, int], None]:
    def answer(reader: int, writer: int) -> None:
        loop = new_loop()

        def readable() -> None:
            if os.read(reader, 1):
                os.write(writer, b"x")
            else:
                loop.stop()

        loop.add_reader(reader, readable)
        loop.run_forever()

    return answer


def time_one(answer: Callable[[int, int], None]) -> float:
    """Return the microseconds of processor time for each byte, in a process of its own."""
    (there, ask), (reply, back), (result, report) = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(ask)
        start = time.process_time()
        answer(there, back)
        os.write(report, str((time.process_time() - start) / WAKES * 1e6).encode())
        os._exit(0)
    for _ in range(WAKES):
        os.write(ask, b"x")
        os.read(reply, 1)
    os.close(ask)
    os.waitpid(child, 0)
    took = float(os.read(result, 100))
    for descriptor in (there, reply, back, result, report):
        os.close(descriptor)
    return took


def loops() -> dict[str, Callable[[int, int], None]]:
    found: dict[str, Callable[[int, int], None]] = {
        "none: two system calls": answer_without_a_loop,
        "asyncio": answer_in(asyncio.new_event_loop),
    }
    for name in ("builtin", "uvloop"):
        try:
            new_event_loop(name).close()
        except ConfigError:
            continue
        found[name] = answer_in(partial(new_event_loop, name))
    return found


def main() -> None:
    answers = loops()
    least = dict.fromkeys(answers, float("inf"))
    for _ in range(ROUNDS):
        for name, answer in answers.items():
            least[name] = min(least[name], time_one(answer))
    print("| loop | us for each wake-up |\n|---|--:|")
    for name, took in least.items():
        print(f"| {name} | {took:.1f} |")


if __name__ == "__main__":
    main()
