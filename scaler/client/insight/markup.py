"""Markup: futures, jobs and tables as HTML for notebooks, with all texts escaped.

Called by the `_repr_html_` methods. Imports no other module of Scaler.
"""

from __future__ import annotations

from collections.abc import Iterable


def future(kind: str, name: str, short_id: str, state: str) -> str:
    """Return a future as HTML."""
    name, state = escaped(name), escaped(state)
    return f"<div><strong>{kind}</strong> <code>{name}</code> <code>{short_id}</code>: {state}</div>"


def job(kind: str, name: str, function: str, state: str) -> str:
    """Return a job as HTML."""
    name, function, state = map(escaped, (name, function, state))
    return f"<div><strong>{kind}</strong> <code>{name}</code> of <code>{function}</code>: {state}</div>"


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table, with a header row, as HTML."""
    head = "".join(f"<th>{escaped(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escaped(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def escaped(text: str) -> str:
    """Return `text`, escaped for HTML."""
    from html import escape  # noqa: PLC0415 - few programs show anything, and it has a table of two thousand names

    return escape(text)
