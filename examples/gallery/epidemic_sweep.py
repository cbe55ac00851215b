"""Parameter sweep as a graph: an epidemic for many rates of contact and many starts of a lockdown.

Each epidemic is a node of the graph. A second node summarises it, and the table needs all summaries. The model is that
of Kermack and McKendrick (1927): susceptible, infected, removed, integrated by the classical Runge-Kutta method.
"""

from __future__ import annotations

from typing import Any

from side_by_side import arguments, side_by_side

from scaler import Client

DAYS, STEPS_PER_DAY = 365, 100
RECOVERY = 1 / 7
FEWER_CONTACTS = 0.45
Course = list[tuple[float, float]]


def epidemic(contacts: float, lockdown: int) -> Course:
    """Return the susceptible and the infected part of the population, day by day."""
    susceptible, infected = 0.999, 0.001
    course, step = [], 1 / STEPS_PER_DAY
    for day in range(DAYS):
        course.append((susceptible, infected))
        rate = contacts * RECOVERY * (FEWER_CONTACTS if lockdown <= day < lockdown + 60 else 1)
        for _ in range(STEPS_PER_DAY):
            susceptible, infected = runge_kutta(susceptible, infected, rate, step)
    return course


def runge_kutta(s: float, i: float, rate: float, h: float) -> tuple[float, float]:
    """Return the susceptible and the infected part one step later."""

    def change(s: float, i: float) -> tuple[float, float]:
        ill = rate * s * i
        return -ill, ill - RECOVERY * i

    a, b = change(s, i)
    c, d = change(s + a * h / 2, i + b * h / 2)
    e, f = change(s + c * h / 2, i + d * h / 2)
    g, k = change(s + e * h, i + f * h)
    return s + h * (a + 2 * c + 2 * e + g) / 6, i + h * (b + 2 * d + 2 * f + k) / 6


def summary(contacts: float, lockdown: int, course: Course) -> tuple[float, int, float, float]:
    """Return the peak of an epidemic, and the part of the population that was ill."""
    return contacts, lockdown, max(infected for _, infected in course), 1 - course[-1][0]


def table(*summaries: tuple[float, int, float, float]) -> list[tuple[float, int, float, float]]:
    """Return, for each rate of contact, the start of the lockdown with the lowest peak."""
    best: dict[float, tuple[float, int, float, float]] = {}
    for line in summaries:
        best[line[0]] = min(best.get(line[0], line), line, key=lambda one: one[2])
    return list(best.values())


def on_cluster(client: Client, sweep: list[tuple[float, int]]) -> list[tuple[float, int, float, float]]:
    """Run the sweep as one graph, and fetch only the table."""
    graph: dict[str, Any] = {}
    for number, (contacts, lockdown) in enumerate(sweep):
        graph[f"course-{number}"] = (epidemic, contacts, lockdown)
        graph[f"summary-{number}"] = (summary, contacts, lockdown, f"course-{number}")
    graph["table"] = (table, *(f"summary-{number}" for number in range(len(sweep))))
    return client.get(graph, keys=["table"])["table"]


def main() -> None:
    """Sweep both parameters."""
    options = arguments("Sweep the parameters of an epidemic.", 20, "starts of the lockdown for each of four rates")
    sweep = [(contacts, 4 * start) for contacts in (1.8, 2.2, 2.8, 3.5) for start in range(options.size)]

    best, verdict = side_by_side(
        lambda: table(*(summary(*parameters, epidemic(*parameters)) for parameters in sweep)),
        lambda client: on_cluster(client, sweep),
        options.workers,
    )

    print(f"{len(sweep)} epidemics of {DAYS} days; the lockdown of 60 days that keeps the peak lowest:")
    for contacts, lockdown, peak, ill in best:
        print(f"  {contacts} new cases of each: from day {lockdown:2}, peak {peak:.1%}, ill in all {ill:.0%}")
    print(verdict)


if __name__ == "__main__":
    main()
