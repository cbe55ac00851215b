"""Child: the main program of a child process: a scheduler, an agent or a page, with a lifeline to its parent.

The parent writes the settings to the child's standard input (a line with their length, then their bytes), and leaves it
open as the lifeline. The child reports lines to the descriptor in the second argument: first an empty line, then
{"ready": ...}, and {"error": "why"} before it ends for a known reason. A third argument marks a scheduler that replaces
a dead one (`child_process.PRIVATE`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from scaler.cluster.child_process import AGENT, PRIVATE
from scaler.config import ConfigError
from scaler.endpoint import ANYWHERE
from scaler.process.interpreter import no_collections
from scaler.process.logs import set_up_logging
from scaler.texts import cut
from scaler.transport.private import keep_private_folder_for, remove_private_folder

LIFELINE = 0  # standard input
ERROR_CHARACTERS = 4000
"""The length to which errors are cut. The pipe must hold the whole error, because the parent may read it only later."""


def main() -> None:
    """Run the scheduler, agent or page that the first argument names, and end the process."""
    title, report_descriptor = sys.argv[1], int(sys.argv[2])

    def report(word: str, value: Any) -> None:
        value = cut(value, ERROR_CHARACTERS) if word == "error" else value
        with contextlib.suppress(OSError):  # the parent no longer reads
            os.write(report_descriptor, json.dumps({word: value}).encode() + b"\n")

    run = {"scaler_scheduler": _run_scheduler, AGENT: _run_cluster, "scaler_ui": _run_ui}[title]
    try:
        sys.exit(run(report))
    except (ConfigError, OSError) as error:
        report("error", getattr(error, "strerror", None) or str(error))
        sys.exit(os.EX_CONFIG if isinstance(error, ConfigError) else 1)


def _settings() -> str:
    with os.fdopen(LIFELINE, "rb", buffering=0, closefd=False) as lifeline:
        left = int(lifeline.readline() or 0)
        parts = []
        while left:
            part = lifeline.read(left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
    if left or not parts:
        sys.exit(0)
    return b"".join(parts).decode()


def _run_scheduler(report: Callable[[str, Any], None]) -> int:
    with no_collections():
        from scaler.scheduler.scheduler import SchedulerProcess  # noqa: PLC0415 - a child loads only what it is
        from scaler.settings import SchedulerConfig  # noqa: PLC0415

    config = SchedulerConfig.from_json(_settings())
    set_up_logging(config.logging)
    parent = os.getppid()
    process = SchedulerProcess(config)
    if config.address == ANYWHERE:
        keep_private_folder_for(process.endpoint, parent)  # it restarts the scheduler there if it dies
    try:
        return process.run(lambda address: report("ready", [address, str(process.monitor or "")]), LIFELINE)
    finally:
        if PRIVATE in sys.argv[3:]:
            remove_private_folder(process.endpoint)


def _run_cluster(report: Callable[[str, Any], None]) -> int:
    with no_collections():
        from scaler.processor.lifecycle import first_fork_server, fork_server  # noqa: PLC0415 - a child loads only what it is

    first_fork_server.fork(fork_server.import_client, fork_server.serve, int(sys.argv[2]))
    with no_collections():
        from scaler.agent.agent import run_agent  # noqa: PLC0415 - a child loads only what it is
        from scaler.executors.executor import PROCESSES  # noqa: PLC0415
        from scaler.settings import ClusterConfig  # noqa: PLC0415

    config = ClusterConfig.from_json(_settings())
    if config.engine != PROCESSES:
        first_fork_server.drop()
    set_up_logging(config.logging)
    return run_agent(config, LIFELINE, lambda: report("ready", True))


def _run_ui(report: Callable[[str, Any], None]) -> int:
    from scaler.monitor.ui.run import run_ui  # noqa: PLC0415 - a child loads only what it is
    from scaler.settings import UiConfig  # noqa: PLC0415

    return run_ui(UiConfig.from_json(_settings()), lambda place: report("ready", place.url), LIFELINE)


if __name__ == "__main__":
    main()
