"""Profiling: the time, processor time and memory of each task, independent of earlier tasks of its worker."""

import time

from scaler import Client, SchedulerClusterCombo

MEGABYTE = 1_000_000


def compute(number: int) -> int:
    """Use the processor."""
    return sum(i * i for i in range(number))


def wait(seconds: float) -> None:
    """Use only time."""
    time.sleep(seconds)


def allocate(n_bytes: int) -> int:
    """Use memory."""
    return len(bytearray(b"x") * n_bytes)


def main() -> None:
    """Measure three tasks of different kinds, and one that fails."""
    with (
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as cluster,
        Client(cluster.get_address(), profiling=True) as client,
    ):
        futures = [
            client.submit(compute, 1_000_000),
            client.submit(wait, 0.3),
            client.submit(allocate, 200 * MEGABYTE),
            client.submit(allocate, 50 * MEGABYTE),  # after the larger task: measured separately all the same
            client.submit(allocate, "no number"),
        ]
        print("task       time     processor  memory")
        for future in futures:
            failed = " (failed)" if future.exception() else ""
            info = future.profiling_info()
            memory = round(info.peak_memory / MEGABYTE)
            print(f"{future.name:9} {info.duration_s:6.3f} s {info.cpu_time_s:8.3f} s {memory:5} MB{failed}")


if __name__ == "__main__":
    main()
