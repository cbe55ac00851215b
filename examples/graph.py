"""Calls that use each other's results, as one graph: each call runs as soon as its arguments are available."""

import math
from collections import Counter

from scaler import Client


def primes_between(start: int, end: int) -> list[int]:
    """Return the primes from start on, below end."""
    return [n for n in range(max(start, 2), end) if all(n % d for d in range(2, math.isqrt(n) + 1))]


def last_digits(primes: list[int]) -> Counter[int]:
    """Count the last digits."""
    return Counter(prime % 10 for prime in primes)


def total(*counts: Counter[int]) -> Counter[int]:
    """Add counts up."""
    return sum(counts, Counter())


def main() -> None:
    """Count the last digits of primes, and find the largest prime."""
    # A tuple whose first item is a function is a call; its str arguments are keys. Anything else is data.
    graph = {f"end-{i}": 20_000 * i for i in range(9)}
    for i in range(8):
        graph[f"primes-{i}"] = (primes_between, f"end-{i}", f"end-{i + 1}")
        graph[f"digits-{i}"] = (last_digits, f"primes-{i}")
    graph["digits"] = (total, *(f"digits-{i}" for i in range(8)))
    graph["largest"] = (max, "primes-7")

    with Client() as client:
        values = client.get(graph, keys=["digits", "largest"])  # only these two values are sent to this program
        print("last digits:", {digit: values["digits"][digit] for digit in (1, 3, 7, 9)})
        print("largest:", values["largest"])

        futures = client.get(graph, keys=["digits-0", "digits-7"], block=False)  # runs only what these two need
        for key, future in futures.items():
            print(f"{key}: {sum(future.result().values())} primes")


if __name__ == "__main__":
    main()
