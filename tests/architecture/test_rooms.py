"""Rooms stay easy to read: no long function, no circle of files, no ladder of classes, and a page for each folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import scaler
from tests.support.trees import nodes

PACKAGE = Path(__file__).parents[2] / "scaler"
FILES = sorted(PACKAGE.rglob("*.py"))
FUNCTION_LINES_MOST = 40
"""With the signature, without docstrings, also those of attributes."""
LONG = {
    "scaler.processor.processor: _run": "it is on the way of each task, and a further call costs it more than a line"
}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever in the file, also for type checkers only."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


MODULES = {name_of(path): path for path in FILES}


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef, is_public: bool) -> int:
    """The lines of a function; a public signature does not count: it has a line for each setting of a user."""
    texts = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    prose = sum((text.end_lineno or 0) - text.lineno + 1 for text in texts)
    first = function.body[0].lineno if is_public else function.lineno
    return (function.end_lineno or 0) - first + 1 - prose


def test_functions_are_short() -> None:
    too_long = []
    for name, path in MODULES.items():
        classes = [node for node in nodes(path) if isinstance(node, ast.ClassDef) and node.name in scaler.__all__]
        public = [member for node in classes for member in node.body]
        for node in nodes(path):
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if is_function and lines_of(node, node in public) > FUNCTION_LINES_MOST:
                too_long.append(f"{name}: {node.name}")
    assert too_long == list(LONG)


def test_no_circle_of_files() -> None:
    """The files of the kit name each other's types, and nothing else; it is one room."""
    graph = {}
    for name, path in MODULES.items():
        others = {other for other in imported(path) if other in MODULES} - {name}
        is_kit = name.startswith("scaler.kit.")
        graph[name] = {other for other in others if not (is_kit and other.startswith("scaler.kit."))}
    TopologicalSorter(graph).prepare()


def test_one_place_knows_which_schemes_of_addresses_there_are() -> None:
    """Others ask `Endpoint`. Texts for users may show whole addresses."""
    prefixes = {"tcp://", "ipc://", "ipc:///", "inproc://"}
    found = [
        f"{name}: {node.value}"
        for name, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value in prefixes
    ]
    assert [place for place in found if not place.startswith("scaler.endpoint: ")] == []


FOLDER_FILES_MOST = 15
"""Beside `__init__.py`."""


def test_a_folder_has_about_a_dozen_files() -> None:
    packages = [path.parent for path in FILES if path.name == "__init__.py"]
    large = [name_of(each) for each in packages if len([*each.glob("*.py")]) - 1 > FOLDER_FILES_MOST]
    assert large == [], "move what belongs together into a folder"


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=name_of)
def test_the_docstring_of_a_folder_says_what_is_in_it_and_who_calls_it(path: Path) -> None:
    page = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert len(re.findall(r"\.(?=\s|$)", page)) >= 3


# A class is divided by values that own a part of its state, not by a parent of its own.

LEGITIMATE: dict[str, str] = {}
"""Classes that are there only for one child, and why: there is none."""


def parents_of(node: ast.ClassDef) -> Iterator[str]:
    """The names of its base classes, `Future` for `futures.Future[T]`."""
    for base in node.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(named, (ast.Name, ast.Attribute)):
            yield ast.unparse(named).rpartition(".")[2]


def beside_types(root: ast.AST) -> Iterator[ast.AST]:
    """All that is in a node but its annotations, and the bases of classes: what names a class there makes nothing."""
    left = [root]
    while left:
        node = left.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns") and not (field == "bases" and isinstance(node, ast.ClassDef)):
                children = value if isinstance(value, list) else [value]
                left += [child for child in children if isinstance(child, ast.AST)]


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
