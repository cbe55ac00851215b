"""Write reference/commands.md from the parsers of the commands: python docs/draw_commands.py."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parent / "reference" / "commands.md"
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
WIDTH = 110

TEXT = """\
# Commands

<!-- Written by docs/draw_commands.py from the parsers in scaler/cli/; a test compares the two. -->

With `-h`, each command prints its section of this page. The page of the [settings](./settings.md) explains what the
settings mean, and where else they may be set. The error for an unknown option or command suggests the most similar one.

A command ends with exit code 0 after success, 1 after an error or a negative answer (the job has failed rows, the
scheduler does not answer), and 2 after wrong arguments. A server may also end with 70 or 78
([failures](../explanation/failures.md)). Ctrl-C kills a command by SIGINT, so that a loop in a shell also ends. The
servers `scaler_scheduler`, `scaler_cluster`, `scaler_ui` and `scaler_scale`, and the screen of `scaler_top`, instead
end in order after Ctrl-C, with exit code 0.

{commands}
"""

SECTION = """\
## {name}

{aliases}```text
{help}
```
"""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help in the same way in each version of Python and for each terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=WIDTH)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        metavar = self._format_args(action, str(action.metavar or action.dest).upper()) if action.nargs != 0 else ""
        return f"{', '.join(action.option_strings)} {metavar}".strip()


def modules() -> dict[str, list[str]]:
    """Return the module of each command -> its names, from pyproject.toml."""
    scripts = PYPROJECT.read_text().partition("[project.scripts]\n")[2].partition("\n[")[0]
    found: dict[str, list[str]] = {}
    for name, module in re.findall(r'^(\w+) = "([\w.]+):main"$', scripts, re.MULTILINE):
        found.setdefault(module, []).append(name)
    return found


def section(module: str, names: list[str]) -> str:
    """Return the section of one command."""
    parser = importlib.import_module(module).make_parser()
    parser.formatter_class = Formatter
    parts = parts_of(parser)
    parser.usage = parser.usage or ("%(prog)s COMMAND [options]" if parts else "%(prog)s [options] [ADDRESS]")
    aliases = [f"`{name}`" for name in names if name != parser.prog]
    also = f"Also called {', '.join(aliases)}.\n\n" if aliases else ""
    texts = [parser.format_help().strip(), *(part.format_help().strip() for part in parts)]
    return SECTION.format(name=parser.prog, aliases=also, help="\n\n".join(texts))


def parts_of(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parsers of the commands of a command."""
    found: list[argparse.ArgumentParser] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found += dict.fromkeys(action.choices.values())
    for part in found:
        part.formatter_class = Formatter
        names = (str(action.metavar) for action in part._actions if not action.option_strings)  # noqa: SLF001
        part.usage = " ".join(("%(prog)s [options]", *names))
    return found


def page() -> str:
    """Return the page as it should be."""
    return TEXT.format(commands="\n".join(section(*command) for command in modules().items()).strip())


if __name__ == "__main__":
    PAGE.write_text(page())
