"""Texts: helpers for logs, terminals and error messages; text of other processes is made harmless."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from math import isfinite
from types import BuiltinFunctionType, FunctionType
from typing import Any

NAME_CHARACTERS = 256
"""The maximum length of a name from another process; a longer name is cut when it arrives."""
CUT = "..."
JSON_BYTES, JSON_DEPTH = 1024 * 1024, 16
"""The limits of a JSON text from another process: its length in bytes, and the depth of its nesting."""
_DIGITS_MOST = len(str(-(2**63)))
SHOWN_CHARACTERS = 80
"""The maximum length of the `repr` of one value; a longer `repr` is cut."""
ARGUMENTS_CHARACTERS = 200
"""The maximum length of the arguments of a call as text; a longer text is cut."""
_ITEMS_MOST, _LEVELS, _BITS_MOST, _ARRAY_MOST = 6, 4, 12_000, 100
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    deque: ("deque([", "])"),
    OrderedDict: ("OrderedDict({", "})"),
    Counter: ("Counter({", "})"),
}
_SCALARS = frozenset({type(None), bool, float, complex, range, type(...), type(NotImplemented)})
_QUICK_PACKAGES = frozenset({"datetime", "decimal", "fractions", "ipaddress", "pathlib", "scaler", "uuid", "zoneinfo"})
"""The packages whose classes have a `__repr__` that is quick and runs no code of the user."""
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|(?<!exit code )(?<!\d)\d+")


def printable(text: str, most_characters: int) -> str:
    """Return a text in one line: unprintable characters are escaped, and a text that is too long is cut."""
    if len(text) <= most_characters and text.isprintable():
        return text
    shown = escaped(text[: most_characters + 1])
    return shown if len(shown) <= most_characters else shown[: most_characters - len(CUT)] + CUT


def escaped(text: str, but: str = "") -> str:
    """Escape the characters of a text that are neither printable nor in `but`."""
    return "".join(
        character
        if character.isprintable() or character in but
        else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )


def read_json(text: str | bytes) -> Any:
    """Return the value of another process's JSON text, with limited depth, finite 64-bit numbers and valid Unicode.

    Raises:
        ValueError: if the text is not such JSON, or longer than `JSON_BYTES`.
    """
    if len(text) > JSON_BYTES:
        raise ValueError(f"the JSON has {len(text):,} characters; at most {JSON_BYTES:,} are accepted")
    text = text.decode() if isinstance(text, bytes) else text
    try:
        value = json.loads(text, parse_int=_whole_number, parse_float=_finite_number, parse_constant=_finite_number)
    except RecursionError:
        raise ValueError(f"the JSON nests more than {JSON_DEPTH} levels deep") from None
    level = [value]
    for _ in range(JSON_DEPTH + 1):
        for each in level:
            if isinstance(each, str):
                each.encode()  # a lone surrogate, which an escape sequence can make, cannot be sent or printed
        containers = [each for each in level if isinstance(each, (dict, list))]
        if not containers:
            return value
        level = [inner for each in containers for inner in each]  # the keys of an object
        level += [inner for each in containers if isinstance(each, dict) for inner in each.values()]
    raise ValueError(f"the JSON nests more than {JSON_DEPTH} levels deep")


def _whole_number(digits: str) -> int:
    number = int(digits) if len(digits) <= _DIGITS_MOST else 2**64
    if not -(2**63) <= number < 2**63:
        raise ValueError("the JSON has an integer of more than 64 bits")
    return number


def _finite_number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"the JSON has the number {shown(digits)}, which is not finite")
    return number


def shown(value: object) -> str:
    """Return the `repr` of a user's value, shortened, for an error message about the value.

    A user's `__repr__` could fail, end the program or run forever, and is never called. Data classes, named tuples and
    members of enumerations are shown by their fields, and objects of other classes by the class alone.
    """
    try:
        return cut(_shown(value, _LEVELS), SHOWN_CHARACTERS)
    except Exception:  # noqa: BLE001 - an array that was closed, a class without a field
        return f"<{type(value).__qualname__} object>"


def safe_repr(value: Any) -> str:
    """Return the `repr` of a value, or `object.__repr__` of the value if its own `__repr__` fails."""
    try:
        return repr(value)
    except (Exception, SystemExit):  # noqa: BLE001 - the `repr` of a user's class
        return object.__repr__(value)


def cut(text: str, most_characters: int) -> str:
    """Shorten a text that is too long by removing its middle."""
    if len(text) <= most_characters:
        return text
    end = (most_characters - len(CUT)) // 2
    return text[: most_characters - len(CUT) - end] + CUT + text[-end:]


def text_of(error: BaseException) -> str:
    """Return the text of an exception; a replacement if the `__str__` of the exception fails."""
    try:
        return str(error)
    except (Exception, SystemExit, GeneratorExit):  # noqa: BLE001 - code of the user; Ctrl-C gets through
        return "its text cannot be shown, because its __str__ fails"


def described(error: BaseException) -> str:
    """Return the class and the text of an exception as one text."""
    return f"{type(error).__name__}: {text_of(error)}"


def _shown(value: Any, levels: int) -> str:
    kind = type(value)
    if kind in _SCALARS:
        return repr(value)
    if kind in (str, bytes, bytearray):
        most = SHOWN_CHARACTERS
        return cut(repr(value if len(value) <= 2 * most else value[:most] + value[-most:]), most)
    if kind is int:
        return repr(value) if value.bit_length() <= _BITS_MOST else f"<int of {value.bit_length():,} bits>"
    if kind in _BRACKETS:
        return _shown_container(value, *_BRACKETS[kind], levels - 1)
    return _shown_object(value, kind, levels - 1)


def _shown_container(values: Any, left: str, right: str, levels: int) -> str:
    if not values and type(values) is set:
        return "set()"
    if levels < 0:
        return f"{left}{CUT}{right}" if values else f"{left}{right}"
    if isinstance(values, dict):
        texts = [f"{_shown(key, levels)}: {_shown(each, levels)}" for key, each in islice(values.items(), _ITEMS_MOST)]
    else:
        texts = [_shown(each, levels) for each in islice(values, _ITEMS_MOST)]
    if len(values) > _ITEMS_MOST:
        texts.append(CUT)
    elif type(values) is tuple and len(values) == 1:
        right = f",{right}"
    return f"{left}{', '.join(texts)}{right}"


def _shown_object(value: Any, kind: type, levels: int) -> str:
    package = kind.__module__.partition(".")[0]
    if package in _QUICK_PACKAGES or kind.__module__.startswith("pandas._libs.tslibs"):  # its dates and times
        return repr(value)
    if package == "numpy" and hasattr(kind, "dtype"):
        is_small = value.size <= _ARRAY_MOST and not value.dtype.hasobject
        return repr(value) if is_small else f"<{kind.__name__} of {value.dtype}, shape {value.shape}>"
    if issubclass(kind, type):
        return type.__repr__(value)
    if kind in (FunctionType, BuiltinFunctionType):
        return f"<function {value.__qualname__}>"
    if issubclass(kind, Enum):
        return f"{kind.__qualname__}.{object.__getattribute__(value, '_name_')}"
    return _shown_fields(value, kind, levels)


def _shown_fields(value: Any, kind: type, levels: int) -> str:
    fields: list[tuple[str, Any]]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        fields = list(zip(kind._fields, tuple.__iter__(value), strict=True))
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.repr]
        fields = [(name, object.__getattribute__(value, name)) for name in names]
    else:
        return f"<{kind.__qualname__} object>"
    if levels < 0:
        return f"{kind.__qualname__}({CUT})"
    texts = [f"{name}={_shown(each, levels)}" for name, each in fields[:_ITEMS_MOST]]
    return f"{kind.__qualname__}({', '.join(texts + [CUT] * (len(fields) > _ITEMS_MOST))})"


def signature(message: str, worker: str = "") -> str:
    """Return an error message without its worker and numbers, so that similar errors are equal. Exit codes stay."""
    return _NUMBERS.sub("#", message.replace(worker, "#") if worker else message)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6, text: str = "; did you mean {!r}?") -> str:
    """Return a sentence's end that suggests the most similar known name; empty if no name is similar.

    Args:
        least: the required similarity, from 0 to 1.
        text: the sentence's end, with a placeholder for the name.
    """
    import difflib  # noqa: PLC0415 - used for errors only

    names = difflib.get_close_matches(name, list(known), 1, least)
    return text.format(names[0]) if names else ""
