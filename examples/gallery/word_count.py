"""Word count: the words in the files of a folder, added up as the results arrive.

The folder is that of Python's standard library.
"""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from pathlib import Path

from side_by_side import arguments, side_by_side

from scaler import Client

WORD = re.compile(r"[a-z]{3,}")
FILES_PER_TASK = 60


def count(paths: list[str]) -> Counter[str]:
    """Count the words of some files: the task."""
    words: Counter[str] = Counter()
    for path in paths:
        words.update(WORD.findall(Path(path).read_text(encoding="utf-8", errors="replace").lower()))
    return words


def total(counts: list[Counter[str]]) -> Counter[str]:
    """Add counts up."""
    words: Counter[str] = Counter()
    for some in counts:
        words.update(some)
    return words


def on_cluster(client: Client, batches: list[list[str]]) -> Counter[str]:
    """Add up results as they arrive, in any order, while the workers count the rest."""
    words: Counter[str] = Counter()
    for some in client.map_unordered(count, [(batch,) for batch in batches]):
        words.update(some)
    return words


def main() -> None:
    """Count the words, and print the most used ones."""
    options = arguments("Count the words of Python's standard library.", 2000, "files at most")
    folder = Path(sysconfig.get_path("stdlib"))
    paths = sorted(str(path) for path in folder.rglob("*.py") if "site-packages" not in path.parts)[: options.size]
    batches = [paths[start : start + FILES_PER_TASK] for start in range(0, len(paths), FILES_PER_TASK)]

    words, verdict = side_by_side(
        lambda: total([count(batch) for batch in batches]),
        lambda client: on_cluster(client, batches),
        options.workers,
    )

    megabytes = sum(Path(path).stat().st_size for path in paths) / 1e6
    print(f"{len(paths)} files, {megabytes:.1f} MB, {words.total():,} words, {len(words):,} different ones")
    print("most used:", ", ".join(f"{word} {number:,}" for word, number in words.most_common(6)))
    print(verdict)


if __name__ == "__main__":
    main()
