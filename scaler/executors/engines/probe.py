"""Probe: a process that asks an engine how many tasks it can run, because the agent runs no foreign code.

A failure of the probe is not reported: the engine host fails in the same way and reports the failure.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys

from scaler.process.interpreter import command, modules_line

SECONDS = 60.0
"""How long the probe waits for the engine's answer."""


def ask_capacity(function: str, engine: str) -> int | None:
    """Call `module:function` with the text `engine` in a separate process. Return the answer; None after a failure."""
    settings = modules_line() + json.dumps([function, engine]).encode()
    with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
        done = subprocess.run(  # noqa: S603 - this interpreter and our own program
            command(__name__),
            input=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
        return int(done.stdout.decode().split()[-1]) if done.returncode == 0 and done.stdout.split() else None
    return None


def main() -> None:
    """Print the capacity to standard output, as the last word; print nothing if the capacity is unknown."""
    function, engine = json.loads(sys.stdin.buffer.read())
    module_name, _, name = function.partition(":")
    capacity = getattr(importlib.import_module(module_name), name)(engine)
    if capacity is not None:
        sys.stdout.write(f"\n{capacity}\n")
    sys.stdout.flush()
    os._exit(0)  # the threads of a foreign package may not end
