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

# An import that must be refused, and the contract that refuses it.
TRESPASSES = [
    ("scaler/scheduler/trespass.py", "import scaler.worker", "A module imports only from the layers below"),
    ("scaler/wire/trespass.py", "import scaler.process", "A module imports only from the layers below"),
    ("scaler/process/trespass.py", "import scaler.actors", "A module imports only from the layers below"),
    ("scaler/actors/trespass.py", "import scaler.scheduler", "A module imports only from the layers below"),
    ("scaler/actors/kit/trespass.py", "import scaler.actors.trespass", "The actor kit knows nothing of tasks"),
    ("scaler/actors/trespass.py", "import zmq", "Actors reach no socket, schema or event loop"),
    ("scaler/actors/kit/trespass.py", "import time", "Actors take time, chance and threads from outside"),
    ("scaler/worker/trespass.py", "import scaler.actors.trespass", "The worker uses only the kit of the actors"),
    ("scaler/client/trespass.py", "import scaler.actors.kit", "The client uses no actors"),
]

# Imports that look like one and are lawful.
EXCEPTIONS = [
    ("scaler/process/visit.py", "import scaler.actors.kit"),
    ("scaler/worker/visit.py", "import scaler.actors.kit"),
    ("scaler/client/visit.py", "def local_cluster():\n    import scaler.cluster"),
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


def test_every_contract_holds() -> None:
    process = lint_imports(CHECKOUT)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(CHECKOUT / "scaler", tmp_path / "scaler", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("file", "trespass", "contract"), TRESPASSES)
def test_contract_notices_a_trespass(file: str, trespass: str, contract: str, copy: Path) -> None:
    if trespass.endswith(".trespass"):
        (copy / trespass.removeprefix("import ").replace(".", "/")).with_suffix(".py").touch()
    (copy / file).write_text(trespass + "\n")
    process = lint_imports(copy)
    assert process.returncode == 1, process.stderr
    assert f"{contract} BROKEN" in process.stdout


@pytest.mark.parametrize(("file", "visit"), EXCEPTIONS)
def test_contracts_allow_the_stated_exceptions(file: str, visit: str, copy: Path) -> None:
    (copy / file).write_text(visit + "\n")
    process = lint_imports(copy)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("file", sorted(ACTORS.rglob("*.py")), ids=lambda path: str(path.relative_to(ACTORS)))
def test_actor_imports_no_outside_world(file: Path) -> None:
    assert NOT_FOR_ACTORS.isdisjoint(imported_names(file.read_text()))


def test_imports_within_functions_are_seen() -> None:
    source = "import os.path\ndef late():\n    from time import sleep\n    import zmq.asyncio as z\n"
    assert set(imported_names(source)) == {"os", "time", "zmq"}
