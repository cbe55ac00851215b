"""Send a large object once for many tasks: each task gets the reference, each node fetches the object once."""

import random

from scaler import Client


def count_between(samples: list[float], low: float, high: float) -> int:
    """Count the samples from low up to, not including, high."""
    return sum(1 for sample in samples if low <= sample < high)


def main() -> None:
    """Draw a histogram, one task for each bar."""
    generator = random.Random(1)
    samples = [generator.gauss(0, 1) for _ in range(300_000)]

    with Client() as client:
        reference = client.send_object(samples, name="samples")
        print(f"sent {len(samples):,} samples, {reference.size:,} bytes, as {reference.name!r}")

        # The task gets the list itself, in the place of the reference.
        bins = [(low / 2, low / 2 + 0.5) for low in range(-6, 6)]
        counts = client.map(count_between, [(reference, low, high) for low, high in bins])

    for (low, high), count in zip(bins, counts, strict=True):
        print(f"{low:4.1f} to {high:4.1f} {count:7,} {'#' * (count // 1_000)}")


if __name__ == "__main__":
    main()
