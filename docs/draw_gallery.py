"""Draw the pictures of gallery.md from what its programs compute: python docs/draw_gallery.py.

The functions of the programs are called here, in this process. Those of `FURTHER` need scaler[examples].
"""

from __future__ import annotations

import importlib.util
import io
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 60, 20, 32, 36
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8a5aa8", "#b8860b")
Point = tuple[float, float]


class Chart:
    """A picture with two axes. Numbers are rounded to a tenth of a pixel, so that it is the same everywhere."""

    def __init__(self, title: str, across: tuple[float, float], up: tuple[float, float], height: int = HEIGHT) -> None:
        self._across, self._up, self._height = across, up, height
        self._parts: list[str] = []
        self.text(LEFT, 18, title, size=14)

    def at(self, x: float, y: float) -> Point:
        """Return the place of a value in pixels."""
        (low, high), (bottom, top) = self._across, self._up
        room = self._height - TOP - BOTTOM
        left = LEFT + (x - low) / (high - low) * (WIDTH - LEFT - RIGHT)
        return left, TOP + room - (y - bottom) / (top - bottom) * room

    def text(self, x: float, y: float, text: str, colour: str = "#333", anchor: str = "start", size: int = 12) -> None:
        """Write at a place in pixels."""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"'
        self._parts.append(f"<text {place}>{text}</text>")

    def line(self, points: Iterable[Point], colour: str, width: float = 2, dashes: str = "") -> None:
        """Draw a line through values."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 3.5) -> None:
        """Draw a value."""
        left, top = self.at(x, y)
        self._parts.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{radius}" fill="{colour}"/>')

    def box(self, start: Point, end: Point, colour: str) -> None:
        """Fill the rectangle between the values of its lower left and its upper right corner."""
        (left, low), (right, high) = self.at(*start), self.at(*end)
        gap = 0.5 if right - left > 2 else 0
        size = (
            f'x="{left:.1f}" y="{high:.1f}" width="{max(right - left - gap, 0.4):.1f}" height="{low - high - 0.5:.1f}"'
        )
        self._parts.append(f'<rect {size} fill="{colour}"/>')

    def axes(self, across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]], what: str) -> None:
        """Draw lines and their names, and below what the numbers across are."""
        for x, name in across:
            left, bottom = self.at(x, self._up[0])
            self.text(left, bottom + 15, name, anchor="middle")
        for y, name in up:
            left, top = self.at(self._across[0], y)
            self.line([(self._across[0], y), (self._across[1], y)], "#ddd", 1)
            self.text(left - 6, top + 4, name, anchor="end")
        self.text((LEFT + WIDTH - RIGHT) / 2, self._height - 5, what, anchor="middle")

    def svg(self) -> str:
        """Return the picture."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" font-family="sans-serif">'
        return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *self._parts, "</svg>", ""])


