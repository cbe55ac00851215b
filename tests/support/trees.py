"""The syntax trees of the files of the package. Each file is parsed once per process."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    gc.disable()  # it would look at all nodes again and again, and nearly double the time
    try:
        return list(ast.walk(ast.parse(path.read_text())))
    finally:
        gc.enable()
