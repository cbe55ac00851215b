"""Prints the bill of materials of `pip install scaler` as CycloneDX: the packages that it brings, and vendored files.

Run by `make lock`, which gives it these packages with their versions on standard input. Licences are those that the
packages name which are installed here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

LINE = re.compile(r"([a-z0-9._-]+)==([^\s;\\]+)")
VENDOR = Path(__file__).parents[1] / "scaler/monitor/ui/static/vendor"
VENDORED = re.compile(r"/\*! \S+/(\w+) \(v([0-9.]+)\) \*/")
TEXT_MOST = 40
"""A longer text is the whole licence, and not its name."""


def bill(lines: Iterable[str]) -> dict[str, Any]:
    """Return the bill of what the lines of a lock file name."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "scaler", "licenses": licences("scaler")}},
        "components": [component(*found.groups()) for found in map(LINE.match, lines) if found] + vendored(),
    }


def vendored() -> list[dict[str, Any]]:
    """Return the entries of the scripts that the package has from npm, whose first line has name and version."""
    found = [VENDORED.match(file.read_text()) for file in sorted(VENDOR.glob("*.js"))]
    entries = [(each[1].lower(), each[2]) for each in found if each]
    licence = [{"license": {"id": "MIT"}}]
    return [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:npm/{name}@{version}", "scope": "required",
         "licenses": licence}
        for name, version in entries
    ]  # fmt: skip


def component(name: str, version: str) -> dict[str, Any]:
    """Return the entry of a package."""
    entry = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
    return {**entry, "scope": "required", "licenses": licences(name)}


def licences(name: str) -> list[dict[str, Any]]:
    """Return the licences that an installed package names: as an expression, as a text, or as classifiers."""
    try:
        said = metadata(name)
    except PackageNotFoundError:
        return []
    if said["License-Expression"]:
        return [{"expression": said["License-Expression"]}]
    classified = [each for each in said.get_all("Classifier") or () if each.startswith("License :: ")]
    names = [each.rpartition(" :: ")[2] for each in classified] or [said["License"] or ""]
    return [{"license": {"name": each}} for each in names if 0 < len(each) <= TEXT_MOST]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(sys.stdin), indent=1) + "\n")
