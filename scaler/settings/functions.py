"""Functions as settings: the initializer, and the functions that a cluster serves by name, as text."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from scaler.amounts import call_of
from scaler.config import ConfigError
from scaler.texts import shown

PICKLED = "pickle:"


def check_initializer(text: str, what: str = "initializer") -> None:
    """Raise `ConfigError` unless the text is empty or names a function."""
    if not text or text.startswith(PICKLED):
        return
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ConfigError(f"{what} must be a function, or a str like package.module:function, not {text!r}")


def initializer_text(value: Any, what: str = "initializer") -> str:
    """Return an initializer as text. `value` is a function, a text, or None, which means no initializer.

    Args:
        what: what the error calls the value.

    Raises:
        ConfigError: if the value is of another type, or cannot be pickled.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not callable(value):
        raise ConfigError(f"{what} must be a function, or a str like package.module:function, not {shown(value)}")
    import cloudpickle  # noqa: PLC0415 - settings are read without it

    try:
        return PICKLED + base64.b64encode(cloudpickle.dumps(value, protocol=5)).decode()
    except Exception as error:  # pickling runs code of the user
        raise ConfigError(f"{what} cannot be pickled: {error}") from error


def functions_texts(functions: object) -> Sequence[str] | object:
    """Convert a mapping from names to functions into texts. Return any other value unchanged."""
    if not isinstance(functions, Mapping):
        return functions
    return tuple(f"{name}={initializer_text(each, f'the function {name}')}" for name, each in functions.items())


def read_functions(texts: Sequence[str]) -> dict[str, str]:
    """Read texts such as `area=shapes:area`. Return the functions by name. Raises `ConfigError` for a bad text."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, function = text.partition("=")
        call_of(name)
        if name in found:
            raise ConfigError(f"the function {name} is named twice")
        check_initializer(function or "nothing", f"the function {name}")
        found[name] = function
    return found
