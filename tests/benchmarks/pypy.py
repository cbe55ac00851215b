"""What one task costs in the scheduler on PyPy, beside CPython: `scheduler_core.py` in both.

PyPy 7.3 speaks Python 3.9, and has no pycapnp. So this program makes a copy of the scheduler that 3.9 understands, in
which capnpy takes the place of pycapnp; and another one without any codec, where messages are handed over as objects,
to tell the actors from the codec. CPython runs its own code, and the copy without a codec. What counts is processor
time, so other work on the machine matters less.

    apt-get install pypy3 pypy3-venv capnproto
    pypy3 -m venv /tmp/pypy && /tmp/pypy/bin/pip install capnpy pykka cloudpickle pyzmq
    python tests/benchmarks/pypy.py --pypy /tmp/pypy/bin/python
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]

PREAMBLE = '''\
"""What Python 3.9 lacks."""

import gc
import itertools
import sys
import typing

for _name in ("TypeAlias", "ParamSpec", "Concatenate", "TypeGuard"):
    if not hasattr(typing, _name):
        setattr(typing, _name, typing.TypeVar if _name == "ParamSpec" else typing.Any)
if not hasattr(sys, "stdlib_module_names"):
    sys.stdlib_module_names = frozenset()
if not hasattr(gc, "freeze"):  # PyPy collects in its own way
    gc.freeze = lambda: None
    gc.set_threshold = lambda *thresholds: None
if not hasattr(itertools, "pairwise"):
    itertools.pairwise = lambda values: (lambda made: zip(made, made[1:]))(list(values))
'''

REWRITES = (
    (re.compile(r"dataclass\(slots=True\)"), "dataclass()"),
    (re.compile(r"dataclass\((.*), slots=True"), r"dataclass(\1"),
    (re.compile(r", strict=(True|False)\)"), ")"),
    (re.compile(r"isinstance\((\w+), (\w+) \| (\w+)\)"), r"isinstance(\1, (\2, \3))"),
    (re.compile(r"^(\w+): TypeAlias = .* \| .*$", re.MULTILINE), r"\1 = None"),
    (re.compile(r"^(\w+) = [A-Z]\w*[a-z]\w*( \| \w+)+$", re.MULTILINE), r"\1 = None"),
)
"""What 3.9 does not know: slots of dataclasses, `zip(strict=)`, and unions with `|` outside of annotations."""

SCHEMA_HEAD = re.compile(r"^(@0x\w+;)$", re.MULTILINE)
TEXTS_ARE_STR = '\\1\nusing Py = import "/capnpy/annotate.capnp";\n$Py.options(textType=unicode);'


SCHEMAS = {"_pypy_schemas.py": "schemas.py"}
NO_CODEC = {"_pypy_no_codec.py": "codec.py"}


def make_copy(folder: Path, stand_ins: dict[str, str], is_older: bool) -> Path:
    """Write a copy of the package, the schemas and the benchmark. Return its folder.

    Args:
        stand_ins: which files beside this one take the place of which ones of `scaler/wire/codec`.
        is_older: whether Python 3.9 must understand it.
    """
    shutil.copytree(REPOSITORY / "scaler", folder / "scaler", ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copytree(REPOSITORY / "protocol", folder / "protocol")
    benchmark = (HERE / "scheduler_core.py").read_text()
    (folder / "scheduler_core.py").write_text(benchmark.replace("time.perf_counter", "time.process_time"))
    if is_older:
        for path in folder.rglob("*.py"):
            text = path.read_text()
            for pattern, replacement in REWRITES:
                text = pattern.sub(replacement, text)
            path.write_text(text)
        (folder / "scaler" / "__init__.py").write_text(PREAMBLE)
        for path in (folder / "protocol").glob("*.capnp"):
            text = path.read_text().replace('import "common.capnp"', 'import "/common.capnp"')
            path.write_text(SCHEMA_HEAD.sub(TEXTS_ARE_STR, text))
    for stand_in, name in stand_ins.items():
        shutil.copy(HERE / stand_in, folder / "scaler" / "wire" / "codec" / name)
    return folder


def microseconds(python: str, folder: Path, tasks: int, repeats: int) -> float:
    """Return the best microseconds per task of several runs in one process, so that PyPy has compiled what is hot."""
    program = folder / "scheduler_core.py"
    path = os.pathsep.join((str(folder), str(folder / "protocol")))
    done = subprocess.run(
        [python, str(program), "--tasks", str(tasks), "--repeats", str(repeats)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[0])


def is_ready(pypy: str) -> bool:
    """Return whether there is a PyPy with what the copy imports."""
    if shutil.which(pypy) is None or shutil.which("capnp") is None:
        return False
    needs = "import capnpy, pykka, cloudpickle, zmq"
    return subprocess.run([pypy, "-c", needs], capture_output=True, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pypy", default="pypy3", metavar="COMMAND", help="PyPy (default: pypy3)")
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5, help="in one process; the best one counts (default: 5)")
    parser.add_argument("--rounds", type=int, default=3, help="in turn; the best one counts (default: 3)")
    arguments = parser.parse_args()
    if not is_ready(arguments.pypy):
        print(f"{arguments.pypy} is not there, or has no capnpy, pykka, cloudpickle and pyzmq; --help says more")
        return
    with tempfile.TemporaryDirectory() as folder:
        above = Path(folder)
        runs = (
            ("actors and codec", sys.executable, make_copy(above / "own", {}, is_older=False)),
            ("actors and codec", arguments.pypy, make_copy(above / "older", SCHEMAS, is_older=True)),
            ("actors alone", sys.executable, make_copy(above / "plain", NO_CODEC, is_older=False)),
            ("actors alone", arguments.pypy, make_copy(above / "plain-older", {**SCHEMAS, **NO_CODEC}, is_older=True)),
        )
        best: dict[tuple[str, str], float] = {}
        for _ in range(arguments.rounds):
            for what, python, where in runs:
                figure = microseconds(python, where, arguments.tasks, arguments.repeats)
                best[what, python] = min(figure, best.get((what, python), figure))
    print("| us per task | CPython | PyPy | PyPy / CPython |")
    print("|---|--:|--:|--:|")
    for what in ("actors and codec", "actors alone"):
        ours, theirs = best[what, sys.executable], best[what, arguments.pypy]
        print(f"| {what} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |")


if __name__ == "__main__":
    main()
