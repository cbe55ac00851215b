"""Recorder: a process beside the user's program that records a trace, for `Client.trace`, and ends with the program."""

from __future__ import annotations

import os
import select
import subprocess
import sys

from scaler.cluster.child_process import StartError
from scaler.endpoint import Endpoint

START_SECONDS = 15.0
"""The longest wait for the first message of the scheduler."""
END_SECONDS = 30.0
LONGEST_SECONDS = 86_400
_MODULE = "scaler.monitor.record"


class Recorder:
    """A process that records a trace into the file `path`, from the creation of this object until `stop`.

    Raises:
        StartError: if the scheduler sends nothing.
    """

    def __init__(self, endpoint: Endpoint, path: str) -> None:
        uids = map(str, endpoint.trust_users)
        command = [
            sys.executable,
            "-m",
            _MODULE,
            endpoint.address,
            path,
            str(LONGEST_SECONDS),
            endpoint.key_file,
            *uids,
        ]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",  # it prints paths
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # Ctrl-C in a terminal is for the program
        )
        try:
            has_started = self._has_started()
        except BaseException:  # this thread was interrupted
            self._process.kill()
            self._end()
            raise
        if not has_started:
            self._process.kill()
            _, errors = self._end()
            silence = f"the scheduler at {endpoint} sent nothing for {START_SECONDS:g} seconds"
            raise StartError(f"the trace cannot start: {errors or silence}")

    def _has_started(self) -> bool:
        output = self._process.stdout
        assert output is not None
        readable, _, _ = select.select([output], [], [], START_SECONDS)
        return bool(readable and output.readline())

    def _end(self) -> tuple[str, str]:
        """Wait for the end of the process. Return the rest of its output, and its errors."""
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        printed, errors = self._process.communicate()
        return printed.strip(), errors.strip()

    def stop(self) -> str:
        """Write the file, and return a sentence about the trace. Raises `OSError` if the file cannot be written."""
        self._process.terminate()
        printed, errors = self._end()
        if self._process.returncode:
            raise OSError(errors or f"the recording process ended with code {self._process.returncode}")
        return printed
