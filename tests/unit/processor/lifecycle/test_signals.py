"""Signals: tasks and their children handle them as usual programs do, and idle processors ignore them."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.wire.messages.common import TaskStatus
from tests.support.processes import wait_until
from tests.support.processor import Driver, failure_of, value_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("processor"))
    yield driver
    driver.close()


def rest() -> None:
    """Sleep in small pieces: `interrupt_main` wakes no sleeping thread, and a signal may wake another thread."""
    for _ in range(200):
        time.sleep(0.05)


WAITS = "import time; print('up', flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("program", "code"),
    [(["sh", "-c", "echo up; exec sleep 60"], -signal.SIGINT), ([sys.executable, "-c", WAITS], -signal.SIGINT)],
    ids=["sleep", "python"],
)
def test_program_of_a_task_is_ended_by_an_interrupt(driver: Driver, program: list[str], code: int) -> None:
    def interrupt_it() -> tuple[int, bytes]:
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            child.send_signal(signal.SIGINT)
            _, complaint = child.communicate()
            return child.returncode, complaint

    returned, complaint = value_of(driver.call(interrupt_it))
    assert returned == code
    assert (b"KeyboardInterrupt" in complaint) == (program[0] == sys.executable)


def test_process_that_a_task_has_forked_is_interrupted(driver: Driver) -> None:
    def interrupt_it() -> Any:
        context = multiprocessing.get_context("fork")
        is_up = context.Event()
        process = context.Process(target=lambda: (is_up.set(), rest()))
        process.start()
        assert process.pid is not None
        assert is_up.wait(20)
        os.kill(process.pid, signal.SIGINT)
        process.join()
        return process.exitcode

    assert value_of(driver.call(interrupt_it)) == 1


@pytest.mark.parametrize(
    "interrupt", [_thread.interrupt_main, lambda: os.kill(os.getpid(), signal.SIGINT)], ids=["thread", "signal"]
)
def test_a_task_that_interrupts_itself_gets_a_keyboard_interrupt(driver: Driver, interrupt: Callable[[], Any]) -> None:
    def limit(seconds: float, interrupt: Callable[[], Any]) -> Any:
        threading.Timer(seconds, interrupt).start()
        rest()

    def catch(interrupt: Callable[[], Any]) -> Any:
        caught = 0
        for _ in range(2):
            try:
                limit(0.05, interrupt)
            except KeyboardInterrupt:
                caught += 1
        return caught

    assert failure_of(driver.call(limit, 0.1, interrupt)).type_name == "KeyboardInterrupt"
    assert value_of(driver.call(catch, interrupt)) == 2
    assert value_of(driver.call(os.getpid)) == driver.process.pid


def test_interrupts_between_tasks_and_at_their_ends_are_harmless(driver: Driver) -> None:
    """Signals arrive at any time, one after the other; each task is answered, in order."""
    driver.process.send_signal(signal.SIGINT)
    is_over = threading.Event()

    def interrupt_all_the_time() -> None:
        while not is_over.wait(0.0005):
            driver.process.send_signal(signal.SIGINT)

    function = driver.function(lambda n: sum(range(n)))
    thread = threading.Thread(target=interrupt_all_the_time)
    thread.start()
    try:
        for _ in range(20):
            tasks = [driver.task(function, 1000 * (number % 3)) for number in range(400)]
            driver.send(*tasks)
            results = driver.results(400)
            assert [result.task_id for result in results] == [task.task_id for task in tasks]
            for result in results:
                if result.status != TaskStatus.SUCCESS:
                    assert failure_of(result).type_name == "KeyboardInterrupt"
    finally:
        is_over.set()
        thread.join()
    assert value_of(driver.call(os.getpid)) == driver.process.pid


def test_a_task_that_has_caught_an_interrupt_can_still_be_cancelled(driver: Driver, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def catch_and_go_on() -> None:
        try:
            _thread.interrupt_main()
            rest()
        except KeyboardInterrupt:
            mark.touch()
            rest()

    number = driver.start(catch_and_go_on)
    wait_until(mark.exists, "the task has caught an interrupt")
    driver.interrupt_until_over(number)
    assert driver.results(1)[0].status == TaskStatus.CANCELED


def ring_soon() -> None:
    signal.alarm(1)


def ring_soon_with_a_handler() -> None:
    def ring(*_: Any) -> None:
        raise TimeoutError("of the task before")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)


@pytest.mark.parametrize("leave", [ring_soon, ring_soon_with_a_handler])
def test_a_timer_left_by_a_task_does_not_affect_the_next_task(tmp_path: Path, leave: Callable[[], None]) -> None:
    driver = Driver(tmp_path)
    driver.send(driver.task(driver.function(leave)), driver.task(driver.function(lambda: time.sleep(1.3))))
    for result in driver.results(2):
        assert value_of(result) is None
    driver.close()


def test_a_timer_of_a_task_fires_in_that_task(driver: Driver) -> None:
    def limit() -> str:
        ring_soon_with_a_handler()
        try:
            rest()
        except TimeoutError:
            return "rang"
        return "silent"

    assert [value_of(driver.call(limit)) for _ in range(2)] == ["rang", "rang"]


def test_alarm_of_a_process_that_a_task_has_forked_ends_it(driver: Driver) -> None:
    def fork_with_an_alarm() -> int:
        signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
        pid = os.fork()
        if pid == 0:
            signal.raise_signal(signal.SIGVTALRM)
            signal.raise_signal(signal.SIGPROF)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert value_of(driver.call(fork_with_an_alarm)) == -signal.SIGPROF
