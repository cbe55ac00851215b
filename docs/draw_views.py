"""Write reference/views.md from the views in scaler/monitor/views: python docs/draw_views.py."""

from __future__ import annotations

from pathlib import Path

from scaler.monitor.top.view import NUMBERS
from scaler.monitor.top.view import VIEWS as SHOWN
from scaler.monitor.views.catalog import OF_DETAILS, VIEWS
from scaler.monitor.views.field_types import TYPES
from scaler.monitor.views.view import COUNTER, Field, View

PAGE = Path(__file__).parent / "reference" / "views.md"

# ruff: noqa: E501 - the lines of the page
TEXT = """\
# The views

<!-- Written by docs/draw_views.py from scaler/monitor/views; a test compares the two. -->

A view is a table of things of one kind, such as workers. [`scaler_top`](../howto/watching.md) shows it in the terminal and
[`scaler_ui`](../howto/dashboard.md) on a page, `scaler_top --once --json` prints its rows, and some of its figures are
[metrics](../howto/metrics.md). All of them are made from the declarations in `scaler/monitor/views`, and this page is, too.

| column of the tables below | meaning |
|---|---|
| name | the name in JSON and CSV, and of the order (`-name`: descending) |
| terminal | the heading in `scaler_top`, with the key that sorts by it; in italics: only in the details |
| page | the heading on the page |
| unit | the unit in JSON and CSV: {units}; a value that is not known is null, and `-` on the screens |
| metric | the metric in Prometheus; a counter has `_total` at its end |

Names in parentheses are those of earlier releases, which `scaler_top --once --json` still has. A name that ends in `_us`, `_ms`,
`_permille` or `_bytes` has this unit.
{views}
"""


def metric_of(view: View, field: Field) -> str:
    """Return the metric of a field with its labels."""
    if field.metric is None:
        return ""
    labels = ", ".join(field.metric.label_names(view))
    end = "_total" if field.metric.kind == COUNTER else ""
    return f"`{field.metric.name}{end}{{{labels}}}`" if labels else f"`{field.metric.name}{end}`"


def line_of(view: View, field: Field) -> str:
    """Return the row of a field."""
    title = f"{field.label}" if field.in_table else f"*{field.label}*" if field.is_fact else ""
    key = f" `{field.key}`" if field.key and field.in_table else ""
    older = f" ({', '.join(f'`{name}`' for name in field.old)})" if field.old else ""
    meaning = field.meaning.replace("|", "\\|")
    heading = field.heading if field.on_page else ""
    return (
        f"| `{field.name}`{older} | {title}{key} | {heading} | {meaning} | {field.type.meaning} "
        f"| {metric_of(view, field)} |"
    )


def section_of(name: str, view: View) -> str:
    """Return the section of a view."""
    number = next((key for key, shown in NUMBERS.items() if shown == name), "")
    place = f"key `{number}`" if number else "Tab" if name in SHOWN else "not a view of its own"
    if name in OF_DETAILS:
        place = "in details"
    rows = view.report or name
    order = view.sort.removeprefix("-") + (", descending" if view.sort.startswith("-") else "")
    json_rows = "" if name in OF_DETAILS else f" In JSON: `{rows}`."
    head = f"`scaler_top`: {place}. Usual order: {order}.{json_rows}"
    lines = "\n".join(line_of(view, field) for field in view.fields)
    return (
        f"\n## {view.title}\n\n{head}\n\n| name | terminal | page | meaning | unit | metric |\n"
        f"|---|---|---|---|---|---|\n{lines}"
    )


def page() -> str:
    """Return the page as it should be."""
    units = sorted({each.meaning for each in TYPES})
    views = "\n".join(section_of(name, view) for name, view in VIEWS.items())
    return TEXT.format(units=", ".join(units), views=views)


if __name__ == "__main__":
    PAGE.write_text(page())
