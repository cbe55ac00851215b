"""Interpreter: starts fresh interpreters that run a module of this package: the parts of a node, and local clusters.

A fresh interpreter gets the flags and the module path of this interpreter. Modules of the working directory are found
last. Settings are passed on standard input, because all users of a host can read command lines.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

from scaler.process import strays
from scaler.shared_memory import new_memory, write_at

BOOT = """\
import sys, _signal
_signal.pthread_sigmask(_signal.SIG_SETMASK, ())  # a child inherits which signals its parent blocks
sys.path[:] = [folder for folder in sys.path if folder]  # a json.py of the working directory is not ours
import json
sys.path[:] = json.loads(sys.stdin.buffer.raw.readline())
getattr(sys.modules.get("linecache"), "cache", set()).clear()  # Python 3.13 would show this text as that of a task
import gc
gc.disable()  # as in `no_collections`
from {module} import main
gc.freeze()
gc.enable()
main()
"""


REPORT = 'import os, sys; os.write(int(sys.argv[2]), b"\\n")\n'


def command(module: str, *arguments: str, reports: bool = False) -> list[str]:
    """Return the command of an interpreter that reads `modules_line` from standard input, then runs a module's `main`.

    Args:
        reports: whether Python reports its start by an empty line, written to the descriptor in `arguments[1]`.
    """
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return [sys.executable, *flags, "-c", REPORT * reports + BOOT.format(module=module), *arguments]


def unblock_signals() -> None:
    """Unblock all signals in the process of a command: a program inherits the blocked signals of its parent."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def modules_line() -> bytes:
    """Return the line of text that passes the module path of this process to a new interpreter."""
    return f"{json.dumps(sys.path)}\n".encode()


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage during imports. At the end, exempt all objects from later collections, because nearly all
    stay.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def start_part(
    module: str, settings: str, connection: int, variables: Mapping[str, str], *, is_session: bool = False
) -> subprocess.Popen[bytes]:
    """Start a part of a node. The `main` of the part reads its connection and settings with `part_of_node`.

    Args:
        connection: the descriptor of the part's end of a socket.
        variables: environment variables in addition to those of this process.
        is_session: whether the part gets a session and a process group of its own.
    """
    inherited = {name: value for name, value in os.environ.items() if name != strays.MARK}
    with memory_with(modules_line() + settings.encode()) as standard_input:
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our own program
            command(module, str(connection)),
            stdin=standard_input,
            pass_fds=[connection],
            env={**inherited, **variables},
            start_new_session=is_session,
        )
    strays.own.add(process.pid)
    return process


def restart_part(module: str, settings: str, connection: int) -> NoReturn:
    """Replace this process by a fresh part of a node, with the arguments of `start_part`."""
    with memory_with(modules_line() + settings.encode()) as standard_input:
        os.dup2(standard_input, 0)
        os.set_inheritable(connection, True)
        words = command(module, str(connection))
        os.execv(words[0], words)  # noqa: S606 - this interpreter and our own program


def part_of_node() -> tuple[int, str]:
    """Return the descriptor of the connection and the settings of this part of a node, for the part's main program."""
    return int(sys.argv[1]), sys.stdin.buffer.read().decode()


@contextlib.contextmanager
def memory_with(data: bytes) -> Iterator[int]:
    """Yield a descriptor of memory with `data`, positioned at the start. Not a pipe, because writing to it could
    block.
    """
    descriptor = new_memory(len(data))
    try:
        write_at(descriptor, data, 0)
        yield descriptor
    finally:
        os.close(descriptor)
