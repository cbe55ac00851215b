"""The three panels beside the table on a large screen: clients, functions, failures."""

from __future__ import annotations

from scaler.monitor.model.model import Model
from scaler.monitor.top.grid import BOLD, PLAIN, Grid
from scaler.monitor.top.tables import Table, clients_table, draw_table, failures_table, functions_table

GAP = 1


def draw_side(canvas: Grid, x: int, y: int, width: int, height: int, model: Model) -> None:
    """Draw the panels below each other, each with as many rows as the others leave."""
    clients = model.scheduler.clients if model.scheduler else len(model.clients)
    panels = [
        (f"client_manager {clients}", clients_table(model, width)),
        (f"function_id_to_tasks {len(model.functions)}", functions_table(model, width)),
        (f"failures {len(model.failures)}", failures_table(model, width)),
    ]
    share = height // len(panels)
    spare = height - share * len(panels)
    for number, (title, table) in enumerate(panels):
        rows = share + (1 if number < spare else 0)
        _draw_panel(canvas, x, y, width, rows - GAP, title, table)
        y += rows


def _draw_panel(canvas: Grid, x: int, y: int, width: int, height: int, title: str, table: Table) -> None:
    part = Grid(width, height)
    draw_table(part, table, 0, height - 1, 0, -1)
    first = table.fields[0].width
    part.put(0, 0, " " * first)
    part.put(0, 0, title, BOLD, most=first)
    rest = len(table.lines) - (height - 1)
    if rest > 0:
        part.put(0, height - 1, " " * width, PLAIN)
        part.put(1, height - 1, f"{rest + 1} more")
    canvas.paste(x, y, part)
