"""Seeds that are fresh for each state of the project, and the same whenever that state is tested again."""

from __future__ import annotations

import random
import subprocess

from tests.support.processes import REPOSITORY


def fresh_seed(first: int = 0) -> int:
    """Return a number between `first` and 2**31 that follows from the files of the last commit.

    So a test that has passed locally passes in CI too, and the next commit has other seeds. Without Git it is random.
    """
    shown = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    return random.Random(shown.stdout or None).randrange(first, 2**31)
