#!/usr/bin/env python3
"""Measure a folder of Python code in parallel: one task per file, on a cluster that starts and ends with this program.

    python examples/measure_code.py                      the standard library of the Python that runs this
    python examples/measure_code.py ~/src/my_project     your own code

Each file is parsed and measured: lines, code lines, classes and functions, and the length, deepest nesting and
cyclomatic complexity of each function. Then this process alone does the same work once more, to compare the time and
to check that both give the same results.

Cyclomatic complexity is the number of decisions plus one: T. J. McCabe, "A Complexity Measure", IEEE Transactions on
Software Engineering SE-2 (4), 1976, pages 308-320. `decisions` below says what counts as a decision in Python.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import statistics
import sys
import sysconfig
import time
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scaler import Client, SchedulerClusterCombo

# --- The functions that run in the tasks: plain functions of this file, independent of any cluster. ---

DECISIONS = frozenset({ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert})
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
TRY_STAR = getattr(ast, "TryStar", ast.Try)  # new in Python 3.11
BLOCKS = frozenset(
    {ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, TRY_STAR, ast.Match},
)
LAYOUT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
)


@dataclass(frozen=True)
class FunctionMeasure:
    """One function or method."""

    name: str
    """With its classes and enclosing functions: `Client.submit`."""
    line: int
    lines: int
    complexity: int
    nesting: int
    """Blocks (if, for, while, with, try, match) inside each other at the deepest place; an `elif` is no deeper."""


@dataclass(frozen=True)
class FileMeasure:
    """One file. If it does not parse, `error` says why and only `lines` is known."""

    name: str
    lines: int
    code_lines: int = 0
    classes: int = 0
    functions: tuple[FunctionMeasure, ...] = ()
    error: str = ""


def measure_file(name: str, source: bytes) -> FileMeasure:
    """Measure the source of one file: the task. A source that does not parse gives a result with `error`."""
    lines = len(source.splitlines())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a string of the measured code
            tree = ast.parse(source, filename=name)  # bytes: the parser reads the encoding from the file itself
        code_lines = count_code_lines(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        return FileMeasure(name, lines, error=f"{type(error).__name__}: {error}")
    classes, functions = measure_definitions(tree)
    return FileMeasure(name, lines, code_lines, classes, functions)


def count_code_lines(source: bytes) -> int:
    """Count the lines that hold code: not blank, not only a comment, not part of a docstring."""
    code: set[int] = set()
    statement: set[int] = set()
    has_code = False  # a statement of nothing but strings is a docstring
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type in LAYOUT:
            continue
        if token.type == tokenize.NEWLINE:
            if has_code:
                code |= statement
            statement, has_code = set(), False
            continue
        statement.update(range(token.start[0], token.end[0] + 1))
        has_code = has_code or token.type != tokenize.STRING
    return len(code)


def measure_definitions(tree: ast.Module) -> tuple[int, tuple[FunctionMeasure, ...]]:
    """Return the number of classes, and all functions in the order of the file; nested functions count separately."""
    classes = 0
    functions: list[FunctionMeasure] = []
    scopes: list[tuple[str, ast.AST]] = [("", tree)]
    while scopes:
        prefix, scope = scopes.pop()
        complexity, nesting = 1, 0
        for node, depth in walk_scope(scope):
            if isinstance(node, SCOPES):
                scopes.append((f"{prefix}{node.name}.", node))
            complexity += decisions(node)
            nesting = max(nesting, depth)
        if isinstance(scope, ast.ClassDef):
            classes += 1
        elif isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (scope.end_lineno or scope.lineno) - scope.lineno + 1
            functions.append(FunctionMeasure(prefix[:-1], scope.lineno, length, complexity, nesting))
    return classes, tuple(sorted(functions, key=lambda function: (function.line, function.name)))


def walk_scope(scope: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    """Yield every node of a scope with the number of blocks around it; a nested scope is yielded but not entered.

    A stack instead of recursion: generated code may be nested deeper than Python's recursion limit.
    """
    stack: list[tuple[ast.AST, int]] = [(scope, 0)]
    while stack:
        parent, depth = stack.pop()
        for child in ast.iter_child_nodes(parent):
            child_depth = depth + 1 if type(child) in BLOCKS and not is_elif(parent, child) else depth
            yield child, child_depth
            if not isinstance(child, SCOPES):
                stack.append((child, child_depth))


def is_elif(parent: ast.AST, child: ast.AST) -> bool:
    """Return whether a node is an `elif`: the parser returns it as an `if` in the `else`, in the column of its `if`."""
    return isinstance(parent, ast.If) and isinstance(child, ast.If) and parent.col_offset == child.col_offset


def decisions(node: ast.AST) -> int:
    """Count the decisions that a node adds to its function.

    One each for if, elif, conditional expression, for, while, except and assert, for each `and` and `or`, for each
    `for` and `if` of a comprehension, and for each `case` that can fail to match. Nothing for else, finally and with.
    """
    if type(node) in DECISIONS:
        return 1
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        always = node.guard is None and isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None
        return 0 if always else 1
    return 0


# --- The two ways to run them. ---


@dataclass(frozen=True)
class ClusterRun:
    """The results of the cluster, and its times."""

    measures: list[FileMeasure]
    start_seconds: float
    """From the start of the cluster to the result of a first, empty task."""
    seconds: float
    workers: int


def run_on_cluster(jobs: list[tuple[str, bytes]], address: str | None, workers: int | None) -> ClusterRun:
    """Measure each file in a task of its own."""
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        if workers is not None:
            cluster = SchedulerClusterCombo(n_workers=workers, logging_paths=("/dev/stderr",), logging_level="WARNING")
            address = stack.enter_context(cluster).get_address()
        client = stack.enter_context(Client(address))  # without an address: a cluster that ends with the client
        client.submit(os.getpid).result()
        ready = time.perf_counter()
        measures = client.map(measure_file, jobs, progress=True)
        done = time.perf_counter()
        n_workers = client.info().workers
    return ClusterRun(measures, ready - started, done - ready, n_workers)


def run_in_this_process(jobs: list[tuple[str, bytes]]) -> tuple[list[FileMeasure], float, float]:
    """Do the same work one file after the other. Return the results, the seconds, and the seconds of processor time."""
    started, used = time.perf_counter(), time.process_time()
    measures = [measure_file(*job) for job in jobs]
    return measures, time.perf_counter() - started, time.process_time() - used


# --- Finding the files, and printing the results. ---

INSTALLED = frozenset({"site-packages", "dist-packages"})
TESTS = frozenset({"test", "tests", "idle_test"})
OTHERS_MOST = 0.1
"""The share of a core that other programs may use; above it, the times mean little."""


def find_files(folder: Path, skip: frozenset[str]) -> list[Path]:
    """Return the .py files below a folder, without hidden folders and folders named in `skip`."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in skip and not name.startswith("."))
        found.extend(Path(parent, name) for name in sorted(files) if name.endswith(".py"))
    return found


