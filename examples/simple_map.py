"""Call one function with many arguments; the results have the order of the arguments."""

import random
import statistics

from scaler import Client


def estimate_pi(seed: int, points: int) -> float:
    """Draw random points in a square, and count how many are in the circle."""
    generator = random.Random(seed)
    inside = sum(1 for _ in range(points) if generator.random() ** 2 + generator.random() ** 2 <= 1)
    return 4 * inside / points


def main() -> None:
    """Estimate pi twenty times."""
    with Client() as client:
        # One tuple of arguments for each call.
        estimates = client.map(estimate_pi, [(seed, 250_000) for seed in range(20)])

    for seed, estimate in enumerate(estimates[:3]):
        print(f"seed {seed}: {estimate:.4f}")
    mean, deviation = statistics.mean(estimates), statistics.stdev(estimates)
    print(f"mean of {len(estimates)}: {mean:.4f} (standard deviation {deviation:.4f})")


if __name__ == "__main__":
    main()
