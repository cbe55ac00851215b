"""Write explanation/layout.md from the first sentence of each module: python docs/draw_layout.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parent / "explanation" / "layout.md"
PACKAGE = Path(__file__).parents[1] / "scaler"

TEXT = """\
# Layout

<!-- Written by docs/draw_layout.py; a test compares the two. -->

Who reads these files in this order knows how the whole works; [the way of one task](../design.md#one-task-room-by-room)
leads through most of them:

{first}

Below is each folder and file of the package, with the first sentence of its docstring. A module imports only from the
layers below its own: `pyproject.toml` has that as import contracts, and a test checks that each contract would notice
a trespass.

```text
{tree}
```
"""

FIRST = [
    *("kit/actor.py", "kit/dispatcher.py", "process/shell.py", "wire/messages/client.py", "wire/session/pipe.py"),
    *("client/core.py", "client/link/protocol.py", "actors/tree.py", "actors/sessions/client_session.py"),
    *("actors/tasks/task.py", "actors/workers/balancer.py", "actors/workers/worker_proxy.py", "agent/link.py"),
    *("executors/processes/slot/slot.py", "processor/processor.py"),
]
"""The files to begin with, in the order in which they explain each other."""


def sentence(module: Path) -> str:
    """Return the first paragraph of the docstring of a module, without its name in front."""
    quotes = '"""'
    before, _, rest = module.read_text().partition(quotes)
    text = rest.partition(quotes)[0] if not before else ""  # parsing the whole package takes a second
    words = " ".join(text.split("\n\n")[0].split())
    name, colon, rest = words.partition(": ")
    same = {part.casefold().replace("_", "") for part in (module.stem, module.parent.name)}
    is_name = name.casefold().replace(" ", "").removeprefix("the") in same
    return rest if colon and is_name else words


def lines(folder: Path, indent: str = "") -> Iterator[str]:
    """Go through a folder: what it is, its folders, its files."""
    yield f"{indent}{folder.name}/".ljust(30) + sentence(folder / "__init__.py")
    for child in sorted(folder.iterdir()):
        if (child / "__init__.py").exists():
            yield from lines(child, indent + "  ")
    for child in sorted(folder.glob("*.py")):
        if child.name != "__init__.py":
            yield f"{indent}  {child.name}".ljust(30) + sentence(child)


def page() -> str:
    """Return the page as it should be."""
    first = [f"{number}. `scaler/{name}`: {sentence(PACKAGE / name)}" for number, name in enumerate(FIRST, 1)]
    return TEXT.format(first="\n".join(first), tree="\n".join(lines(PACKAGE)))


if __name__ == "__main__":
    PAGE.write_text(page())
