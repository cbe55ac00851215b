"""Language: class names are unique, and words that make sentences hard to read may only become fewer.

The counts are a ratchet. A text that passes may still be hard to read: `docs/glossary.md` has the terms.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.trees import nodes

CHECKOUT = Path(__file__).parents[2]
PACKAGE = sorted(CHECKOUT.glob("scaler/**/*.py"))
CODE = [*PACKAGE, *sorted(CHECKOUT.glob("tests/support/**/*.py"))]
PAGES = [
    *sorted(CHECKOUT.glob("*.md")),
    *sorted(CHECKOUT.glob("docs/**/*.md")),
    CHECKOUT / "protocol" / "README.md",
]
NOT_READ = {"CHANGELOG.md", "glossary.md"}
"""A history, and the page that has the words to avoid."""

HEADLESS = re.compile(r"(?:Who|Whoever|What|Whatever|Which|Those|That|Such|Others|The (?:same|others|last ones))\b")
"""Beginnings of docstrings that name no subject."""
WORDS = {
    "say again": re.compile(r"\b(?:say|says|said|saying)\b(?: \S+){0,3} (?:again|anew)\b", re.IGNORECASE),
    "so many": re.compile(r"\bso (?:many|much|long)\b(?! as\b)", re.IGNORECASE),
    "nobody": re.compile(
        r"\b(?:nobody|somebody|anybody|whoever|anew|any more|no more(?=[.,;:)]|$)|(?<!there )(?:is|are) (?-i:none))\b",
        re.IGNORECASE,
    ),
}
MOST = {
    ("docstrings", "headless"): 0,
    ("docstrings", "say again"): 0,
    ("docstrings", "so many"): 1,
    ("docstrings", "nobody"): 3,
    ("pages", "say again"): 0,
    ("pages", "so many"): 0,
    ("pages", "nobody"): 0,
}
"""How often each kind occurs. Lower a number when texts have become better."""


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file, also those below fields."""
    for node in nodes(path):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


@functools.cache
def counted() -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for path in CODE:
        for text in docstrings(path):
            counts["docstrings", "headless"] += HEADLESS.match(text) is not None
            for name, words in WORDS.items():
                counts["docstrings", name] += len(words.findall(" ".join(text.split())))
    for path in PAGES:
        if path.name not in NOT_READ:
            text = " ".join(path.read_text(encoding="utf-8").split())
            for name, words in WORDS.items():
                counts["pages", name] += len(words.findall(text))
    return counts


def test_class_names_are_unique() -> None:
    names = Counter(node.name for path in PACKAGE for node in nodes(path) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("kind", list(MOST))
def test_words_that_are_hard_to_read_become_fewer(kind: tuple[str, str]) -> None:
    found = counted()[kind]
    assert found <= MOST[kind], "see docs/glossary.md for the words to use"
    assert found == MOST[kind], "there are fewer now: lower the number in MOST"


def test_each_prohibition_names_its_test() -> None:
    """A docstring that says what must never be done names the test that would fail."""
    without = [
        f"{path.relative_to(CHECKOUT)}: {text.strip().splitlines()[0]}"
        for path in CODE
        for text in docstrings(path)
        if re.search(r"\bMust never\b", text) and "test_" not in text
    ]
    assert without == []
