"""Commands that pages name are understood: those in blocks as a whole, those in the text by their options."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", CHECKOUT / "examples" / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
DRAWN = {"commands.md"}
"""by a program, from the commands themselves"""
BLOCK = re.compile(r"^```(?:console|bash|sh|shell)\n(.*?)^```", re.DOTALL | re.MULTILINE)
IN_BLOCK = re.compile(r"^(?:\$ )?(scaler_\w+ .*)$", re.MULTILINE)
IN_TEXT = re.compile(r"`(scaler_\w+) ([^`]*)`")
AFTER = {"|", "&", "&&", ">", ";", "\\"}
"""where the arguments of a command end"""


def module_of(command: str) -> ModuleType:
    name = {"scaler_worker": "cluster"}.get(command, command.removeprefix("scaler_"))
    return importlib.import_module(f"scaler.cli.{name}")


def parser_of(command: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = module_of(command).make_parser()
    return parser


def arguments_of(line: str) -> list[str]:
    words = shlex.split(line, comments=True)
    return words[: next((place for place, word in enumerate(words) if word in AFTER), len(words))]


def commands_in_blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()) if page.name not in DRAWN else ():
            found += [(page.name, line) for line in IN_BLOCK.findall(block.replace("\\\n", " "))]
    return found


COMMANDS = commands_in_blocks()


@pytest.mark.parametrize(
    ("page", "line"), COMMANDS, ids=[f"{page}-{number}" for number, (page, _) in enumerate(COMMANDS)]
)
def test_commands_in_blocks_are_understood(page: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = arguments_of(line)
    try:
        read = getattr(module_of(command), "read_arguments", argparse.ArgumentParser.parse_args)
        read(parser_of(command), arguments)
    except SystemExit:
        pytest.fail(f"{page}: {line}\n{capsys.readouterr().err}")


def help_of(parser: argparse.ArgumentParser) -> str:
    """What a command prints of itself and of its own commands."""
    parts = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return "\n".join([parser.format_help(), *(part.format_help() for choices in parts for part in choices.values())])


def test_options_of_commands_in_the_text_exist() -> None:
    checked = 0
    for page in PAGES:
        for command, rest in IN_TEXT.findall(page.read_text()):
            options = re.findall(r"(?<!\S)--[a-z][a-z-]*", rest)
            known = help_of(parser_of(command)) if options else ""
            for option in options:
                assert re.search(rf"{option}\b(?!-)", known), f"{page.name}: {command} has no {option}"
                checked += 1
    assert checked > 10


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) > 15
