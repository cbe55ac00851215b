"""The documentation says what is there."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import scaler
from tests.bridges.needs import needs

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), CHECKOUT / "protocol" / "README.md", CHECKOUT / "CONTRIBUTING.md"]


def run(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(script).stem, DOCS / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(DOCS))  # as when the script is run
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@pytest.mark.parametrize(
    ("script", "page"),
    [
        ("draw_task_states.py", "reference/task-states.md"),
        ("draw_processor_states.py", "reference/processor-states.md"),
        ("draw_conversation_states.py", "reference/conversation-states.md"),
        ("draw_layout.py", "explanation/layout.md"),
        ("draw_commands.py", "reference/commands.md"),
        ("draw_errors.py", "reference/errors.md"),
        ("draw_settings.py", "reference/settings.md"),
        ("draw_views.py", "reference/views.md"),
    ],
)
def test_drawn_pages_are_up_to_date(script: str, page: str) -> None:
    """Else: make draw."""
    assert (DOCS / page).read_text() == run(script).page()


def test_the_board_and_the_rules_are_up_to_date() -> None:
    """Else: make draw."""
    for path, text in run("draw_metrics.py").FILES.items():
        assert path.read_text() == text()


def test_the_pictures_of_the_gallery_are_what_its_programs_compute() -> None:
    """Else: make draw, and look at them."""
    program, folder = run("draw_gallery.py"), DOCS / "pictures"
    drawn = {f"{name}.svg": draw() for name, draw in program.PICTURES.items()}
    assert {name: (folder / name).read_text() for name in drawn} == drawn
    names = {*drawn, *(f"{name}.svg" for name in program.FURTHER), "images.jpg"}
    assert {path.name for path in folder.iterdir()} == names
    assert set(re.findall(r"\(pictures/(\w+\.\w+)\)", (DOCS / "gallery.md").read_text())) == names


@pytest.mark.more
@pytest.mark.parametrize("name", ["back_test", "grid_search", "risk_service", "value_at_risk"])
def test_pictures_that_need_other_packages_are_up_to_date(name: str) -> None:
    """They may differ by some pixels, as these packages may compute in another way."""
    needs("matplotlib")
    needs("sklearn")
    drawn, kept = run("draw_gallery.py").FURTHER[name](), (DOCS / "pictures" / f"{name}.svg").read_text()
    number = re.compile(r"-?\d+(?:\.\d+)?")
    assert number.sub("#", drawn) == number.sub("#", kept)
    pairs = zip(number.findall(drawn), number.findall(kept), strict=True)
    assert [pair for pair in pairs if abs(float(pair[0]) - float(pair[1])) > 2] == []


@pytest.mark.more
def test_the_photograph_of_the_gallery_is_what_its_tasks_make_of_it() -> None:
    needs("matplotlib")
    image, numpy = needs("PIL.Image"), needs("numpy")
    drawn, kept = (
        numpy.asarray(image.open(io.BytesIO(data)), dtype=float)
        for data in (run("draw_gallery.py").images(), (DOCS / "pictures" / "images.jpg").read_bytes())
    )
    assert drawn.shape == kept.shape
    assert abs(drawn - kept).mean() < 3


def test_the_protocol_has_the_table_of_conversations() -> None:
    """Else: make draw."""
    drawn = run("draw_conversation_states.py").protocol()
    assert (CHECKOUT / "protocol" / "README.md").read_text() == drawn


def test_contributors_find_every_folder_of_the_package() -> None:
    table = (CHECKOUT / "CONTRIBUTING.md").read_text()
    folders = {path.parent.name for path in (CHECKOUT / "scaler").glob("*/__init__.py")}
    assert {folder for folder in folders if f"`scaler/{folder}/`" not in table} == set()


def test_the_index_has_each_how_to_in_a_group_and_a_sentence_on_it() -> None:
    index = (DOCS / "index.md").read_text().partition("\n## Look up\n")[0]
    trees = re.findall(r"^:hidden:\n\n((?:[\w/-]+\n)+)```$", index, re.MULTILINE)
    described = re.findall(r"^- \[[^\]]+\]\(([\w/-]+)\.md\): .+\.$", index, re.MULTILINE)
    assert described == "".join(trees).split()
    assert {f"howto/{page.stem}" for page in (DOCS / "howto").glob("*.md")} <= set(described)


def test_the_gallery_has_every_example() -> None:
    shown = re.findall(r"^\[.+\]\(\.\./(examples/[\w/]+\.py)\): ", (DOCS / "gallery.md").read_text(), re.MULTILINE)
    examples = (path.relative_to(CHECKOUT) for path in (CHECKOUT / "examples").rglob("*.py"))
    assert set(shown) == {str(path) for path in examples if path.stem != "side_by_side"}


def test_the_documentation_has_the_version_of_the_package() -> None:
    assert run("conf.py").html_title == f"Scaler {scaler.__version__}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_have_no_links(page: Path) -> None:
    """Sphinx ends with a KeyError at a link in a heading to a file that is no page, and does not say where."""
    assert re.findall(r"^#+ .*\]\(.*$", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"`((?:scaler|tests|protocol|docs)/[\w./]+?\.(?:py|md|capnp))`", text))
    assert [name for name in sorted(named) if not (CHECKOUT / name).exists()] == []
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    assert [name for name in sorted(linked) if not (page.parent / name).exists()] == []


@pytest.mark.parametrize(("page", "most"), [("explanation/guarantees.md", 20), ("reference/bounds.md", 10)])
def test_guarantees_and_bounds_name_tests_that_exist(page: str, most: int) -> None:
    lines = (DOCS / page).read_text().splitlines()
    tests = "".join(file.read_text() for file in (CHECKOUT / "tests").rglob("test_*.py"))
    written = set(re.findall(r"def (test_\w+)", tests))
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| test |")]
    assert len(rows) > most
    assert [row for row in rows if not re.findall(r"`(test_\w+)`", row)] == []
    assert sorted(set(re.findall(r"`(test_\w+)`", "".join(lines))) - written) == []


@pytest.mark.parametrize("heading", ["What is guarded", "What keys guard against"])
def test_each_threat_names_a_test(heading: str) -> None:
    section = (DOCS / "explanation" / "security.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .*$", section, re.MULTILINE)[1:]
    assert len(rows) > 20
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::test_\w+`", row)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page.read_text()))
    assert [
        f"{file}::{test}" for file, test in sorted(named) if f"def {test}(" not in (CHECKOUT / file).read_text()
    ] == []
