"""Who may import whom: the contracts in pyproject.toml hold, they would notice, and the actors stay pure."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ACTORS = CHECKOUT / "scaler" / "actors"
NOT_FOR_ACTORS = frozenset({"asyncio", "capnp", "random", "socket", "threading", "time", "zmq"})

# Imports that must be refused, by who would make them. All are planted in one copy, and each must be named.
TRESPASSES = [
    ("scaler.executors", "scaler.agent"),
    ("scaler.processor", "scaler.executors.processes"),
    ("scaler.executors.inline", "scaler.executors.processes"),
    ("scaler.executors.inline", "scaler.executors.engines.call"),
    ("scaler.executors.inline", "scaler.actors.tasks.task"),
    ("scaler.wire", "scaler.process"),
    ("scaler.process", "scaler.actors.tasks.task"),
    ("scaler.actors", "scaler.scheduler"),
    ("scaler.kit", "scaler.actors.tasks.task"),
    ("scaler.wire.codec", "scaler.wire.session.pipe"),
    ("scaler.wire", "zmq"),
    ("scaler.transport", "scaler.wire.messages.client"),
    ("scaler.pickling", "scaler.wire.codec.codec"),
    ("scaler.actors", "zmq"),
    ("scaler.kit", "time"),
    ("scaler.agent", "scaler.actors.tasks.task"),
    ("scaler.executors.processes", "scaler.actors.tasks.task"),
    ("scaler.client", "scaler.kit"),
    ("scaler.client", "scaler.cluster"),
    ("scaler.client.calls", "scaler.client.link.inbox"),
    ("scaler.client.calls", "asyncio"),
    ("scaler.client.calls", "threading"),
    ("scaler.client.calls", "zmq"),
]

# Imports that look like one and are lawful.
EXCEPTIONS = [
    ("scaler/process/visit.py", "import scaler.kit"),
    ("scaler/executors/processes/visit.py", "import scaler.kit"),
    ("scaler/agent/visit.py", "import scaler.kit"),
    ("scaler/executors/inline/visit.py", "import scaler.kit"),
]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run on the package below `root`, whatever other scaler is installed."""
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", program, "--no-logo", "--no-cache", "--config", root / "pyproject.toml"],
        cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def imported_names(source: str) -> Iterator[str]:
    """The top-level names of all imports, also of those within functions and for type checkers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.processes
def test_every_contract_holds() -> None:
    process = lint_imports(CHECKOUT)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(CHECKOUT / "scaler", tmp_path / "scaler", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.processes
def test_contracts_notice_each_trespass(copy: Path) -> None:
    for number, (package, target) in enumerate(TRESPASSES):
        (copy / package.replace(".", "/") / f"trespass_{number}.py").write_text(f"import {target}\n")
    process = lint_imports(copy)
    assert process.returncode == 1, process.stderr
    for number, (package, target) in enumerate(TRESPASSES):
        assert f"{package}.trespass_{number} -> {target}" in process.stdout, "no contract forbids it"


@pytest.mark.processes
def test_contracts_allow_the_stated_exceptions(copy: Path) -> None:
    for file, visit in EXCEPTIONS:
        (copy / file).write_text(visit + "\n")
    process = lint_imports(copy)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("file", sorted(ACTORS.rglob("*.py")), ids=lambda path: str(path.relative_to(ACTORS)))
def test_actor_imports_no_outside_world(file: Path) -> None:
    assert NOT_FOR_ACTORS.isdisjoint(imported_names(file.read_text()))


def test_imports_within_functions_are_seen() -> None:
    source = "import os.path\ndef late():\n    from time import sleep\n    import zmq.asyncio as z\n"
    assert set(imported_names(source)) == {"os", "time", "zmq"}
