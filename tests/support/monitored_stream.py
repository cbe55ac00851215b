"""The made-up cluster, published on a socket."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tests.support import monitored_cluster as cluster
from tests.support.monitored import Publisher


class Stream:
    """Publishes the made-up cluster repeatedly until `end`."""

    def __init__(self, address: str, seconds: float = 0.1) -> None:
        self.address = address
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        publisher = Publisher(self.address)
        second = 0
        try:
            while not self._is_over.wait(self._seconds):
                publisher.look()
                second += 1
                publisher.say("scheduler", *cluster.loaded_scheduler(second))
                publisher.say("workers", *cluster.agents())
                publisher.say("functions", *cluster.functions())
                publisher.say("clients", *cluster.clients())
                publisher.say("failures", *cluster.failures())
                publisher.say("processors", *cluster.processors())
                publisher.say("objects", *cluster.objects())
                if second % 5 == 1:
                    publisher.say(f"task/{cluster.EXAMPLE.hex()}", *cluster.task())
        finally:
            publisher.close()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()


@contextlib.contextmanager
def publishing(address: str, seconds: float = 0.1) -> Iterator[Stream]:
    stream = Stream(address, seconds)
    try:
        yield stream
    finally:
        stream.end()
