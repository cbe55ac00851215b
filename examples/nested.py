"""Tasks that submit tasks: a recursion in which each call is a task, on two workers."""

import time

from scaler import Client, SchedulerClusterCombo


def fibonacci(client: Client, n: int) -> int:
    """Compute the two smaller numbers in other tasks, wait for them, and return the sum."""
    if n < 2:
        return n
    smaller = client.submit(fibonacci, client, n - 1)
    smallest = client.submit(fibonacci, client, n - 2)
    return int(smaller.result() + smallest.result())


def main() -> None:
    """Compute a number with 67 tasks, 33 of which wait for others; then again, with enough processes from the start."""
    with SchedulerClusterCombo(n_workers=2) as combo, Client(combo.get_address()) as client:
        for _ in range(2):
            start = time.perf_counter()
            result = client.submit(fibonacci, client, 8).result()
            print(f"fibonacci(8) = {result}, {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()
