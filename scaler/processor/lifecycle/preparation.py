"""Preparation: imports the user's modules once for all processors, and calls the user's initializer in each.

Called by the fork server before it forks, and by each processor before it is ready.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import logging
import mmap
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scaler.config import ConfigError
from scaler.errors import DeserializeObjectError
from scaler.interruptions import is_interruption
from scaler.pickling.generators import generator_in
from scaler.pickling.serialization import Named, serves_nothing
from scaler.settings.functions import PICKLED, read_functions
from scaler.texts import cut, described

logger = logging.getLogger(__name__)

GPUS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
"""prefixes of the paths of GPU devices"""
REASON_CHARACTERS = 1000
"""The length to which the text of a user's exception is cut."""
_has_failed = mmap.mmap(-1, 1)
"""whether the initializer has failed in any process that was forked from the fork server"""


class PreparationError(ConfigError):
    """A module cannot be imported for all processors at once, or the initializer has failed."""


def preload(modules: Iterable[str], announce: Callable[[int], object] = lambda _number: None) -> str:
    """Import modules in the process that forks processors.

    Args:
        announce: called before the import of each module, with the number of the module, from 1.

    Returns:
        the name of a random generator that an imported module has as a global, so that forks would copy it; else empty.

    Raises:
        PreparationError: if a module cannot be imported, starts threads, which forked processes would not have, or
            opens a GPU, which forked processes cannot use.
    """
    known = set(sys.modules)
    for number, name in enumerate(modules, 1):
        announce(number)
        before = set(threading.enumerate())
        devices = _open_devices()
        try:
            importlib.import_module(name)
        except BaseException as error:  # a module of the user may raise anything, SystemExit too
            raise PreparationError(_why(name, error)) from error
        threads = [thread.name for thread in threading.enumerate() if thread not in before]
        if threads:
            raise PreparationError(
                f"cannot preload module {name!r}: its import starts threads ({', '.join(threads)}), and a process with "
                "threads cannot be forked safely; remove it from `preload`: tasks import it themselves"
            )
        if opened := sorted(_open_devices() - devices):
            raise PreparationError(
                f"cannot preload module {name!r}: its import opens a GPU ({', '.join(opened)}), and forked processes "
                "cannot use that; remove it from `preload`: tasks import it themselves"
            )
    return generator_in(set(sys.modules) - known)


def _why(name: str, error: BaseException) -> str:
    """Return the message about a failed import: the module, the exception and its place, and what to do."""
    if isinstance(error, ModuleNotFoundError):
        cure = "install it, or name its folder in PYTHONPATH; or remove it from `preload`"
        return f"cannot preload module {name!r}: {_raised(error)}; {cure}"
    return import_failed(name, _raised(error))


def import_failed(name: str, how: str) -> str:
    """Return the message about a module whose import failed: how the import failed, and what to do."""
    cure = "fix its import, or remove it from `preload`: an initializer can do what fails there"
    return f"cannot preload module {name!r}: {how}; {cure}"


def _raised(error: BaseException) -> str:
    """Return an exception as one line, with the place in the user's code that raised the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{cut(' '.join(described(error).split()), REASON_CHARACTERS)}{where}"


def _open_devices() -> set[str]:
    """Return the device files of GPUs that this process has open; empty if the system does not report them."""
    paths: set[str] = set()
    with contextlib.suppress(OSError):
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # the descriptor of the loop itself is closed by now
                paths.add(str(link.readlink()))
    return {path for path in paths if path.startswith(GPUS)}


def initialize(text: str) -> None:
    """Call the initializer that a setting names. Its first failure on a node is logged with a traceback.

    Raises:
        PreparationError: if the initializer cannot be found or imported, or raises.
    """
    try:
        if text:
            _function(text)()
    except BaseException as error:  # a module of the user may raise anything
        if not _has_failed[0]:
            _has_failed[0] = 1
            logger.critical("the initializer failed, so this worker process cannot start", exc_info=True)
        raise PreparationError(f"the initializer failed: {_raised(error)}") from error


def finder(functions: Sequence[str]) -> Named:
    """Return a function that finds a served function by its name. `functions`: the setting that names the functions."""
    served = read_functions(functions)

    def find(name: str) -> Callable[..., Any]:
        if name not in served:
            return serves_nothing(name)
        try:
            return _function(served[name])
        except BaseException as error:  # a module of the user may raise anything
            if is_interruption(error):
                raise
            raise DeserializeObjectError(
                f"cannot import the served function {name!r} here: {type(error).__name__}: {error}"
            ) from error

    return find


def _function(text: str) -> Callable[..., Any]:
    if text.startswith(PICKLED):
        pickled: Callable[..., Any] = pickle.loads(base64.b64decode(text.removeprefix(PICKLED)))
        return pickled
    module, _, name = text.partition(":")
    named: Any = importlib.import_module(module)
    for part in name.split("."):
        named = getattr(named, part)
    return named  # type: ignore[no-any-return]
