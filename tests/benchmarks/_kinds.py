"""Kinds: which part of a local cluster a process is, by its command line and its parent's."""

from __future__ import annotations

import psutil


def kind_of(process: psutil.Process) -> str:
    """Return scheduler, agent, or processors: what the agent has forked has its command line, or one of its own."""
    if "scaler_scheduler" in process.cmdline():
        return "scheduler"
    parent = process.parent()
    is_below = parent is not None and "scaler_cluster" in parent.cmdline()
    return "agent" if "scaler_cluster" in process.cmdline() and not is_below else "processors"
