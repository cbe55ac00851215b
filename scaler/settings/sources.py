"""Sources: reads the values of settings from a file, the environment, and the arguments of a program or command.

Later sources win. The file is `scaler.toml` in the working directory, or `pyproject.toml` if it has a table
`[tool.scaler]`. Each process has its own table. Values are checked where they are read, so that a `ConfigError` can
name the source of a bad value.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from scaler.config import ConfigError
from scaler.settings import PROCESSES, Settings
from scaler.settings.base import IN_CODE
from scaler.settings.variables import is_of_kubernetes, warn_of_unknown_variables
from scaler.texts import did_you_mean

P = ParamSpec("P")
S = TypeVar("S", bound=Settings)
Table: TypeAlias = tuple[type[Settings], Mapping[str, str]]
"""A table of settings, and those settings whose argument has another name: setting name -> argument name."""

FILES = (("scaler.toml", ()), ("pyproject.toml", ("tool", "scaler")))
"""The names of the possible files, and the path to the tables of settings in each file."""

_MAY_HAVE_A_TABLE = r"\btool\W+scaler\b|^\s*[\"']?scaler\b\W*[.=]"
"""Matches the text of any file that has a table of Scaler. Parsing other files would take some milliseconds."""

_FOREIGN = {
    **dict.fromkeys(("job_folder", "jobs_folder", "keep_folder", "keep_jobs"), "write keep=, the folder of jobs"),
    **dict.fromkeys(("job", "jobs"), "write job=, an argument of map, map_unordered and start"),
    **dict.fromkeys(("key", "keyfile"), "write key_file="),
    "object_storage_address": "leave it out: the scheduler keeps the objects",
    "per_worker_capabilities": "write capabilities=: those of the machine, for all of its workers",
    "per_worker_task_queue_size": "write per_worker_queue_size=",
}
"""The names of arguments in similar systems -> what to write in Scaler."""

NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda _self: "NOT_GIVEN"})()
"""Marks an omitted argument. The value of its setting then comes from another source or from the table."""


def configured_values(kind: type[Settings], wanted: Collection[str]) -> dict[str, Any]:
    """Return the values of the `wanted` settings that the environment or the file gives, by setting name.

    Raises:
        ConfigError: if a value is bad, the file cannot be read, or the file has an unknown setting.
    """
    warn_of_unknown_variables()
    values: dict[str, Any] = {}
    where, table = _table(kind)
    for row in kind.rows():
        if row.name not in wanted:
            continue
        text = os.environ.get(row.variable)
        if text and not is_of_kubernetes(row.variable, text):
            values[row.name] = _checked(f"environment variable {row.variable}", row.parse, text)
        elif row.name in table:
            values[row.name] = _checked(where, row.check, table[row.name])
    return values


def gather(kind: type[S], given: Mapping[str, Any]) -> S:
    """Return the settings of a process: from `given`, else the environment, else the file, else the defaults.

    Names in `given` that are not settings are ignored. Raises `ConfigError` if a value is bad.
    """
    return kind.of(configured_values(kind, {row.name for row in kind.rows()} - given.keys()) | dict(given))


def given(arguments: Mapping[str, Any], **renamed: str) -> dict[str, Any]:
    """Return the arguments that were given to a constructor, by setting name.

    Args:
        arguments: the `locals()` of the constructor.
        renamed: argument name -> setting name, where the two differ.
    """
    flat = {**arguments, **arguments.get("options", {})}
    return {renamed.get(name, name): value for name, value in flat.items() if value is not NOT_GIVEN}


def completes_from_outside(
    kind: type[Settings], *others: Table, **renamed: str
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator that completes the omitted arguments of a constructor from the environment and the file.

    The address is an exception: in code, the address is only taken from the arguments.

    Args:
        others: the tables of other constructors, to which this constructor passes its further arguments.
        renamed: setting name -> argument name, where the two differ.
    """

    def decorate(init: Callable[P, None]) -> Callable[P, None]:
        call: Callable[..., None] = init
        arguments = {row.name: renamed.get(row.name, row.name) for row in kind.rows()}
        signature = _with_settings(init, *others, (kind, renamed))
        named = signature.parameters.keys() - {"address"}

        @functools.wraps(init)
        def completed(*args: P.args, **kwargs: P.kwargs) -> None:
            open_arguments = named - _bound(signature, args, kwargs).keys()
            wanted = [name for name, argument in arguments.items() if argument in open_arguments]
            values = {name: IN_CODE[name] for name in wanted if name in IN_CODE} | configured_values(kind, wanted)
            outside = {arguments[name]: value for name, value in values.items()}
            call(*args, **kwargs, **outside)

        # A client shows its plain signature: code that passes arguments on does not mean those of a local cluster.
        shown = inspect.signature(init) if others else signature
        completed.__signature__ = shown  # type: ignore[attr-defined]
        return completed

    return decorate


