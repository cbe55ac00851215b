"""Simulate: runs many seeds, prints those that fail and how to replay them, and keeps the result.

python -m tests.simulation --seeds 1000 --first 0
python -m tests.simulation --seed 17 -v
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
from pathlib import Path

from tests.simulation.hunt import hunt_all
from tests.simulation.kinds import FRESH, kind_of, seeds_of
from tests.simulation.story import Story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--seed", type=int, help="this one only, with its log")
    names = sorted({kind_of(seed).name for seed in range(2 * FRESH)})
    kinds = f"only seeds of these kinds of stories: {', '.join(names)}"
    parser.add_argument("--kinds", nargs="+", default=(), choices=names, metavar="NAME", help=kinds)
    parser.add_argument("-v", action="store_true", help="print the log of each seed while it runs")
    parser.add_argument("--trace", action="store_true", help="log each message")
    parser.add_argument("--keep", action="store_true", help="write the result to tests/simulation/results/seeds.md")
    parser.add_argument("--check-each", type=int, default=8, help="check all invariants after one in so many turns")
    parser.add_argument(
        "--mutants", nargs="*", metavar="NAME", help="look for these defects, or all, in 500 seeds each"
    )
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of bytes would be in another order in each process
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    if options.mutants is not None:
        return min(hunt_all(options.mutants), 1)
    seeds = [options.seed] if options.seed is not None else seeds_of(options.kinds, options.first, options.seeds)
    gc.disable()
    gc.freeze()  # all modules: the check of graphs that live on looks at all other objects
    began, failed = time.process_time(), 0
    failing: list[str] = []
    for seed in seeds:
        story = Story(seed, print if options.v else None, options.check_each)
        story.system.network.is_traced = options.trace
        violations = story.run()
        if violations:
            failed += 1
            failing.append(f"seed {seed} ({story.kind.name}): {violations[0]}")
            if options.seed is not None and not options.v:
                print("\n".join(story.world.lines))
            print(f"seed {seed} ({story.kind.name}) fails: {violations[0]}")
            print(f"    replay: python -m tests.simulation --seed {seed} -v", flush=True)
        del story
        gc.collect()
    seconds = time.process_time() - began
    summary = f"{len(seeds)} seeds, {failed} failed, {60 * len(seeds) / seconds:.0f} seeds a minute of processor time"
    print(summary)
    if options.keep:
        _keep(f"seeds {seeds[0]} to {seeds[-1]}: {summary}", failing)
    return min(failed, 1)


def _keep(summary: str, failing: list[str]) -> None:
    """Write the result to a file that is kept."""
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    lines = ["# Simulation: seeds", "", f"`make simulate SEEDS=N ARGS=--keep` on {system}.", "", summary, ""]
    (results / "seeds.md").write_text("\n".join([*lines, *(f"- {line}" for line in failing)]))


if __name__ == "__main__":
    sys.exit(main())
