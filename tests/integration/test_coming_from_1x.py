"""Programs that were written for the 1.x line: where they import from, and what they call, in their manner."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import scaler
from tests.support.processes import run_python

OPTION_CHAIN = '''
"""Prices of calls at several strikes, and how the sum of them was got."""
import math
import random

from scaler import Client
from scaler.cluster.combo import SchedulerClusterCombo
from scaler.utility.logging.utility import setup_logger
from scaler.utility.network_util import get_available_tcp_port


def price(strike, paths, seed):
    draw = random.Random(seed)
    total = 0.0
    for _ in range(paths):
        end = 100.0 * math.exp(-0.02 + 0.2 * draw.gauss(0.0, 1.0))
        total += max(0.0, end - strike)
    return total / paths


def main():
    setup_logger(logging_level="WARNING")
    address = f"tcp://127.0.0.1:{get_available_tcp_port()}"
    cluster = SchedulerClusterCombo(address=address, n_workers=2, per_worker_queue_size=2, logging_level="WARNING")
    client = Client(address=address)
    prices = client.map(price, iterable=[(strike, 200, strike) for strike in range(80, 120, 10)])
    futures = [client.submit(price, strike, 200, strike) for strike in range(80, 120, 10)]
    assert prices == [future.result() for future in futures]
    assert prices == sorted(prices, reverse=True)
    client.disconnect()
    cluster.shutdown()
    print("done")


if __name__ == "__main__":
    main()
'''

RECURSION = """
from scaler import Client
from scaler.cluster.combo import SchedulerClusterCombo


def count_paths(client, right, down):
    if not right or not down:
        return 1
    futures = [client.submit(count_paths, client, right - 1, down), client.submit(count_paths, client, right, down - 1)]
    return sum(future.result() for future in futures)


if __name__ == "__main__":
    cluster = SchedulerClusterCombo(n_workers=1, per_worker_queue_size=1, logging_level="WARNING")
    with Client(address=cluster.get_address()) as client:
        assert client.submit(count_paths, client, 2, 3).result() == 10
    cluster.shutdown()
    print("done")
"""

OWN_SERIALIZER = """
import pickle

from scaler import Client
from scaler.client.serializer.default import DefaultSerializer
from scaler.client.serializer.mixins import Serializer
from scaler.cluster.combo import SchedulerClusterCombo
from scaler.utility.exceptions import MissingObjects, ProcessorDiedError


class Marked(Serializer):
    def serialize(self, obj):
        return b"mark" + DefaultSerializer().serialize(obj)

    def deserialize(self, payload):
        assert payload[:4] == b"mark"
        return DefaultSerializer().deserialize(payload[4:])


if __name__ == "__main__":
    cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")
    client = Client(address=cluster.get_address(), serializer=Marked())
    data = client.send_object([1, 2, 3], name="data")
    assert client.submit(sum, data).result() == 6
    client.clear()
    try:
        client.submit(sum, data)
    except MissingObjects:
        print("done")
    client.disconnect()
    cluster.shutdown()
"""

HALVES = """
from scaler import Client, Cluster, Scheduler
from scaler.utility.network_util import get_available_tcp_port


def square(number):
    return number * number


if __name__ == "__main__":
    address = f"tcp://127.0.0.1:{get_available_tcp_port()}"
    scheduler = Scheduler(address=address, logging_level="ERROR", protected=False)
    scheduler.start()
    cluster = Cluster(
        address=address, worker_names=["left", "right"], worker_io_threads=1, heartbeat_interval_seconds=2,
        task_timeout_seconds=0, death_timeout_seconds=300, garbage_collect_interval_seconds=30,
        trim_memory_threshold_bytes=1024**3, hard_processor_suspend=False, event_loop="builtin",
        logging_paths=("/dev/stdout",), logging_level="ERROR", logging_config_file=None,
    )
    cluster.start()
    client = Client(address, True, 60, 2)
    future = client.submit(square, 7)
    assert future.result() == 49
    assert future.profiling_info().duration_s >= 0
    client.shutdown()
    scheduler.join()
    cluster.join()
    print("done")
"""

FUTURES = """
from concurrent.futures import as_completed
from scaler import Client, SchedulerClusterCombo
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference


def fail(number):
    raise ZeroDivisionError(number)


def shift(values, by):
    return [value + by for value in values]


def add(*numbers):
    return sum(numbers)


if __name__ == "__main__":
    with SchedulerClusterCombo(1, None, None, 1, 1, -1, 2, 60, 60, logging_level="WARNING") as cluster:
        with Client(cluster.get_address(), True, timeout_seconds=60) as client:
            graph = {"a": 1, "b": 2, "c": (add, "a", "b"), "d": (add, "c", "b"), "e": (max, "c", "d")}
            assert client.get(graph, keys=["e", "c", "a"]) == {"e": 5, "c": 3, "a": 1}
            assert client.get(graph, ["d"], block=False)["d"].result() == 5
            reference = client.send_object([1, 2, 3], name="values")
            assert isinstance(reference, ObjectReference)
            seen = []
            futures = [client.submit(shift, reference, by=number) for number in range(3)]
            for future in futures:
                assert isinstance(future, ScalerFuture)
                future.add_done_callback(lambda future: seen.append(future.result()[0]))
            assert sorted(future.result() for future in as_completed(futures)) == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
            failed = client.submit(fail, 1)
            assert isinstance(failed.exception(), ZeroDivisionError)
            cancelled = client.submit(shift, reference, 9)
            cancelled.cancel()
            assert cancelled.done()
    assert sorted(seen) == [1, 2, 3], seen
    print("done")
"""

PROGRAMS = {
    "chain": OPTION_CHAIN,
    "recursion": RECURSION,
    "serializer": OWN_SERIALIZER,
    "halves": HALVES,
    "futures": FUTURES,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_of_that_line_runs(tmp_path: Path, program: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    ran = run_python(script, folder=tmp_path)
    assert ran.stdout.splitlines()[-1:] == ["done"], ran.stdout + ran.stderr


def test_the_errors_are_the_same_classes() -> None:
    from scaler.utility import exceptions

    assert all(getattr(exceptions, name) is getattr(scaler, name) for name in exceptions.__all__)


def test_a_protected_shutdown_is_a_value_error() -> None:
    with (
        scaler.SchedulerClusterCombo(1, logging_level="ERROR") as cluster,
        scaler.Client(cluster.get_address()) as client,
        pytest.raises(ValueError, match="protected"),
    ):
        client.shutdown()


def test_schedulers_and_clusters_can_be_killed() -> None:
    from scaler.cluster.cluster import Cluster
    from scaler.cluster.scheduler import Scheduler

    scheduler = Scheduler(address="tcp://127.0.0.1:*", logging_level="ERROR")
    scheduler.start()
    cluster = Cluster(address=scheduler.get_address(), n_workers=1, logging_level="ERROR")
    cluster.start()
    for process in (cluster, scheduler):
        process.kill()
        process.join(60)  # until there will be no other one in its place
        assert not process.is_alive()
        assert process.exitcode == -9


def test_a_port_that_was_free_can_be_bound() -> None:
    from scaler.utility.network_util import get_available_tcp_port

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", get_available_tcp_port()))