def takes_settings(*tables: Table) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator for a constructor that passes its arguments to other constructors, which complete them."""

    def decorate(init: Callable[P, None]) -> Callable[P, None]:
        signature = _with_settings(init, *tables)

        @functools.wraps(init)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            _bound(signature, args, kwargs)
            init(*args, **kwargs)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return decorate


def descriptions(*tables: Table, without: Collection[str]) -> str:
    """Return the names and descriptions of the settings in these tables, as the `Args` of a docstring."""
    rows = [(names, row) for kind, names in tables for row in kind.rows() if row.name not in without]
    texts = {names.get(row.name, row.name): row.text for names, row in rows}
    return "\n        ".join(f"{name}: {text}." for name, text in texts.items())


def _with_settings(init: Callable[..., None], *tables: Table) -> inspect.Signature:
    """Return the signature of a constructor with the defaults in the tables, and the settings in place of `options`."""
    rows = [(names.get(row.name, row.name), row) for kind, names in tables for row in kind.rows()]
    defaults = {argument: IN_CODE.get(row.name, row.default) for argument, row in rows}
    signature = inspect.signature(init)
    shown = [
        each.replace(default=defaults[each.name]) if each.default is NOT_GIVEN else each
        for each in signature.parameters.values()
        if each.kind != each.VAR_KEYWORD
    ]
    if len(shown) < len(signature.parameters):
        options = {name: hint for kind, _ in tables for name, hint in kind.OPTIONS.__annotations__.items()}
        for name, hint in options.items():
            text = getattr(hint, "__forward_arg__", hint)
            shown.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=text)
            )
    return signature.replace(parameters=shown)


def _bound(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor by name. For bad arguments, raise a `TypeError` that names the class."""
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        unknown = [name for name in kwargs if name not in signature.parameters]
        meant = ""
        if unknown:
            foreign = _FOREIGN.get(unknown[0])
            meant = f"; {foreign}" if foreign else did_you_mean(unknown[0], signature.parameters.keys() - {"self"})
        named = f"{type(args[0]).__name__}: " if args else ""
        raise TypeError(f"{named}{error}{meant}") from None


def _checked(where: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _table(kind: type[Settings]) -> tuple[str, dict[str, Any]]:
    """Return a description and the content of a process's table in the file; empty content if there is no file.

    Raises:
        ConfigError: if the file has unknown tables or keys, or keys that are not allowed in a file.
    """
    file, prefix, tables = _file()
    known = {other.TABLE for other in PROCESSES}
    for name, content in tables.items():
        if name not in known or not isinstance(content, dict):
            there = ", ".join(f"[{prefix}{name}]" for name in sorted(known))
            raise ConfigError(f"{file}: {name!r} is not a table of settings; there are {there}")
    where = f"[{prefix}{kind.TABLE}] of {file}"
    table: dict[str, Any] = tables.get(kind.TABLE, {})
    rows = {row.name: row for row in kind.rows()} if table else {}
    for key in table:
        if key not in rows:
            raise ConfigError(f"{where}: unknown setting {key!r}{did_you_mean(key, rows)}")
        if not rows[key].may_be_in_file:
            option = "".join(f", with {flag}" for flag in rows[key].flags[-1:])
            raise ConfigError(
                f"{where}: {key} is not taken from a file that is found in the working directory, because what it "
                f"names can run code; give it as an argument{option}, or as {rows[key].variable}"
            )
    return where, table


def _file() -> tuple[str, str, dict[str, Any]]:
    """Return name, table prefix and tables of the first file in the working directory that has settings.

    Raises:
        ConfigError: if the file cannot be read, or another user could have written it.
    """
    for name, path in FILES:
        try:
            status = os.stat(name)  # noqa: PTH116 - for each client that is made
        except OSError:
            continue
        version = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
        tables = _read(str(Path(name).absolute()), path, version)
        if tables is not None:
            return name, "".join(f"{part}." for part in path), tables
    return "", "", {}


@functools.lru_cache(maxsize=8)
def _read(name: str, path: tuple[str, ...], _version: tuple[int, ...]) -> dict[str, Any] | None:
    """Return the tables of a file, or None if the file has no tables of Scaler. Cached until the file changes.

    Raises:
        ConfigError: if the file cannot be read, or has settings and another user could have written it.
    """
    try:
        with open(name, "rb", opener=_without_waiting) as file:
            opened = os.fstat(file.fileno())
            text = file.read().decode("utf-8") if stat.S_ISREG(opened.st_mode) else ""
        tables = _tables(name, path, text)
        if tables:
            from scaler.settings.owners import check_owners  # noqa: PLC0415 - few programs have such a file

            check_owners(name, opened)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from None
    return tables


def _without_waiting(name: str, flags: int) -> int:
    """Open a file without blocking, even if it is a pipe."""
    return os.open(name, flags | os.O_NONBLOCK)


def _tables(name: str, path: tuple[str, ...], text: str) -> dict[str, Any] | None:
    """Return the tables in the text of a file; None if no table is Scaler's. Raises `ConfigError` for invalid TOML."""
    if path and not re.search(_MAY_HAVE_A_TABLE, text, re.MULTILINE):
        return None
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - few programs have such a file
    else:
        import tomli as tomllib  # noqa: PLC0415
    try:
        tables: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}") from None
    for part in path:
        if not isinstance(tables, dict) or part not in tables:
            return None
        tables = tables[part]
    return tables if isinstance(tables, dict) else None
