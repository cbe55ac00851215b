"""Other Pythons of this machine: first programs run there, and a cluster of this one refuses them with a sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY, command, complaints, free_address

pytestmark = [pytest.mark.more, pytest.mark.processes, pytest.mark.timeout(600)]

VERSIONS = ("3.10", "3.13", "3.14")
"""the oldest and the newest ones"""
PLACES = (".pyenv/versions/{}.*/bin/python3", ".local/share/uv/python/cpython-{}.*/bin/python3")
"""below the home of the user, where a shell need not find them"""

FIRST = """\
import sys
from scaler import Client


class Shape:
    def __init__(self, *sides):
        self.sides = sides


def area(shape):
    if not shape.sides:
        raise LookupError("a point")
    return shape.sides[0] * shape.sides[1]


with Client(n_workers=1) as client:
    print(client.submit(lambda: sys.version_info[:2]).result() == sys.version_info[:2])
    print(client.map(area, [(Shape(2, number),) for number in range(3)]))
    print(client.get({"a": 2, "b": (pow, "a", 5)}, keys=["b"]))
    error = client.submit(area, Shape()).exception()
    print(repr(error), "  raise LookupError" in str(error.__cause__))
"""
ASKS = """\
import sys
from scaler import Client
with Client(sys.argv[1]) as client:
    print(client.submit(pow, 2, 5).result())
"""


def program_of(version: str) -> str | None:
    """Return an interpreter of a version that can be started; not all names of pyenv can."""
    found = [str(path) for place in PLACES for path in sorted(Path.home().glob(place.format(version)))]
    for path in (*found, shutil.which(f"python{version}")):
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


class Other:
    """Another Python, with Scaler in a folder of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "PYTHONPATH": str(folder)}
        self._folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(REPOSITORY))
    [path] = folder.iterdir()
    return path


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Other:
    version, folder = request.param, tmp_path_factory.mktemp("python")
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"Python {version} runs all other tests")
    program = program_of(version)
    if program is None:
        pytest.skip(f"there is no Python {version} on this machine")
    wheel = request.getfixturevalue("wheel")
    try:
        pip("--python", program, "install", "--only-binary=:all:", "--target", str(folder), str(wheel))
    except subprocess.SubprocessError as error:  # there may be no network, or no wheel yet for this Python
        pytest.skip(f"Scaler cannot be installed for Python {version}: {error} {last_line(error.stderr or '')}")
    return Other(program, folder)


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", *arguments]
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)


def lines_of(done: subprocess.CompletedProcess[str]) -> Sequence[str]:
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    return done.stdout.splitlines()


def test_a_first_program_runs(python: Other) -> None:
    assert lines_of(python.run("-c", FIRST)) == ["True", "[0, 2, 4]", "{'b': 32}", "LookupError('a point') True"]


def test_the_quickstart_runs(python: Other) -> None:
    done = python.run(str(REPOSITORY / "examples" / "measure_code.py"), str(REPOSITORY / "scaler" / "kit"))
    assert done.returncode == 0, done.stderr  # which has the bar as well
    assert last_line(done.stdout).startswith("both ways gave the same ")


def test_a_client_with_another_python_than_the_workers_is_refused_with_the_reason(python: Other) -> None:
    address = free_address()
    with command("scheduler", address) as scheduler:
        scheduler.wait_for("address")
        with command("cluster", address, "-n", "1"):
            scheduler.wait_for("connected")
            client = python.run("-c", ASKS, address)
            cluster = python.run("-m", "scaler.cli.cluster", address, "-n", "1", "-ds", "2")
    assert client.returncode == cluster.returncode == 1
    assert "this client runs Python" in last_line(client.stderr)
    assert "this cluster runs Python" in cluster.stdout
