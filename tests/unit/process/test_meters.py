from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from scaler.process.meters import CpuMeter, host_free_bytes, peak_bytes, read_process


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_this_process_uses_memory_and_cpu_time() -> None:
    before = read_process(os.getpid())
    burn(0.1)
    after = read_process(os.getpid())
    assert after.cpu_seconds >= before.cpu_seconds + 0.05
    assert peak_bytes(os.getpid()) >= after.resident_bytes > 1024 * 1024
    assert not after.is_stopped
    assert host_free_bytes() > 1024 * 1024


def test_a_stopped_process_is_recognised_and_an_ended_one_has_zero_figures() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert read_process(process.pid).is_stopped
    process.kill()
    process.communicate()
    assert read_process(process.pid) == (0.0, 0, False)
    assert peak_bytes(process.pid) == 0


def test_the_share_of_a_core_is_measured_since_the_last_look() -> None:
    meter, now = CpuMeter(), 100.0
    assert meter.look(os.getpid(), now)[0] == 0
    burn(0.2)
    permille, _ = meter.look(os.getpid(), now + 0.4)
    assert 300 <= permille <= 1000
    meter.keep_only(set())
    assert meter.look(os.getpid(), now + 1.0)[0] == 0
