"""Adaptive quadrature with nested tasks: a task whose error is too large submits one half of its interval as a task.

The rule is Simpson's, and the error is estimated as by Lyness, "Notes on the adaptive Simpson quadrature routine",
Journal of the ACM 16 (1969). The depth of the recursion is known only at run time, so the program cannot list its tasks
in advance.
"""

from __future__ import annotations

import math

from side_by_side import arguments, side_by_side

from scaler import Client

START, END = 0.0, 4.0
ALONE_BELOW = 0.3
"""The length below which a task integrates its interval alone, because nested tasks would be too small."""


def costly(x: float) -> float:
    """Return the integrand: smooth except for a sharp peak at 1.5. Each value is a long sum, as from a model."""
    return sum(math.cos(k * x) / k**2 for k in range(1, 200)) + 1 / ((x - 1.5) ** 2 + 1e-4)


def simpson(a: float, b: float) -> float:
    """Return the integral by Simpson's rule, from three values."""
    return (b - a) / 6 * (costly(a) + 4 * costly((a + b) / 2) + costly(b))


def integral(a: float, b: float, tolerance: float, client: Client | None) -> float:
    """Integrate an interval, alone or with a nested task for one half: the task."""
    middle = (a + b) / 2
    whole, left, right = simpson(a, b), simpson(a, middle), simpson(middle, b)
    if abs(left + right - whole) < 15 * tolerance:
        return left + right + (left + right - whole) / 15
    if client is None or b - a < ALONE_BELOW:
        return integral(a, middle, tolerance / 2, None) + integral(middle, b, tolerance / 2, None)
    other = client.submit(integral, a, middle, tolerance / 2, client)
    return integral(middle, b, tolerance / 2, client) + other.result()


def main() -> None:
    """Integrate, and compare with the known value."""
    options = arguments("Integrate a function with a needle.", 10, "digits of the result")
    tolerance = 10.0**-options.size

    found, verdict = side_by_side(
        lambda: integral(START, END, tolerance, None),
        lambda client: client.submit(integral, START, END, tolerance, client).result(),
        options.workers,
    )

    exact = sum((math.sin(k * END) - math.sin(k * START)) / k**3 for k in range(1, 200))
    exact += 100 * (math.atan(100 * (END - 1.5)) - math.atan(100 * (START - 1.5)))
    print(
        f"integral from {START:g} to {END:g}: {found:.10f}; error {abs(found - exact):.1e}, {tolerance:.0e} was asked"
    )
    print(verdict)


if __name__ == "__main__":
    main()
