"""Workers that join later get their share at once, also of tasks that already wait at other workers."""

import os
import time

from scaler import Client, Cluster, SchedulerClusterCombo


def work(seconds: float) -> int:
    """Sleep, and return the id of the process."""
    time.sleep(seconds)
    return os.getpid()


def main() -> None:
    """Give one worker too much to do, then add three."""
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.map(work, [(0,)] * 200)  # short tasks: Scaler learns to send them to a worker many at a time
        futures = [client.submit(work, 1.0) for _ in range(8)]  # long ones, which wait at the only worker

        more = Cluster(combo.get_address(), n_workers=3, logging_level="WARNING")
        more.start()
        start = time.perf_counter()
        processes = {future.result() for future in futures}
        print(f"8 tasks of a second on {len(processes)} workers: {time.perf_counter() - start:.1f} s")
        more.terminate()
        more.join()


if __name__ == "__main__":
    main()
