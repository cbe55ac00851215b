"""What it costs an agent to bring a value to the disk, and back: processor time of the store alone, in one process.

    python tests/benchmarks/store.py                      values of 64 kB and of 10 MB: some ten seconds
    python tests/benchmarks/store.py --folder /scratch    the disk to use, else /var/tmp

User time is that of the code; system time is that of the disk, and differs with what else it does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from scaler.ids import ObjectId
from scaler.store.host_share import HostShare
from scaler.store.spill_folder import SpillFolder
from scaler.store.store import ValueStore
from scaler.wire.session.too_large import NO_LIMIT

CASES = (65_600, 3_000, 70_000_000), (10_000_000, 40, 100_000_000)
"""bytes of a value, how many there are, bytes of memory"""


def settle(store: ValueStore) -> None:
    while store.make_room():
        pass


def measure(folder: Path, size: int, count: int, memory: int) -> str:
    """Return a row of the table: all values are taken, and then each of them is needed once, the first one first."""
    store = ValueStore(HostShare(None), memory, SpillFolder(folder, keeps_free=False), NO_LIMIT)
    ids, frames = [ObjectId(number.to_bytes(16, "big")) for number in range(count)], [bytes(size)]
    before = os.times()
    for object_id in ids:
        store.take(object_id, frames)
        settle(store)
    between, cold = os.times(), store.cold_bytes
    for object_id in ids:
        store.find(object_id)
        settle(store)
    after = os.times()
    store.close()
    costs = [
        f"{1e6 * (end.user - begin.user) / count:,.0f} | {1e6 * (end.system - begin.system) / count:,.0f}"
        for begin, end in ((before, between), (between, after))
    ]
    return f"| {count:,} of {size:,} bytes | {memory:,} | {cold:,} | {costs[0]} | {costs[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/var/tmp", help="on the disk to use")
    folder = parser.parse_args().folder
    print("| values | bytes of memory | on disk | taking one: us user | us system | finding one: us user | us system |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            print(measure(Path(place), *case))


if __name__ == "__main__":
    main()
