"""What keys cost over TCP: handshakes, strangers who knock while others work, revocations, tasks, and large values.

    python tests/benchmarks/keys.py
    python tests/benchmarks/keys.py --only handshakes --peers 1000 10000
    python tests/benchmarks/keys.py --only strangers values --pairs 12

- `handshakes`: so many peers connect, 200 at a time, and say hello; the processor time of the scheduler for each, with
  keys and without, and what the keys add.
- `strangers`: a map, in turn alone, while 50 strangers a second show a key that is on no list, and while the process of
  these strangers uses as much processor time without knocking: elsewhere they would use none of this machine. The rate
  of the map, the processor time of all processes but that of the strangers, and what a refusal costs each thread of
  a scheduler that does nothing else.
- `revocations`: a map, in turn alone, and while once in a second a client with 1,000 waiting tasks has its key
  revoked, which uses some of this machine itself: the rate of the map, of which each task must succeed, and after how
  long those clients hear of it.
- `tasks`: the processor time of a task, of all processes, in a map of which each row is one, and the time of a lone
  trip that a tenth are shorter than; with keys and without in turn.
- `values`: the time of a task with 100 MB over sockets, with keys and without in turn.

Ratios are medians of pairs, with their intervals of 95 %.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import zmq
from _report import interval

from scaler import AuthenticationError, Client
from scaler.endpoint import Endpoint
from scaler.ids import random_id
from scaler.keys.finding import folder_for
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import CLIENT
from scaler.wire.codec.codec import encode
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER
from tests.support.keys import OPEN, connect
from tests.support.processes import Command, command, scheduler
from tests.support.strangers import knock, knocking

TOGETHER, PER_PROCESS = 200, 2_000
KNOCKS_PER_SECOND = 50
MEGABYTE = 1_000_000


def length(data: bytes) -> int:
    return len(data)


def noop(number: int) -> int:
    return number


# Handshakes


def cpu_seconds(running: Command) -> float:
    times = psutil.Process(running.pid).cpu_times()
    return times.user + times.system


def hold(address: str, count: int, came: Any, ends: Any) -> None:
    """Run in a process of its own: be so many peers, until it ends."""
    with zmq.Context() as context, ExitStack() as stack:
        context.set(zmq.MAX_SOCKETS, count + 100)
        for start in range(0, count, TOGETHER):
            number = min(TOGETHER, count - start)
            peers = [stack.enter_context(context.socket(zmq.DEALER)) for _ in range(number)]
            for peer in peers:
                peer.setsockopt(zmq.LINGER, 0)
                connect(peer, address)
                hello = ClientHello(PROTOCOL_VERSION, "0", "", "", random_id())
                for header, _ in encode(CLIENT_TO_SCHEDULER, [hello]):
                    peer.send(header)
            came.put(sum(peer.poll(60_000) > 0 for peer in peers))
        ends.wait()


def enter(count: int, *options: str) -> tuple[float, float]:
    """Have peers say hello. Return the processor time of the scheduler, and the time that passed, in us for each."""
    context = multiprocessing.get_context("spawn")
    came, ends = context.Queue(), context.Event()
    with scheduler(None, *options) as (address, running):
        before, began = cpu_seconds(running), time.perf_counter()
        children = []
        for start in range(0, count, PER_PROCESS):
            number = min(PER_PROCESS, count - start)
            children.append(context.Process(target=hold, args=(address, number, came, ends)))
            children[-1].start()
            if sum(came.get(timeout=120) for _ in range(0, number, TOGETHER)) != number:
                raise RuntimeError("a peer is not let in")
        each = (cpu_seconds(running) - before) / count * 1e6, (time.perf_counter() - began) / count * 1e6
        ends.set()
        for child in children:
            child.join()
    return each


def handshakes(counts: Sequence[int], repeats: int) -> None:
    print("| peers | us of the scheduler with keys | without | of the handshake | us that passed, with keys |")
    print("|--:|--:|--:|--:|--:|")
    for count in counts:
        rows = [(enter(count), enter(count, OPEN)) for _ in range(repeats)]
        locked, free = (statistics.median(row[at][0] for row in rows) for at in (0, 1))
        passed = statistics.median(row[0][1] for row in rows)
        print(f"| {count:,} | {locked:.0f} | {free:.0f} | {locked - free:.0f} | {passed:.0f} |", flush=True)


# Strangers


QUIET, LOUD, BUSY = range(3)
"""what strangers do: nothing, knock, or use as much processor time as if they knocked"""


def be_strangers(address: str, mode: Any, ends: Any, count: Any, spent: Any) -> None:
    """Run in a process of its own: be the strangers."""
    while not ends.is_set():
        if mode.value == LOUD:
            before, began = count.value, time.process_time()
            with knocking(address, KNOCKS_PER_SECOND) as done:
                while mode.value == LOUD:
                    time.sleep(0.01)
            count.value = before + done()
            spent.value += time.process_time() - began
        elif mode.value == BUSY:
            pretend(mode, spent.value / max(1, count.value))
        else:
            time.sleep(0.01)


def pretend(mode: Any, seconds: float) -> None:
    """Use so much processor time as often as strangers knock."""
    due = time.monotonic()
    while mode.value == BUSY:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass
        due += 1 / KNOCKS_PER_SECOND
        time.sleep(max(0.0, due - time.monotonic()))


def by_thread(running: Command) -> tuple[int, int]:
    """Return the processor time of the first thread of a process, and of all others, in ns."""
    times = {}
    for task in Path(f"/proc/{running.pid}/task").iterdir():
        times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    first = times.pop(running.pid)
    return first, sum(times.values())


def refusals(count: int = 500) -> None:
    with scheduler() as (address, running), zmq.Context() as context:
        for _ in range(50):
            knock(address, context)
        before = by_thread(running)
        for _ in range(count):
            knock(address, context)
        after = by_thread(running)
    loop, others = (round((now - then) / count / 1000) for now, then in zip(after, before, strict=True))
    print(f"a refusal takes {loop} us of the scheduler's loop, and {others} us of the thread of ZeroMQ", flush=True)


def used(running: Iterable[Command]) -> float:
    """Return the processor time of this process, and of those and their children."""
    roots = [psutil.Process(each.pid) for each in running]
    times = [each.cpu_times() for root in roots for each in (root, *root.children(recursive=True))]
    return time.process_time() + sum(each.user + each.system for each in times)


def strangers(pairs: int, tasks: int) -> None:
    refusals()
    context = multiprocessing.get_context("spawn")
    mode, ends = context.Value("i", QUIET), context.Event()
    count, spent = context.Value("i", 0), context.Value("d", 0.0)
    took: dict[int, list[tuple[float, float]]] = {QUIET: [], LOUD: [], BUSY: []}
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "2") as cluster,
        Client(address) as client,
    ):
        client.wait_for_workers(2, 60)
        stranger = context.Process(target=be_strangers, args=(address, mode, ends, count, spent))
        stranger.start()
        rows = [(number,) for number in range(tasks)]
        for mode.value in (QUIET, LOUD):  # and how much processor time strangers use
            client.map(noop, rows)
        for pair in range(pairs):
            for mode.value in ((QUIET, LOUD, BUSY), (BUSY, LOUD, QUIET))[pair % 2]:
                time.sleep(0.2)  # until they have begun, or ended
                before, began = used((running, cluster)), time.perf_counter()
                client.map(noop, rows)
                took[mode.value].append((time.perf_counter() - began, used((running, cluster)) - before))
        mode.value = QUIET
        ends.set()
        stranger.join()
        assert client.info().clients == 1
    both = list(zip(took[QUIET], took[LOUD], took[BUSY], strict=True))
    told("rate of a map while strangers knock", [quiet[0] / loud[0] for quiet, loud, _ in both])
    told("of that, without the time that they use themselves", [busy[0] / loud[0] for _, loud, busy in both])
    told("processor time of a task", [loud[1] / quiet[1] for quiet, loud, _ in both])
    rate = tasks / statistics.median(seconds for seconds, _ in took[QUIET])
    each_ms = spent.value / count.value * 1000
    print(f"{rate:,.0f} tasks/s alone; {count.value:,} wrong handshakes of {each_ms:.2f} ms, none let in", flush=True)


# Revocations


def be_revoked(address: str, folder: str, mode: Any, ends: Any, taken: Any) -> None:
    """Run in a process of its own: be one client after the other whose key is taken back."""
    keys = KeyFolder(Path(folder))
    number = 0
    while not ends.is_set():
        if mode.value == QUIET:
            time.sleep(0.01)
            continue
        number += 1
        today = date.today()  # noqa: DTZ011 - as the command does
        name = f"client-{os.getpid()}-{number}"
        file = keys.allow(name, CLIENT, None, today)
        with Client(address, key_file=str(file)) as client:
            task = client.options(capabilities={"nobody has it": 1}).submit(noop, 1)
            waiting = [client.options(capabilities={"nobody has it": 1}).submit(noop, 1) for _ in range(999)]
            while not task.story().waits_for:
                time.sleep(0.01)
            keys.revoke(name, today)
            began = time.monotonic()
            errors = {type(each.exception(30)) for each in (*waiting, task)}
            assert errors == {AuthenticationError}
            taken.put(time.monotonic() - began)
        time.sleep(1.0)


def revocations(pairs: int, tasks: int) -> None:
    context = multiprocessing.get_context("spawn")
    mode, ends, taken = context.Value("i", QUIET), context.Event(), context.Queue()
    ratios, seconds = [], []
    with scheduler() as (address, _), command("cluster", address, "-n", "2"), Client(address) as client:
        client.wait_for_workers(2, 60)
        folder = str(folder_for(Endpoint.parse(address)))
        other = context.Process(target=be_revoked, args=(address, folder, mode, ends, taken))
        other.start()
        rows = [(number,) for number in range(tasks)]
        client.map(noop, rows)
        for pair in range(pairs):
            took = {}
            for mode.value in ((QUIET, LOUD), (LOUD, QUIET))[pair % 2]:
                time.sleep(0.5)  # until it has begun, or ended
                began = time.perf_counter()
                client.map(noop, rows)
                took[mode.value] = time.perf_counter() - began
            ratios.append(took[QUIET] / took[LOUD])
        ends.set()
        while other.is_alive() or not taken.empty():
            with suppress(queue.Empty):
                seconds.append(taken.get(timeout=0.1))
    told("rate of a map while others are revoked", ratios)
    most = max(seconds) * 1000
    print(
        f"{len(seconds)} revocations, each heard after {statistics.median(seconds) * 1000:.0f} ms, {most:.0f} at most"
    )


# Values


@contextmanager
def standing(*options: str) -> Iterator[tuple[Client, tuple[Command, Command]]]:
    """A system with one worker."""
    with (
        scheduler(None, *options) as (address, running),
        command("cluster", address, "-n", "1") as cluster,
        Client(address) as client,
    ):
        client.submit(length, b"").result(60)
        yield client, (running, cluster)


def tasks(pairs: int, count: int, trips: int = 300) -> None:
    alone = ("--rows-per-task", "1")
    rows = [(number,) for number in range(count)]
    with standing(*alone) as locked, standing(*alone, OPEN) as free:
        cpu, lone = [], []
        for pair in range(pairs + 1):
            spent, trip = {}, {}
            for system in ((locked, free), (free, locked))[pair % 2]:
                client, commands = system
                before = used(commands)
                client.map(noop, rows)
                spent[system] = used(commands) - before
                trip[system] = statistics.quantiles([_trip(client) for _ in range(trips)], n=10)[0]
            if pair:
                cpu.append(spent[locked] / spent[free])
                lone.append((trip[locked] - trip[free]) * 1e6)
    told("processor time of a task with keys", cpu)
    least, most = interval(lone)
    print(f"a lone trip takes {statistics.median(lone):.0f} us more with keys ({least:.0f} to {most:.0f})", flush=True)


def _trip(client: Client) -> float:
    began = time.perf_counter()
    client.submit(noop, 1).result(60)
    return time.perf_counter() - began


def values(pairs: int, megabytes: int) -> None:
    os.environ["SCALER_SHARED_MEMORY"] = "0"
    data = os.urandom(megabytes * MEGABYTE)
    with standing() as (locked, _), standing(OPEN) as (free, _):
        ratios, times = [], []
        for pair in range(pairs + 1):
            both = [timed(client, data) for client in ((locked, free) if pair % 2 else (free, locked))]
            with_keys, without = both if pair % 2 else both[::-1]
            if pair:  # the first one takes memory from the system
                ratios.append(with_keys / without)
                times.append(with_keys)
    told(f"time of {megabytes} MB with keys", ratios)
    print(f"{statistics.median(times):.2f} s with keys")


def timed(client: Client, data: bytes) -> float:
    began = time.perf_counter()
    assert client.submit(length, data).result(120) == len(data)
    return time.perf_counter() - began


def told(what: str, ratios: Sequence[float]) -> None:
    least, most = interval(ratios)
    print(f"{what}: {statistics.median(ratios):.3f} ({least:.3f} to {most:.3f}), {len(ratios)} pairs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("handshakes", "strangers", "revocations", "tasks", "values")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--peers", type=int, nargs="+", default=(1_000, 10_000))
    parser.add_argument("--repeats", type=int, default=1, help="of handshakes")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--tasks", type=int, default=300_000)
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    programs: dict[str, Callable[[], None]] = {
        "handshakes": lambda: handshakes(options.peers, options.repeats),
        "strangers": lambda: strangers(options.pairs, options.tasks),
        "revocations": lambda: revocations(options.pairs, options.tasks),
        "tasks": lambda: tasks(options.pairs, options.tasks // 10),
        "values": lambda: values(options.pairs, options.megabytes),
    }
    for part in options.only:
        programs[part]()


if __name__ == "__main__":
    main()
