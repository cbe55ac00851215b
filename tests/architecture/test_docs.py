"""The documentation says what is there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), CHECKOUT / "protocol" / "README.md"]


def test_page_of_the_task_states_is_drawn_from_the_table() -> None:
    """Else: python docs/draw_task_states.py."""
    spec = importlib.util.spec_from_file_location("draw_task_states", DOCS / "draw_task_states.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "task-states.md").read_text() == module.page()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"`((?:scaler|tests|protocol|docs)/[\w./]+?\.(?:py|md|capnp))`", text))
    assert [name for name in sorted(named) if not (CHECKOUT / name).exists()] == []
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    assert [name for name in sorted(linked) if not (page.parent / name).exists()] == []


def test_design_names_every_module() -> None:
    """One line per file: a new room is not finished before it has its line."""
    text = (DOCS / "design.md").read_text()
    layout = text[text.index("## Layout") :]
    modules = [
        path.relative_to(CHECKOUT / "scaler")
        for path in sorted((CHECKOUT / "scaler").rglob("*.py"))
        if path.name != "__init__.py"
    ]
    assert [str(path) for path in modules if f"{path.name} " not in layout] == []
