"""What users install: the sdist builds, the wheel built from it is complete, and it works away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.processes

CHECKOUT = Path(__file__).parents[2]
COMMANDS = ("scaler_scheduler", "scaler_cluster", "scaler_worker")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def test_what_is_installed_with_the_package_has_a_first_and_a_last_version() -> None:
    """A later major version, or a later year, may have changed what is used of it; nobody has tried it yet."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    of_users = {name: extras[name] for name in extras.keys() - {"dev", "more", "docs", "all", "examples"}}
    assert of_users.keys() == {"dask", "graphblas", "joblib", "ray", "tqdm", "uvloop"}
    for each in (*project["dependencies"], *chain(*of_users.values())):
        version = each.partition(";")[0]
        assert ">=" in version, each
        assert ",<" in version, each
    assert "aiohttp>=3.13.4,<4" in project["dependencies"], "earlier ones have known weaknesses"


def run(command: Sequence[str | Path], cwd: Path) -> str:
    process = subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, f"{[*map(str, command)]} ended with {process.returncode}:\n{process.stderr}"
    return process.stdout


def site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as an index user without a wheel would build it; with the backend that is installed."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, CHECKOUT], cwd=folder)
    (built,) = folder.glob("scaler-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; it borrows the dependencies of the environment that runs the tests.

    The borrowed folders come last, and no .pth file in them is read, so a scaler that lives there is never found.
    """
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel], cwd=folder)
    borrowed = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (site_packages(folder) / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path


def python_prints(installed: Path, elsewhere: Path, program: str) -> str:
    return run([installed / "bin" / "python", "-W", "error", "-c", program], cwd=elsewhere).strip()


@pytest.mark.more
def test_wheel_carries_all_of_the_protocol_the_type_marker_and_the_license(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    protocol = CHECKOUT / "protocol"
    expected = {f"scaler/protocol/{path.relative_to(protocol)}" for path in protocol.rglob("*") if path.is_file()}
    assert any(name.endswith(".capnp") for name in expected)
    assert expected | {"scaler/__init__.py", "scaler/py.typed"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert any(name.endswith("vendor/uPlot.LICENSE") and "/licenses/" in name for name in names)


@pytest.mark.more
def test_wheel_carries_the_page_for_browsers(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    page = [path for path in (CHECKOUT / "scaler/monitor/ui/static").rglob("*") if path.is_file()]
    assert {str(path.relative_to(CHECKOUT)) for path in page} <= names
    assert len(page) > 15


@pytest.mark.more
def test_wheel_carries_nothing_but_the_package(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"scaler"}


@pytest.mark.more
def test_installed_package_is_found_away_from_the_checkout(installed: Path, elsewhere: Path) -> None:
    file = python_prints(installed, elsewhere, "import scaler; print(scaler.__file__)")
    assert Path(file).is_relative_to(installed)


@pytest.mark.more
def test_installed_metadata_names_the_version_of_the_package(installed: Path, elsewhere: Path) -> None:
    program = "import importlib.metadata as m, scaler; print(m.version('scaler') == scaler.__version__)"
    assert python_prints(installed, elsewhere, program) == "True"


@pytest.mark.more
def test_installed_codec_works_with_the_schemas_that_came_with_it(installed: Path, elsewhere: Path) -> None:
    program = """
from scaler.wire.codec.schemas import schema_directory
from scaler.wire.codec.structs import TaskFailure
failure = TaskFailure("ValueError", "no", "", b"")
assert TaskFailure.decode(failure.encode()) == failure
print(schema_directory())
"""
    assert Path(python_prints(installed, elsewhere, program)) == site_packages(installed) / "scaler" / "protocol"


@pytest.mark.more
@pytest.mark.parametrize("command", COMMANDS)
def test_installed_command_answers_a_call_for_help(command: str, installed: Path, elsewhere: Path) -> None:
    assert "usage" in run([installed / "bin" / command, "-h"], cwd=elsewhere).lower()
