"""Workers that join later get their share at once, also of tasks that had been sent to others already."""

import os
import time

from scaler import Client, Cluster, SchedulerClusterCombo


def work(seconds: float) -> int:
    """Take some time. Returns the process that did it."""
    time.sleep(seconds)
    return os.getpid()


def main() -> None:
    """Give one worker too much to do, then add three."""
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.map(work, [(0,)] * 200)  # so far these are short: Scaler sends them to the worker by the hundred
        futures = [client.submit(work, 1.0) for _ in range(8)]  # and these are not

        more = Cluster(combo.get_address(), n_workers=3, logging_level="WARNING")
        more.start()
        start = time.perf_counter()
        processes = {future.result() for future in futures}
        print(f"8 tasks of a second on {len(processes)} workers: {time.perf_counter() - start:.1f} s")
        more.terminate()
        more.join()


if __name__ == "__main__":
    main()
