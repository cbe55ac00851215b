"""Hunt: looks for each mutant, seed by seed, until a run fails that is well without it."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.kinds import FRESH, kind_of, seeds_of
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants_documented import DOCUMENTED
from tests.simulation.mutants_further import FURTHER
from tests.simulation.mutants_jobs import JOBS
from tests.simulation.mutants_needs import NEEDS
from tests.simulation.mutants_promised import PROMISED
from tests.simulation.mutants_rows import ROWS
from tests.simulation.mutants_unseen import UNSEEN
from tests.simulation.mutants_values import VALUES
from tests.simulation.story import Story

SEEDS_MOST = 500
FRESH_MOST = 500
"""of a kind that only fresh seeds have"""


@dataclass
class Find:
    """What came of the hunt for one mutant."""

    mutant: Mutant
    seed: int | None
    seconds: float
    how: str = ""

    def row(self) -> str:
        """Return its row of the table."""
        found = "not found" if self.seed is None else str(self.seed)
        return f"| {self.mutant.name} | {self.mutant.what} | {found} | {self.seconds:.1f} | {self.how[:100]} |"


def hunt(mutant: Mutant, seeds: int = SEEDS_MOST) -> Find:
    """Run seeds from 0 until one shows the mutant."""
    began = time.process_time()
    of_first = [seed for seed in range(seeds) if not mutant.kinds or kind_of(seed).name in mutant.kinds]
    for seed in of_first or seeds_of(mutant.kinds, FRESH, FRESH_MOST):
        with mutant.put_back():
            story = Story(seed)
            violations = story.run()
        if violations and not Story(seed).run():
            return Find(mutant, seed, time.process_time() - began, f"{story.kind.name}: {violations[0]}")
        if seed % 20 == 19:
            gc.collect()
    return Find(mutant, None, time.process_time() - began)


def hunt_all(names: Sequence[str]) -> int:
    """Hunt the mutants of these names, or all. Print the table, and return how many were not found."""
    print("| mutant | defect | seed | seconds | seen as |\n|---|---|---|---|---|")
    missed = 0
    for mutant in (*MUTANTS, *FURTHER, *DOCUMENTED, *PROMISED, *ROWS, *VALUES, *JOBS, *UNSEEN, *NEEDS):
        if not names or mutant.name in names:
            find = hunt(mutant)
            missed += find.seed is None
            print(find.row(), flush=True)
    return missed
