"""The lock file, the floors, and the bill of materials belong to `pyproject.toml` as it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
LOCK = (CHECKOUT / "lock.txt").read_text()
PINNED = re.compile(
    r"^([a-z0-9._-]+)==([^ ;\\]+)(?: ; [^\\]+)? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\\n)?)+)", re.MULTILINE
)


def needed(*extras: str) -> Iterator[Requirement]:
    """Yield what the package and these of its extras name, and what extras that they name do."""
    for line in chain(PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)):
        requirement = Requirement(line)
        if requirement.name == "scaler":
            yield from needed(*requirement.extras)
        else:
            yield requirement


def test_the_lock_file_has_a_version_that_is_allowed_of_each_package_and_its_hashes() -> None:
    """Else: make lock."""
    pinned: dict[str, list[str]] = {}
    for found in PINNED.finditer(LOCK):
        pinned.setdefault(found[1], []).append(found[2])
    assert sum(map(len, pinned.values())) == len(re.findall(r"^\S+==", LOCK, re.MULTILINE)), "a package has no hash"
    for requirement in needed("dev"):
        versions = pinned.get(requirement.name, [])
        assert any(requirement.specifier.contains(version) for version in versions), requirement


def test_the_bill_of_materials_has_what_the_package_brings_in_the_versions_of_the_lock_file() -> None:
    """Else: make lock."""
    components = json.loads((CHECKOUT / "bom.json").read_text())["components"]
    assert {each.name for each in needed()} <= {each["name"] for each in components}
    for each in components:
        if each["purl"].startswith("pkg:npm/"):
            continue
        assert f"\n{each['name']}=={each['version']} " in f"\n{LOCK}", each
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"


def test_the_bill_of_materials_has_each_vendored_script_whose_licence_is_beside_it() -> None:
    """Else: make lock."""
    folder = CHECKOUT / "scaler/monitor/ui/static/vendor"
    components = json.loads((CHECKOUT / "bom.json").read_text())["components"]
    of_npm = {each["name"]: each["version"] for each in components if each["purl"].startswith("pkg:npm/")}
    scripts = {file.name.partition(".")[0]: file.read_text().partition("\n")[0] for file in folder.glob("*.js")}
    assert of_npm.keys() == {name.lower() for name in scripts}
    for name, first in scripts.items():
        assert f"(v{of_npm[name.lower()]})" in first
        assert "MIT License" in (folder / f"{name}.LICENSE").read_text()


def test_no_file_of_these_names_a_host() -> None:
    assert "://" not in LOCK
    assert "://" not in (CHECKOUT / "bom.json").read_text()


def test_the_floors_are_those_of_the_packages_that_users_install() -> None:
    script = re.search(r"@(sed .*) >\$\(VENV\)/floors.txt", (CHECKOUT / "Makefile").read_text())
    assert script is not None
    printed = subprocess.run(["sh", "-c", script[1]], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    floors = dict(line.split("==") for line in printed.splitlines())
    for requirement in needed():
        assert f">={floors[requirement.name]}" in str(requirement.specifier).split(","), requirement
