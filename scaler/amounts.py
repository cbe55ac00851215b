"""Amounts of capabilities: how users write what a node has and what a task takes, such as `gpu=2,licence,memory=64G`.

Used by the settings of a cluster and by the options of tasks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from itertools import takewhile

from scaler.config import WITH_UNIT, ConfigError, plain_number, read_size, size_text
from scaler.texts import NAME_CHARACTERS, printable, shown

AMOUNT_MOST = 2**63 - 1
GPU = "gpu"
"""The capability whose units are numbered: a task receives the numbers of the GPUs that it may use."""
GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that names the GPUs that a program may use. CUDA reads this variable."""
MEMORY = "memory"
"""The capability that tasks request with the option `memory`; the unit is a byte."""
CALL = "call:"
"""The prefix of the capability of a node that serves a function by name: `call:area` for the function `area`."""
CAPABILITIES_MOST = 64
"""The maximum number of capabilities that a node has, or that a task requests."""


def check_name(name: object) -> str:
    """Return the name of a capability. Raises `ConfigError` if the name is not valid."""
    if not _is_name(name, NAME_CHARACTERS):
        raise ConfigError(
            f"the name of a capability must be a printable str of at most {NAME_CHARACTERS} characters without ',' "
            f"and '=', not {name!r}"
        )
    if str(name).startswith(CALL):
        raise ConfigError(
            f"a capability whose name begins with {CALL!r} stands for a function called by name: instead of "
            f"{name!r}, use client.call, and list the function in the setting 'functions' of a cluster"
        )
    return str(name)


def call_of(name: object) -> str:
    """Return the capability that runs calls of a function by name. Raises `ConfigError` for a bad name."""
    most = NAME_CHARACTERS - len(CALL)
    if not _is_name(name, most):
        raise ConfigError(
            f"the name of a function must be a printable str of at most {most} characters without ',' and '=', not "
            f"{shown(name)}"
        )
    return f"{CALL}{name}"


def _is_name(name: object, most_characters: int) -> bool:
    if not isinstance(name, str) or not name or name != name.strip() or set(name) & {",", "="}:
        return False
    return printable(name, most_characters) == name


def amount_of(name: str, amount: object, least: int) -> int:
    """Return an amount: a whole number, or a size such as `64G`. Raises `ConfigError` if `amount` is neither."""
    number = plain_number(amount)
    if isinstance(amount, str):
        with contextlib.suppress(ConfigError):
            number = read_size(name, amount)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= AMOUNT_MOST:
        raise ConfigError(
            f"the amount of the capability {name} must be a whole number from {least}, or {WITH_UNIT}, not "
            f"{shown(amount)}"
        )
    return number


def amount_text(amount: int, thousands: str = "") -> str:
    """Return an amount as text: with a unit for a multiple of 2**20, else with `thousands` between groups of digits."""
    return size_text(amount) if amount and amount % 2**20 == 0 else f"{amount:,}".replace(",", thousands)


def read_amounts(texts: Iterable[str]) -> dict[str, int]:
    """Return the amounts in texts such as `gpu=2`; a name alone means 1. Raises `ConfigError` for a bad text."""
    found: dict[str, int] = {}
    for text in texts:
        name, is_there, amount = text.partition("=")
        name = check_name(name.strip())
        if name in found:
            raise ConfigError(f"the capability {name} is named twice: give its total amount once")
        found[name] = amount_of(name, amount if is_there else 1, 1)
    if len(found) > CAPABILITIES_MOST:
        raise ConfigError(f"there are {len(found)} capabilities, and at most {CAPABILITIES_MOST} are possible")
    return found


def visible_gpus(value: str) -> tuple[str, ...]:
    """Return the GPUs in a value of CUDA_VISIBLE_DEVICES, each once. As in CUDA, an invalid name ends the list."""
    names = [name.strip() for name in value.split(",")]
    return tuple(dict.fromkeys(takewhile(lambda name: name.isdecimal() or name.startswith(("GPU-", "MIG-")), names)))


def to_texts(capabilities: object) -> tuple[str, ...] | object:
    """Return texts such as `gpu=2` for a mapping of names to amounts. Return any other value unchanged."""
    if not isinstance(capabilities, Mapping):
        return capabilities
    return tuple(f"{check_name(name)}={amount}" for name, amount in capabilities.items())
