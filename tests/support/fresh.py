"""Seeds that are fresh for each state of the project, and the same whenever that state is tested again."""

from __future__ import annotations

import random
import subprocess

from tests.support.processes import REPOSITORY


def fresh_seed(first: int = 0) -> int:
    """Return a number from `first` to 2**31 that follows from the last commit's files; random without Git."""
    shown = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    return random.Random(shown.stdout or None).randrange(first, 2**31)
