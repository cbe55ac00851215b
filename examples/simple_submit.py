"""Submit single tasks, do other work meanwhile, and read each result as soon as it has arrived."""

from concurrent.futures import as_completed

from scaler import Client


def count_primes(start: int, stop: int) -> int:
    """Count the primes from start up to, not including, stop."""
    return sum(1 for number in range(max(start, 2), stop) if all(number % d for d in range(2, int(number**0.5) + 1)))


def main() -> None:
    """Count the primes below 400,000, in eight parts."""
    with Client() as client:  # no address: a cluster on this machine that ends with the client
        ranges = {}
        for start in range(0, 400_000, 50_000):
            # Errors, logs and the future show `name`; without it, they show the name of the function.
            future = client.submit(count_primes, start, stop=start + 50_000, name=f"primes from {start:,}")
            ranges[future] = start
        print(f"submitted {len(ranges)} tasks, the last one as {future}")

        total = 0
        for future in as_completed(ranges):  # a ScalerFuture is a concurrent.futures.Future
            start = ranges[future]
            print(f"{start:7,} to {start + 50_000:7,}: {future.result():,} primes")
            total += future.result()
        print(f"below 400,000: {total:,} primes")


if __name__ == "__main__":
    main()
