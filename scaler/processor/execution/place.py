"""ProcessFacts: facts about the process in which a task failed: host, worker, Python, packages, names of variables.

Read by a client that runs a failed call again (`scaler.client.rerun`). Values of variables are not recorded.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import socket
import zlib
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from scaler.cores import THREAD_VARIABLES
from scaler.pickling.versions import versions_used_by
from scaler.process import hash_seed
from scaler.texts import NAME_CHARACTERS, printable, read_json

NAMES_CHARACTERS = 4096
"""The total length of the recorded names of environment variables. Further names are left out."""
PACKAGES_MOST = 64
JSON_BYTES = 64 * 1024
"""The size up to which facts from another process are read."""

_OF_SHELLS = frozenset({"_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL"})
_SET_FOR_WORKERS = frozenset({hash_seed.VARIABLE, *THREAD_VARIABLES})
_PREFIX = "SCALER_"


class ProcessFacts(NamedTuple):
    """Facts about the process in which a function was called."""

    host: str
    worker: str
    """the name of the worker; empty if the task did not run in a processor"""
    python: str
    packages: dict[str, str]
    """the versions of the packages that the function uses"""
    variables: Sequence[str]
    """the sorted names of the environment variables, except those that shells or Scaler itself set"""
    omitted: int = 0
    """the number of further names of variables, which were left out"""

    @classmethod
    def decode(cls, data: bytes) -> ProcessFacts | None:
        """Return the facts in a `TaskFailure`; None if it has no facts, or they cannot be read."""
        try:
            found = read_json(zlib.decompressobj().decompress(data, JSON_BYTES))
            host, worker, python = (_text(found[key]) for key in ("host", "worker", "python"))
            packages = {_text(name): _text(version) for name, version in found["packages"].items()}
            return cls(host, worker, python, packages, [*map(_text, found["variables"])], int(found["omitted"]))
        except (zlib.error, ValueError, TypeError, KeyError, AttributeError):
            return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a str is expected, not {type(value).__name__}")
    return printable(value, NAME_CHARACTERS)


def process_facts(function: Any, worker: str = "") -> ProcessFacts:
    """Return the facts about this process of a worker, with the packages of `function` unless that is None."""
    return _facts(worker, _packages(function), tuple(os.environ))


def encoded_facts(function: Any, worker: str = "") -> bytes:
    """Return the encoded facts about this process, for a `TaskFailure`; empty if code of the user raises an error."""
    try:
        return _encoded(worker, _packages(function), tuple(os.environ))
    except Exception:  # noqa: BLE001 - whatever classes of the user raise
        return b""


def _packages(function: Any) -> tuple[tuple[str, str], ...]:
    return () if function is None else tuple(sorted(versions_used_by(function).items())[:PACKAGES_MOST])


def _facts(worker: str, packages: tuple[tuple[str, str], ...], variables: tuple[str, ...]) -> ProcessFacts:
    names = _names(variables)
    n_shown = sum(1 for total in accumulate(map(len, names)) if total <= NAMES_CHARACTERS)
    python = platform.python_version()
    return ProcessFacts(_host(), worker, python, dict(packages), names[:n_shown], len(names) - n_shown)


@functools.lru_cache(64)
def _encoded(worker: str, packages: tuple[tuple[str, str], ...], variables: tuple[str, ...]) -> bytes:
    """Encode the facts. The result is cached, because many tasks fail in the same process."""
    place = _facts(worker, packages, variables)
    return zlib.compress(json.dumps(place._asdict(), separators=(",", ":")).encode(), 6)


def _names(names: Iterable[str]) -> list[str]:
    left_out = _OF_SHELLS | _SET_FOR_WORKERS
    of_user = (name for name in names if name not in left_out and not name.startswith(_PREFIX))
    return sorted(printable(name, NAME_CHARACTERS) for name in of_user)


@functools.cache
def _host() -> str:
    return socket.gethostname()
