"""Recorder: a process beside the user's program that records a trace, for `Client.trace`.

Its standard input is its lifeline: when that ends, the program is gone, and it goes too.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from typing import IO

from scaler.cluster.child_process import StartError

BEGIN_SECONDS = 15.0
"""How long the first news of the scheduler may take."""
END_SECONDS = 30.0
LONGEST_SECONDS = 86_400
_MODULE = "scaler.monitor.record"


class Recorder:
    """Records from when it is made until `stop`.

    Args:
        address: of the scheduler.
        path: of the file.

    Raises:
        StartError: if nothing is heard from the scheduler.
    """

    def __init__(self, address: str, path: str) -> None:
        command = [sys.executable, "-m", _MODULE, address, path, str(LONGEST_SECONDS)]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # Ctrl-C in a terminal is for the program
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        began = ""
        try:
            began = self._lines.get(timeout=BEGIN_SECONDS)
        except queue.Empty:
            self._process.kill()
        except BaseException:  # this thread was interrupted
            self._process.kill()
            self._complaint()
            raise
        if not began:
            reason = (
                self._complaint() or f"nothing was heard from the scheduler at {address} for {BEGIN_SECONDS:g} seconds"
            )
            raise StartError(f"the trace cannot begin: {reason}")

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line.strip())
        self._lines.put("")

    def _complaint(self) -> str:
        """Wait until the process has ended, and return what it has said on standard error."""
        process = self._process
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        assert process.stderr is not None
        with process.stdin, process.stderr:
            return process.stderr.read().strip()

    def stop(self) -> str:
        """End, write the file, and return what it has told.

        Raises:
            OSError: if the file cannot be written.
        """
        self._process.terminate()
        said = self._complaint()
        if self._process.returncode:
            raise OSError(said or f"the process that records has ended with code {self._process.returncode}")
        return self._lines.get(timeout=1)
