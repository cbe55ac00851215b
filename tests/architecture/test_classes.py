"""A class is divided by values that own a part of its state, not by a parent of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.trees import nodes

FILES = sorted((Path(__file__).parents[2] / "scaler").rglob("*.py"))

LEGITIMATE: dict[str, str] = {}
"""Classes that are there only for one child, and why: there is none."""


def parents_of(node: ast.ClassDef) -> Iterator[str]:
    """The names of its base classes, `Future` for `futures.Future[T]`."""
    for base in node.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(named, (ast.Name, ast.Attribute)):
            yield ast.unparse(named).rpartition(".")[2]


def beside_types(node: ast.AST) -> Iterator[ast.AST]:
    """All that is in a node but its annotations, and the bases of classes: what names a class there makes nothing."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns") or (field == "bases" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from beside_types(child)


def only_parents(trees: Iterable[list[ast.AST]]) -> list[str]:
    """The classes with one child which nobody makes, raises, catches or hands on; a protocol is a type of others."""
    defined: dict[str, list[str]] = {}
    children: dict[str, int] = {}
    used: set[str] = set()
    for tree in trees:
        for node in tree:
            if isinstance(node, ast.ClassDef):
                defined[node.name] = list(parents_of(node))
                for parent in defined[node.name]:
                    children[parent] = children.get(parent, 0) + 1
        for node in beside_types(tree[0]):
            if isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
    single = (name for name in defined if children.get(name) == 1 and name not in used)
    return sorted(name for name in single if "Protocol" not in defined[name])


def test_no_class_is_there_only_to_be_the_parent_of_one_other() -> None:
    found = only_parents(map(nodes, FILES))
    assert found == sorted(LEGITIMATE), "give the class values that own a part of its state, or say why it is right"


LADDER = """
class Asked(Actor):
    def ask(self) -> None: ...

class Worker(Asked, Generic[T]):
    def stop(self, other: Asked) -> Asked: ...
"""


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("", ["Asked"]),
        ("class Other(module.Asked): ...", []),
        ("asked = Asked()", []),
        ("def is_asked(worker): return isinstance(worker, Asked)", []),
        ("worker: Asked = Worker()", ["Asked"]),
        ("class Node(Worker): ...", ["Asked", "Worker"]),
        ("class Door(Protocol): ...\nclass WideDoor(Door, Protocol): ...", ["Asked"]),
    ],
)
def test_a_ladder_is_noticed(more: str, found: list[str]) -> None:
    assert only_parents([list(ast.walk(ast.parse(LADDER + more)))]) == found
