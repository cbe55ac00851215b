"""Hash seed: gives the workers of all clusters the same seed, so that `hash(text)` is the same wherever a task runs.

Python reads the seed of `hash` for `str` and `bytes` from PYTHONHASHSEED when it starts, and draws a random seed if
that variable is not set. Forks inherit the seed, and programs inherit the variable. So each agent is started with a
seed, and its fork servers, its worker processes and the programs of their tasks have the same seed. A seed that the
user has set is kept.

A command that restarts itself imports this module twice, so this module imports only `os` and `sys`.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "PYTHONHASHSEED"
SEED = "0"
"""The hash seed of all workers, unless the user has set a seed."""
RANDOM = "random"
"""The value of PYTHONHASHSEED that makes each program draw a random seed."""

_SAMPLE = "scaler"
_STARTING = ("__main__", "runpy", "scaler")
"""The packages whose code runs between the start of an interpreter and the start of a command."""


def environment() -> dict[str, str]:
    """Return the environment for a child process that runs workers: this process's environment, with a hash seed."""
    return {**os.environ, VARIABLE: os.environ.get(VARIABLE) or SEED}


def restart_with_seed(*commands: str) -> None:
    """Restart this program in the same process with a hash seed, if PYTHONHASHSEED is not set.

    Do nothing if Python ignores its environment, or where a restart could repeat other work: in a program of the user
    (not one of the scripts `commands`), in a thread, or under a profiler.
    """
    if os.environ.get(VARIABLE) or sys.flags.ignore_environment or not _is_whole_program(commands):
        return
    os.environ[VARIABLE] = SEED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(*_program())  # noqa: S606 - this program
    except (OSError, ValueError):  # a closed stream, a limit, no such program: continue with a random seed
        del os.environ[VARIABLE]


def text_hash() -> int:
    """Return 32 bits of the hash of a fixed text. A different number means another seed or another build of Python."""
    return hash(_SAMPLE) & 0xFFFFFFFF


def is_random() -> bool:
    """Return whether the user has set PYTHONHASHSEED to request random seeds."""
    return os.environ.get(VARIABLE) == RANDOM and not sys.flags.ignore_environment


def _is_whole_program(commands: tuple[str, ...]) -> bool:
    """Return whether the command was called by the main program: a script in `commands`, or a module of Scaler."""
    frame = sys._getframe(1)  # noqa: SLF001 - documented, and the only way to know
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _STARTING:
            return False
    main = sys.modules["__main__"]
    module = getattr(main, "__spec__", None)
    if module is not None:
        return str(module.name).startswith("scaler.")
    return os.path.basename(getattr(main, "__file__", "")) in commands  # noqa: PTH119 - `pathlib` takes time to import


def _program() -> tuple[str, list[str]]:
    words = sys.orig_argv
    # The script follows the interpreter, or an option in the script's first line.
    for place in range(1, min(3, len(words))):
        if os.path.basename(words[place])[:15] == _name() and os.access(words[place], os.X_OK):  # noqa: PTH119
            return words[place], words[place:]
    return sys.executable, words


def _name() -> str:
    """Return the name of this process as `ps` and `pgrep` show it; empty if the system does not report it."""
    try:
        with open("/proc/self/comm", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - as above
            return file.read().rstrip("\n")
    except OSError:
        return ""
