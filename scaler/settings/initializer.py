"""The initializer as a setting: a function as text, because settings travel as text."""

from __future__ import annotations

import base64
from typing import Any

from scaler.config import ConfigError

PICKLED = "pickle:"


def check_initializer(text: str) -> None:
    """Raise `ConfigError` unless the text is empty or names a function."""
    if not text or text.startswith(PICKLED):
        return
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ConfigError(f"initializer must be a function, or a str like package.module:function, not {text!r}")


def initializer_text(value: Any) -> str:
    """Return an initializer as text.

    Args:
        value: a function, or what is text already; None is no initializer.

    Raises:
        ConfigError: if it is neither, or cannot be pickled.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not callable(value):
        raise ConfigError(f"initializer must be a function, or a str like package.module:function, not {value!r}")
    import cloudpickle  # noqa: PLC0415 - settings are read without it

    try:
        return PICKLED + base64.b64encode(cloudpickle.dumps(value, protocol=5)).decode()
    except Exception as error:  # pickling runs code of the user
        raise ConfigError(f"the initializer cannot be pickled: {error}") from error