def read_files(folder: Path, files: list[Path]) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Return the sources, so that workers on other machines do not need the files, and the unreadable files."""
    jobs: list[tuple[str, bytes]] = []
    unreadable: list[str] = []
    for file in files:
        name = str(file.relative_to(folder))
        try:
            jobs.append((name, file.read_bytes()))
        except OSError as error:
            unreadable.append(f"{name}: {error.strerror}")
    return jobs, unreadable


def painted(text: str, code: str) -> str:
    """Colour a text, on a terminal only (https://no-color.org)."""
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def print_most_complex(measures: list[FileMeasure], top: int) -> None:
    """Print the table of the most complex functions."""
    rows = [(function, file.name) for file in measures for function in file.functions]
    rows.sort(key=lambda row: (-row[0].complexity, -row[0].lines, row[1], row[0].line))
    rows = rows[:top]
    if not rows:
        return
    width = max(len("function"), *(len(function.name) for function, _ in rows))
    print(painted(f"\ncomplexity  lines  nesting  {'function':{width}}  where", "1"))
    for function, name in rows:
        colour = "31" if function.complexity > 50 else "33" if function.complexity > 20 else "32"
        complexity = painted(f"{function.complexity:10,}", colour)
        print(
            f"{complexity}  {function.lines:5,}  {function.nesting:7}  {function.name:{width}}  {name}:{function.line}"
        )


def print_totals(measures: list[FileMeasure], unreadable: list[str]) -> None:
    """Print the sums over all files, and each file that could not be measured."""
    functions = [(function, file.name) for file in measures for function in file.functions]
    print(painted("\ntotals", "1"))
    print(f"  files       {len(measures):9,}")
    print(f"  lines       {sum(file.lines for file in measures):9,}")
    print(f"  code lines  {sum(file.code_lines for file in measures):9,}")
    print(f"  classes     {sum(file.classes for file in measures):9,}")
    print(f"  functions   {len(functions):9,}")
    if functions:
        complexities = [function.complexity for function, _ in functions]
        longest, longest_name = max(functions, key=lambda row: row[0].lines)
        deepest, deepest_name = max(functions, key=lambda row: row[0].nesting)
        print(f"  complexity  {statistics.mean(complexities):9.1f}  mean, median {statistics.median(complexities):g}")
        print(f"  longest     {longest.lines:9,}  lines: {longest.name}, {longest_name}:{longest.line}")
        print(f"  deepest     {deepest.nesting:9,}  blocks: {deepest.name}, {deepest_name}:{deepest.line}")
    failed = [f"{file.name}: {file.error}" for file in measures if file.error] + unreadable
    if failed:
        print(painted(f"\nnot measured: {len(failed)} of {len(measures) + len(unreadable)} files", "1"))
        print("".join(f"  {line}\n" for line in failed), end="")


def print_times(cluster: ClusterRun, serial_seconds: float | None, processor_seconds: float) -> None:
    """Print the time of each way, the start of the cluster on a separate line, and the limit of the speed-up."""
    print(painted("\ntime", "1"))
    print(f"  cluster start      {cluster.start_seconds:7.2f} s  until the first task had its answer")
    print(f"  on the cluster     {cluster.seconds:7.2f} s  {len(cluster.measures):,} tasks")
    if serial_seconds is None:
        return
    with_start = serial_seconds / (cluster.start_seconds + cluster.seconds)
    speed_up = painted(f"{serial_seconds / cluster.seconds:7.2f}", "1;32")
    print(f"  in one process     {serial_seconds:7.2f} s  the same calls, one after the other")
    print(f"  speed-up           {speed_up} x  ({with_start:.2f} x with the start of the cluster)")
    print(f"  at best            {cluster.workers:7.2f} x  with a core for each worker; sending takes some of it")
    others = 1 - processor_seconds / serial_seconds
    if others > OTHERS_MOST:
        print(f"  other programs had the processor for {others:.0%} of the time: measure again when it is quiet")


def positive(text: str) -> int:
    """Read an option that is a whole number above zero."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    description, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        help="measure every .py file below it (without hidden folders and installed packages);"
        " default: Python's standard library without its own tests",
    )
    parser.add_argument("--top", metavar="N", type=positive, default=15, help="functions in the table (default: 15)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", metavar="N", type=positive, help="workers to start (default: as many as cores)")
    where.add_argument("--address", help="use the scheduler that runs there, such as tcp://127.0.0.1:2345")
    parser.add_argument("--no-serial", action="store_true", help="do not repeat the work in one process to compare")
    arguments = parser.parse_args()
    if arguments.folder is not None and not arguments.folder.is_dir():
        problem = "is not a folder" if arguments.folder.exists() else "does not exist"
        parser.error(f"FOLDER {arguments.folder} {problem}")
    return arguments


def main() -> int:
    """Measure, compare and print; return the exit code."""
    arguments = parse_arguments()
    folder = arguments.folder or Path(sysconfig.get_path("stdlib"))
    files = find_files(folder, INSTALLED if arguments.folder else INSTALLED | TESTS)
    jobs, unreadable = read_files(folder, files)
    if not jobs:
        print(f"measure_code.py: no readable .py files below {folder}", file=sys.stderr)
        return 2
    megabytes = sum(len(source) for _, source in jobs) / 1e6
    print(f"measuring {len(jobs):,} files ({megabytes:.1f} MB) below {folder}", file=sys.stderr)
    cluster = run_on_cluster(jobs, arguments.address, arguments.workers)
    serial: list[FileMeasure] | None = None
    serial_seconds: float | None = None
    processor_seconds = 0.0
    if not arguments.no_serial:
        print("once more in one process, to compare ...", file=sys.stderr)
        serial, serial_seconds, processor_seconds = run_in_this_process(jobs)
    print_most_complex(cluster.measures, arguments.top)
    print_totals(cluster.measures, unreadable)
    print_times(cluster, serial_seconds, processor_seconds)
    if serial is None:
        return 0
    different = [here.name for here, there in zip(serial, cluster.measures, strict=True) if here != there]
    if different:
        print(f"\nthe cluster measured {len(different)} files differently: {', '.join(different[:5])}", file=sys.stderr)
        return 1
    print(f"\nboth ways gave the same {len(serial):,} results")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    except TimeoutError as error:
        sys.exit(f"measure_code.py: {error}")
