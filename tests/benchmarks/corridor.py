"""How many Python calls one lone `submit(...).result()` makes in the whole system, in how many functions and files.

    python tests/benchmarks/corridor.py [--functions]

Client, scheduler, agent and worker are threads of one process (`Client(processes=False)`), warm. The trips follow each
other, so what a trip leaves for later is counted with the next one. Threads meet in more than one way: the median of
some rounds is told, with the least and the most. Functions and files are those of at least every second trip. On
CPython 3.11, before and after the client's link had 14 files instead of 23:

    413 calls (412 to 416) of 226 functions in 63 files
    409 calls (409 to 411) of 222 functions in 60 files
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import scaler
from scaler import Client

ROOT = str(Path(scaler.__file__).parent)
TRIPS = 200
ROUNDS = 9

_calls: Counter[CodeType] = Counter()


def _count(frame: FrameType, event: str, _argument: object) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(ROOT):
        _calls[frame.f_code] += 1


def nothing(number: int) -> int:
    return number


def trips(client: Client) -> Counter[CodeType]:
    """Return how often each function was called in some trips."""
    _calls.clear()
    for number in range(TRIPS):
        client.submit(nothing, number).result()
    return _calls.copy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="print each function, and its calls in one trip")
    arguments = parser.parse_args()
    threading.setprofile(_count)
    sys.setprofile(_count)
    with Client(processes=False, n_workers=1) as client:
        trips(client)
        rounds = [trips(client) for _ in range(ROUNDS)]
    totals = [sum(calls.values()) / TRIPS for calls in rounds]
    middle = sum(rounds, Counter[CodeType]())
    usual = {code: n / TRIPS / ROUNDS for code, n in middle.items() if n >= TRIPS * ROUNDS / 2}
    files = {code.co_filename for code in usual}
    if arguments.functions:
        for code, n in sorted(usual.items(), key=lambda each: (each[0].co_filename, each[0].co_firstlineno)):
            print(f"{n:6.2f} {code.co_filename[len(ROOT) + 1 :]}:{code.co_firstlineno} {code.co_name}")
    n_calls, least, most = statistics.median(totals), min(totals), max(totals)
    print(f"{n_calls:.0f} calls ({least:.0f} to {most:.0f}) of {len(usual)} functions in {len(files)} files")


if __name__ == "__main__":
    main()