def program(name: str) -> Any:
    """Import a program of examples/ by its path."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look there
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
        del sys.modules[path.stem]
    return module


def epidemic_sweep() -> str:
    """The epidemics with the best lockdowns, and without any."""
    model = program("gallery/epidemic_sweep")
    model.STEPS_PER_DAY = 5  # enough for the eye
    chart = Chart("Ill at a time, with the lockdown that keeps the peak lowest; dashed: without", (0, 200), (0, 0.4))
    days, parts = [(day, f"{day}") for day in range(0, 201, 40)], [(part / 10, f"{10 * part}%") for part in range(5)]
    chart.axes(days, parts, "day")
    for number, contacts in enumerate((1.8, 2.2, 2.8, 3.5)):
        courses = {day: model.epidemic(contacts, day) for day in (*range(0, 80, 4), model.DAYS)}
        best = model.table(*(model.summary(contacts, day, courses[day]) for day in range(0, 80, 4)))[0][1]
        for day, dashes in ((model.DAYS, "4 3"), (best, "")):
            chart.line([(at, ill) for at, (_, ill) in enumerate(courses[day][:201])], COLOURS[number], 2, dashes)
        top = TOP + 14 + 16 * number
        chart.text(WIDTH - RIGHT, top, f"{contacts} new cases of each: from day {best}", COLOURS[number], "end")
    return chart.svg()


def option_chain() -> str:
    """What the chain was made with, and what the tasks have found in its prices."""
    chain = program("gallery/option_chain")
    chart = Chart("Volatility: the prices were made with the lines, the dots were found", (78, 122), (0.19, 0.3))
    strikes, parts = range(80, 121, 8), [(part / 100, f"{part}%") for part in range(20, 31, 2)]
    chart.axes([(strike, f"{strike}") for strike in strikes], parts, "strike")
    for number, months in enumerate(chain.MONTHS):
        colour, years = COLOURS[number], months / 12
        chart.line([(strike, chain.smile(strike, years)) for strike in range(80, 121)], colour, 1.5)
        for strike in range(80, 122, 4):
            price = chain.put_price(strike, years, chain.smile(strike, years), 40)
            if price > strike - chain.SPOT + 0.01:
                chart.dot(strike, chain.implied_volatility(chain.Quote(strike, years, price), 40), colour)
        chart.text(WIDTH - RIGHT, TOP + 14 + 16 * number, f"{months} month{'s' * (months > 1)}", colour, "end")
    return chart.svg()


def quadrature() -> str:
    """Which intervals were halved how often."""
    program_, halved = program("gallery/quadrature"), set()
    rule, whole = program_.simpson, program_.END - program_.START

    def noted(a: float, b: float) -> float:
        halved.add((a, b))
        return float(rule(a, b))

    program_.simpson = noted
    program_.integral(program_.START, program_.END, 1e-4, None)
    deepest = max(round(whole / (b - a)).bit_length() for a, b in halved)
    chart = Chart(
        "Intervals are halved where the rule is not sure; the light ones stay in their task", (0, 4), (-deepest, 0)
    )
    for a, b in sorted(halved):
        level = round(whole / (b - a)).bit_length()
        chart.box((a, -level), (b, 1 - level), COLOURS[0] if b - a >= program_.ALONE_BELOW else "#a9c9e0")
    chart.axes([(x / 2, f"{x / 2:g}") for x in range(9)], [], "the needle is at 1.5")
    chart.text(LEFT - 6, TOP + 12, "whole", anchor="end")
    chart.text(LEFT - 6, HEIGHT - BOTTOM - 2, f"1/{2 ** (deepest - 1)}", anchor="end")
    return chart.svg()


class Calls:
    """In the place of the client of nested.py: runs a task at once, and notes whose child it is."""

    def __init__(self) -> None:
        self.tasks: list[tuple[int, int]] = []
        self._open: list[int] = [-1]

    def submit(self, function: Any, *arguments: Any) -> Any:
        """Run the task, and return what has its result."""
        self.tasks.append((self._open[-1], arguments[-1]))
        self._open.append(len(self.tasks) - 1)
        value = function(*arguments)
        self._open.pop()
        return type("Done", (), {"result": lambda _self: value})()


def nested() -> str:
    """The tasks of the recursion as a tree."""
    calls, recursion = Calls(), program("nested")
    calls.submit(recursion.fibonacci, calls, 8)
    children: dict[int, list[int]] = {}
    for task, (parent, _) in enumerate(calls.tasks):
        children.setdefault(parent, []).append(task)
    places: dict[int, Point] = {}
    leaves = iter(range(len(calls.tasks)))

    def place(task: int, depth: int) -> float:
        below = [place(child, depth + 1) for child in children.get(task, ())]
        across = sum(below) / len(below) if below else next(leaves)
        places[task] = (across, -depth)
        return across

    place(0, 0)
    waiting = len([task for task in children if task >= 0])
    title = f"{len(calls.tasks)} tasks for fibonacci(8): the {waiting} blue ones wait for their children"
    chart = Chart(title, (-0.5, len(calls.tasks) - waiting - 0.5), (min(y for _, y in places.values()) - 0.3, 0.3))
    for task, (parent, _) in enumerate(calls.tasks[1:], 1):
        chart.line([places[parent], places[task]], "#bbb", 1)
    for task, (_, n) in enumerate(calls.tasks):
        chart.dot(*places[task], COLOURS[0] if task in children else COLOURS[1], 7)
        left, top = chart.at(*places[task])
        chart.text(left, top + 3.5, f"{n}", "#fff", "middle", 10)
    return chart.svg()


def value_at_risk() -> str:
    """How often which outcome came, and where the value at risk is."""
    import numpy as np

    model = program("gallery/value_at_risk")
    returns, most = model.monthly_returns(), 9000
    outcomes = [model.simulated_returns(returns, seed, 50_000) for seed in np.random.SeedSequence(2024).spawn(4)]
    worst = -model.risk(outcomes)[0]
    counts, edges = np.histogram(np.concatenate(outcomes), bins=60, range=(-0.6, 1.2))
    chart = Chart("What the portfolio gained or lost in 200,000 years", (-0.6, 1.2), (0, most))
    parts = [(part / 5, f"{20 * part}%") for part in range(-3, 7)]
    chart.axes(parts, [(n, f"{n:,}") for n in range(0, most + 1, 3000)], "gain of a year")
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        chart.box((low, 0), (high, count), COLOURS[int(high <= worst)])
    chart.line([(worst, 0), (worst, most)], COLOURS[1], 1.5, "4 3")
    chart.text(chart.at(worst, 0)[0] + 6, TOP + 14, f"one year in a hundred loses {-worst:.0%} or more", COLOURS[1])
    return chart.svg()


def back_test() -> str:
    """What the best fast window for each slow one gained on the first part, and then on the second."""
    import numpy as np
    from matplotlib.cbook import get_sample_data

    test = program("gallery/back_test")
    with np.load(get_sample_data("goog.npz", asfileobj=False)) as data:
        prices = data["price_data"]["adj_close"].tolist()
    days = range(10, 101, 6)
    best = [test.best_of(prices[:780], slow) for slow in days]
    later = [test.gain(prices[780 - slow :], fast, slow) for _, fast, slow in best]
    chart = Chart("Averages that were best for three years, and what they gained in the fourth", (10, 100), (0, 5))
    chart.axes([(day, f"{day}") for day in days[::3]], [(n, f"x {n}") for n in range(6)], "days of the slow average")
    for number, (gains, what) in enumerate((([gain for gain, *_ in best], "three years"), (later, "the fourth"))):
        points = list(zip(days, gains, strict=True))
        chart.line(points, COLOURS[number])
        for point in points:
            chart.dot(*point, COLOURS[number], 2.5)
        chart.text(WIDTH - RIGHT, TOP + 14 + 16 * number, what, COLOURS[number], "end")
    return chart.svg()


def grid_search() -> str:
    """How many digits each pair of parameters tells right."""
    search, found = program("gallery/grid_search"), []
    make = search.GridSearchCV

    def noted(*arguments: Any, **options: Any) -> Any:
        found.append(make(*arguments, **options))
        return found[-1]

    search.GridSearchCV = noted
    (parameters, score), size = search.search(4), 4
    chart = Chart(f"Digits that are told right: {score:.1%} at the best place", (0, size), (0, size))
    powers = [(place + 0.5, f"{10**place}") for place in range(size)], [(y, "") for y in range(size + 1)]
    chart.axes(*powers, "C, and gamma on the left")
    table = found[0].cv_results_
    for pair, part in zip(table["params"], table["mean_test_score"], strict=True):
        x, y = (round(math.log10(pair[name] * times)) for name, times in (("C", 1), ("gamma", 10**size)))
        is_best = pair == parameters
        shade = round(235 - 180 * float(part) ** 4)
        chart.box(
            (x, y), (x + 1, y + 1), COLOURS[1] if is_best else f"rgb({shade - 30},{shade},{min(shade + 60, 255)})"
        )
        left, top = chart.at(x + 0.5, y + 0.5)
        chart.text(left, top + 4, f"{part:.1%}", "#fff" if part > 0.8 else "#333", "middle")
    for y in range(size):
        left, top = chart.at(0, y + 0.5)
        chart.text(left - 6, top + 4, f"{10.0 ** (y - size):g}", anchor="end")
    return chart.svg()


def risk_service() -> str:
    """What the requests are answered: the risk by the largest part of the money in one share."""
    import numpy as np

    service = program("gallery/risk_service")
    service.PATHS = 20_000  # enough for the eye
    returns = service.monthly_returns()
    chart = Chart("A hundred portfolios: who puts it all on one share loses more", (0.2, 0.8), (0.3, 0.6))
    parts, losses = [(part / 5, f"{20 * part}%") for part in range(1, 5)], [(n / 10, f"{10 * n}%") for n in range(3, 7)]
    chart.axes(parts, losses, "largest part of the money in one share; upwards: value at risk")
    for portfolio in np.random.default_rng(7).dirichlet(np.ones(len(service.SHARES)), 100).round(3).tolist():
        largest = int(np.argmax(portfolio))
        colour = (*COLOURS, "#555")[largest]
        chart.dot(max(portfolio), service.value_at_risk(returns, portfolio), colour)
    for number, share in enumerate(service.SHARES):
        chart.text(LEFT + 10 + 60 * number, TOP + 14, share, (*COLOURS, "#555")[number])
    return chart.svg()


def images() -> bytes:
    """The photograph in each style, beside each other."""
    from matplotlib.cbook import get_sample_data
    from PIL import Image

    program_, file = program("gallery/images"), io.BytesIO()
    photograph = Path(get_sample_data("grace_hopper.jpg", asfileobj=False)).read_bytes()
    rendered = [Image.open(io.BytesIO(program_.render(photograph, 120, style))) for style in program_.STYLES]
    sheet = Image.new("RGB", (126 * len(rendered) - 6, rendered[0].height), "white")
    for number, image in enumerate(rendered):
        sheet.paste(image.convert("RGB"), (126 * number, 0))
    sheet.save(file, "jpeg", quality=80)
    return file.getvalue()


PICTURES = {each.__name__: each for each in (epidemic_sweep, nested, option_chain, quadrature)}
FURTHER = {each.__name__: each for each in (back_test, grid_search, risk_service, value_at_risk)}

if __name__ == "__main__":
    drawn = dict(PICTURES)
    if importlib.util.find_spec("matplotlib") and importlib.util.find_spec("sklearn"):
        drawn |= FURTHER
        (DOCS / "pictures" / "images.jpg").write_bytes(images())
    else:
        sys.stderr.write(f"not drawn, for want of scaler[examples]: {', '.join((*FURTHER, 'images'))}\n")
    for name, draw in drawn.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(draw())
